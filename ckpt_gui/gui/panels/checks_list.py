"""What was checked and is as it should be: a line that unfolds into the list."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from ckpt_gui.core.text import plural
from ckpt_gui.gui.language import said
from ckpt_gui.gui.looks import SEVERITY_STYLES
from ckpt_gui.gui.panels.finding_card import coloured
from ckpt_gui.gui.panels.parts import button, label
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.units import GRID


class ChecksList(QWidget):
    """The checks that passed.

    Signals:
        folded(unfolded): The user unfolded or folded the list.
    """

    folded = Signal(bool)

    def __init__(self, passed: Sequence[str], theme: Theme, *, unfolded: bool) -> None:
        super().__init__()
        self._passed, self._theme = passed, theme
        self.fold = button("", kind="quiet")
        self._inner = self._make_lines()
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(GRID // 2)
        layout.addWidget(self.fold, 0, Qt.AlignmentFlag.AlignLeft)
        layout.addWidget(self._inner)
        self._unfolded = unfolded
        self._show()
        self.fold.clicked.connect(self._toggle)

    def _make_lines(self) -> QWidget:
        inner = QWidget()
        lines = QVBoxLayout(inner)
        lines.setContentsMargins(2 * GRID, 0, GRID, 0)
        lines.setSpacing(GRID // 2)
        for text in self._passed:
            line = QHBoxLayout()
            line.setSpacing(GRID)
            line.addWidget(coloured(SEVERITY_STYLES["ok"][0], "ok", self._theme), 0, Qt.AlignmentFlag.AlignTop)
            line.addWidget(label(text, wrap=True), 1)
            lines.addLayout(line)
        return inner

    def _toggle(self) -> None:
        self._unfolded = not self._unfolded
        self._show()
        self.folded.emit(self._unfolded)

    def _show(self) -> None:
        count = plural(len(self._passed), "check")
        self._inner.setVisible(self._unfolded)
        passed = self.tr("{} passed").format(said(count))
        self.fold.setText(f"{'▾' if self._unfolded else '▸'}  {passed}")
        state = self.tr("shown") if self._unfolded else self.tr("folded")
        self.fold.setAccessibleName(f"{passed}, {state}")
