"""Bars over the window's content that tell of something without stopping anybody, each with what can be done."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtGui import QPaintEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from ckpt_gui.core.keys import safe_text
from ckpt_gui.dataclasses import dataclass
from ckpt_gui.gui.language import said
from ckpt_gui.gui.looks import SEVERITY_STYLES
from ckpt_gui.gui.panels.finding_card import coloured
from ckpt_gui.gui.panels.parts import button, label
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.painting import painting
from ckpt_gui.gui.widgets.units import GRID, breakable, quoted, tip_text


@dataclass(frozen=True, slots=True)
class Choice:
    """A button of a notice.

    Attributes:
        text: What it says.
        act: What it does.
        tip: What its tool tip says.
        stays: True if the notice is still there afterwards.
    """

    text: str
    act: Callable[[], object]
    tip: str = ""
    stays: bool = False


class Notices(QWidget):
    """The notices of a window, the latest at the bottom. A later notice of the same name takes the place of the first.

    Attributes:
        by_name: The notices that are shown.
    """

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.by_name: dict[str, Notice] = {}
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(0)
        self.setAccessibleName(self.tr("Notices"))
        self.hide()

    def show_notice(self, name: str, severity: str, text: str, choices: Sequence[Choice] = ()) -> Notice:
        """Show a notice until it is dismissed.

        Args:
            name: What it is about.
            severity: `error`, `warning` or `info`.
            text: A sentence or two; may hold foreign text.
            choices: What can be done about it.
        """
        self.dismiss(name)
        made = Notice(severity, text, self._theme)
        for choice in choices:
            made.add_choice(choice).clicked.connect(lambda _=False, choice=choice: self._choose(name, choice))
        made.add_choice(Choice(self.tr("Dismiss"), str), kind="quiet").clicked.connect(lambda: self.dismiss(name))
        self.by_name[name] = made
        self._column.addWidget(made)
        made.show()
        self.show()
        return made

    def dismiss(self, name: str) -> None:
        """Take a notice away, if it is there."""
        gone = self.by_name.pop(name, None)
        if gone is not None:
            self._column.removeWidget(gone)
            gone.hide()
            gone.deleteLater()
        self.setVisible(bool(self.by_name))

    def text(self, name: str) -> str:
        """Return what a notice says; empty if it is not shown."""
        return self.by_name[name].text.text().replace("\u200b", "") if name in self.by_name else ""

    def _choose(self, name: str, choice: Choice) -> None:
        if not choice.stays:
            self.dismiss(name)
        choice.act()


class Notice(QFrame):
    """One bar."""

    def __init__(self, severity: str, text: str, theme: Theme) -> None:
        super().__init__()
        self._theme, self._role = theme, f"severity.{severity}"
        glyph, word, _ = SEVERITY_STYLES[severity]
        self.text = label(breakable(quoted(text, 900)), wrap=True)
        self.buttons: dict[str, QPushButton] = {}
        line = QHBoxLayout(self)
        line.setContentsMargins(2 * GRID, GRID, 2 * GRID, GRID)
        line.setSpacing(GRID)
        line.addWidget(coloured(glyph, severity, theme))
        line.addWidget(self.text, 1)
        self._line = line
        self.setAccessibleName(f"{said(word)}: {safe_text(quoted(text, 900), 900)}")
        theme.changed.connect(self.update)

    def add_choice(self, choice: Choice, kind: str = "") -> QPushButton:
        """Add a button."""
        made = button(choice.text, kind=kind, tip=tip_text(choice.tip))
        self.buttons[choice.text] = made
        self._line.addWidget(made)
        return made

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint a tinted ground with a line below."""
        with painting(self) as painter:
            painter.fillRect(self.rect(), self._theme.tint(self._role, 0.10, "window"))
            painter.fillRect(0, self.height() - 1, self.width(), 1, self._theme.color(self._role))
