"""One explanation of a message as a card: the kind, the cause, what to do, and the commands with their buttons."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QFrame, QGridLayout, QPushButton, QWidget

from ckpt_gui.core.explain import Explanation
from ckpt_gui.gui.fix_command import joined
from ckpt_gui.gui.language import said
from ckpt_gui.gui.models.deeds import Deed, deed
from ckpt_gui.gui.panels.parts import Card, FlowLayout, button, label
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.copy_button import CopyButton
from ckpt_gui.gui.widgets.units import GRID, breakable, quoted


class ExplainCard(Card):
    """One explanation.

    Signals:
        deed_wanted(deed): A button was pressed.
    """

    deed_wanted = Signal(object)

    def __init__(self, found: Explanation, path: str, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.explanation = found
        self.body.setSpacing(GRID)
        self.body.addWidget(label(f"{found.kind}  ·  {found.title}", bold=True, wrap=True))
        self.body.addWidget(label(_shown(found.says), wrap=True))
        if found.beside:
            self.body.addWidget(label(("✓ " if found.confirmed else "") + _shown(found.beside), bold=True, wrap=True))
        self.body.addWidget(label(_shown(found.do), muted=True, wrap=True))
        self.buttons: list[QPushButton] = []
        self._add_deeds([made for step in found.steps if (made := deed(step, is_open=bool(path)))])
        self._add_commands([joined(step.command(path)) for step in found.steps], theme)
        self.setAccessibleName(f"{found.title}: {quoted(found.says)}")
        self.setAccessibleDescription(quoted(found.do))

    def _add_deeds(self, deeds: list[Deed]) -> None:
        if not deeds:
            return
        row = QWidget()
        flow = FlowLayout(row)
        for each in dict.fromkeys(deeds):
            made = button(said(each.text).replace("&", "&&"))
            made.clicked.connect(lambda _=False, each=each: self.deed_wanted.emit(each))
            self.buttons.append(made)
            flow.addWidget(made)
        self.body.addWidget(row)

    def _add_commands(self, commands: list[str], theme: Theme) -> None:
        box = QFrame()
        grid = QGridLayout(box)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setHorizontalSpacing(GRID)
        grid.setVerticalSpacing(GRID // 2)
        grid.setColumnStretch(0, 1)
        for row, command in enumerate(commands):
            line = label(breakable(quoted(command)), wrap=True)
            line.setFont(theme.fixed_font())
            line.setAccessibleName(command)
            copy = CopyButton()
            copy.setToolTip(self.tr("Copy this command"))
            copy.setAccessibleName(self.tr("Copy the command {}").format(quoted(command)))
            copy.clicked.connect(lambda _=False, command=command: QGuiApplication.clipboard().setText(command))
            grid.addWidget(line, row, 0)
            grid.addWidget(copy, row, 1, Qt.AlignmentFlag.AlignTop)
        self.body.addWidget(box)


def _shown(text: str) -> str:
    return breakable(quoted(text, 1000))
