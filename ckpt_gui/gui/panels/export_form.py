"""The first page of the export dialog: what to write, where, and what should be known before."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QScrollArea, QVBoxLayout, QWidget

from ckpt_gui.core.keys import safe_text
from ckpt_gui.gui.panels.export_choices import ChoicesCard
from ckpt_gui.gui.panels.export_confirm import ConfirmCard
from ckpt_gui.gui.panels.export_findings import FindingsCard, OutcomeBanner
from ckpt_gui.gui.panels.export_place import PlaceCard
from ckpt_gui.gui.panels.parts import Card, button
from ckpt_gui.gui.snapshot import Snapshot
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.scroll_body import ScrollBody
from ckpt_gui.gui.widgets.units import GRID, breakable, heading, plain_label


class ExportForm(QScrollArea):
    """The cards of the page, one below the other.

    Attributes:
        choices: What to write.
        place: Where to.
        banner: What stands in the way.
        confirm: What wants a tick.
    """

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._body = body = ScrollBody(self)
        self.setWidget(body)  # before there is much in it: Qt styles again all that gets a parent
        self.banner = OutcomeBanner(theme)
        self.choices, self.place, self.carried = ChoicesCard(), PlaceCard(theme), CarriedCard()
        self.findings, self.confirm = FindingsCard(theme), ConfirmCard()
        column = QVBoxLayout(body)
        column.setContentsMargins(2 * GRID, 2 * GRID, 2 * GRID, GRID)
        column.setSpacing(12)
        for card in (self.banner, self.confirm, self.choices, self.place, self.carried, self.findings):
            column.addWidget(card)
        column.addStretch(1)

    def minimumSizeHint(self) -> QSize:
        """Return the width that the cards need at least: what is wider than the page is cut."""
        hint, bar = super().minimumSizeHint(), self.verticalScrollBar().sizeHint().width()
        return QSize(max(hint.width(), self._body.minimumSizeHint().width() + bar), hint.height())

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Show the decisions and what follows from them."""
        self.choices.show_snapshot(snapshot)
        self.carried.show_snapshot(snapshot)
        self.confirm.show_snapshot(snapshot)
        findings = snapshot.export.findings
        self.findings.show_findings([finding for finding in findings if not finding.blocking])
        self.banner.show_blocking([finding for finding in findings if finding.blocking])

    def say_error(self, error: BaseException, command: str, detail: str = "") -> None:
        """Say why the last attempt failed, where it is seen."""
        self.banner.say_error(error, command, detail)
        if self.banner.isVisible():
            self.ensureWidgetVisible(self.banner)

    def say(self, role: str, glyph: str, title: str, detail: str) -> None:
        """Say how the last attempt ended, where it is seen."""
        self.banner.say(role, glyph, title, detail)
        if self.banner.isVisible():
            self.ensureWidgetVisible(self.banner)


class CarriedCard(Card):
    """What lies beside the weights, and where more of it can be taken from.

    Signals:
        base_requested(): The user wants to name a folder to take it from.
        base_dropped(): Nothing shall be taken from that folder any more.
    """

    base_requested = Signal()
    base_dropped = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.names = plain_label()
        self.base_note = plain_label(muted=True)
        self.base_button = button(
            self.tr("Take from a folder…"),
            tip=self.tr("Carry config, tokenizer and generation files of another folder"),
        )
        self.drop_base_button = button(self.tr("Without"), kind="quiet", tip=self.tr("Carry nothing from that folder"))
        row = QHBoxLayout()
        row.addWidget(heading(self.tr("Beside the weights")), 1)
        row.addWidget(self.drop_base_button)
        row.addWidget(self.base_button)
        self.body.addLayout(row)
        self.body.addWidget(self.names)
        self.body.addWidget(self.base_note)
        self.base_button.clicked.connect(self.base_requested)
        self.drop_base_button.clicked.connect(self.base_dropped)

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Say what an export carries along, and what it writes anew."""
        export, base = snapshot.export, snapshot.decisions.target.base
        written = [self.tr("{name} (written anew)").format(name=safe_text(name)) for name in export.texts]
        names = [*written, *(safe_text(name) for name in export.carried)]
        self.names.setText(
            ", ".join(names) if names else self.tr("Nothing: no config and no tokenizer lie beside the source.")
        )
        folder = base.folder if base else None
        self.base_note.setText(
            self.tr("Filled up from {folder}").format(folder=breakable(safe_text(folder))) if folder else ""
        )
        self.base_note.setVisible(bool(folder))
        self.drop_base_button.setVisible(bool(folder))
