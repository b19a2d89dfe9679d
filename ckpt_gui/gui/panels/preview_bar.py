"""Says, above the key tree, that it shows what would be written and not the file; with the way back."""

from __future__ import annotations

from PySide6.QtWidgets import QWidget

from ckpt_gui.core.after import after_summary
from ckpt_gui.gui.language import said
from ckpt_gui.gui.panels.parts import button
from ckpt_gui.gui.session import Session
from ckpt_gui.gui.snapshot import Snapshot
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.banner import Banner


class PreviewBar(Banner):
    """Hidden while the tree shows the file."""

    def __init__(self, session: Session, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, parent)
        self.back_button = button(self.tr("Back to the file"), tip=self.tr("Show what is in the file again (F9)"))
        self.add_button(self.back_button)
        self.back_button.clicked.connect(lambda: session.set_preview(False))
        self.hide()

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Say what is shown, if it is not the file."""
        if snapshot.preview is not None:
            detail = said(after_summary(snapshot.export, snapshot.diff))
            self.show_text(
                "violet", "⟲", self.tr("Preview: as the plan would write it. Nothing is written yet."), detail
            )
        self.setVisible(snapshot.preview is not None)
