"""The legend of glyphs and of the filter, the first steps, and what the program is."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QIcon
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QGridLayout, QHBoxLayout, QLabel, QVBoxLayout, QWidget

from ckpt_gui.core.filtering import FIELDS
from ckpt_gui.core.version import installed
from ckpt_gui.desktop.resources import ICON, resource
from ckpt_gui.gui.looks import SEVERITY_STYLES, STATE_STYLES
from ckpt_gui.gui.panels.parts import Card, button, label
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.scroll_body import ScrollBody, scroll_area
from ckpt_gui.gui.widgets.units import GRID

_LEGEND_EMS = 66  # width of the legend with its columns side by side


class LegendDialog(QDialog):
    """Says what each glyph means, and what the filter understands."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.setWindowTitle(self.tr("Legend"))
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        looks = QVBoxLayout()
        looks.setSpacing(2 * GRID)
        looks.addWidget(self._states())
        looks.addWidget(self._severities())
        looks.addStretch(1)
        body = ScrollBody()
        # Side by side: one below the other is higher than small screens. Where the letters are large it scrolls.
        room, em = self.screen().availableSize() * 0.9, self.fontMetrics().height()
        side_by_side = room.width() >= _LEGEND_EMS * em
        columns = QHBoxLayout(body) if side_by_side else QVBoxLayout(body)
        columns.setContentsMargins(0, 0, 0, 0)
        columns.setSpacing(2 * GRID)
        columns.addLayout(looks)
        columns.addWidget(self._filter(), 0, Qt.AlignmentFlag.AlignTop)
        area = scroll_area(body)
        area.setAccessibleName(self.tr("Legend"))
        layout = QVBoxLayout(self)
        layout.setContentsMargins(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID)
        layout.setSpacing(2 * GRID)
        layout.addWidget(area, 1)
        layout.addWidget(_close_button(self))
        wanted = columns.sizeHint()
        width = (_LEGEND_EMS if side_by_side else _LEGEND_EMS // 2) * em
        self.resize(min(width, room.width()), min(wanted.height() + 7 * em, room.height()))

    def _states(self) -> QWidget:
        card = Card()
        card.body.addWidget(label(self.tr("How a tensor compares"), bold=True, size=1.15))
        grid = _grid()
        for line, style in enumerate(STATE_STYLES.values()):
            grid.addWidget(self._glyph(style.glyph, f"state.{style.name}"), line, 0)
            word = label(style.word)
            word.setFont(self._theme.state_font(style.name))
            grid.addWidget(word, line, 1)
            grid.addWidget(label(style.meaning, muted=True, wrap=True), line, 2)
        card.body.addLayout(grid)
        return card

    def _severities(self) -> QWidget:
        card = Card()
        card.body.addWidget(label(self.tr("How serious a finding is"), bold=True, size=1.15))
        meanings = {
            "error": self.tr("It will not load, or not rightly."),
            "warning": self.tr("Something is not as it should be."),
            "info": self.tr("Good to know."),
            "ok": self.tr("Checked, and as it should be."),
        }
        grid = _grid()
        for line, (name, (glyph, word, _)) in enumerate(SEVERITY_STYLES.items()):
            grid.addWidget(self._glyph(glyph, f"severity.{name}"), line, 0)
            grid.addWidget(label(word), line, 1)
            grid.addWidget(label(meanings[name], muted=True, wrap=True), line, 2)
        card.body.addLayout(grid)
        return card

    def _filter(self) -> QWidget:
        card = Card()
        card.body.addWidget(label(self.tr("What the filter can ask for"), bold=True, size=1.15))
        words = self.tr("All terms must hold. ! before one leaves out, a|b is or, quotes go round spaces.")
        card.body.addWidget(label(words, muted=True, wrap=True))
        grid = _grid()
        for line, field in enumerate(FIELDS):
            grid.addWidget(label(field.example), line, 0)
            grid.addWidget(label(field.meaning, muted=True, wrap=True), line, 2)
        card.body.addLayout(grid)
        return card

    def _glyph(self, text: str, role: str) -> QLabel:
        made = label(text, bold=True, size=1.15)
        made.setAlignment(Qt.AlignmentFlag.AlignCenter)
        palette = made.palette()
        palette.setColor(made.foregroundRole(), self._theme.color(role))
        made.setPalette(palette)
        return made


class AboutDialog(QDialog):
    """Says what the program is and does."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(self.tr("About ckpt_gui"))
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        mark = QLabel()
        side = 4 * self.fontMetrics().height()
        mark.setPixmap(QIcon(str(resource(ICON))).pixmap(QSize(side, side)))
        words = QVBoxLayout()
        words.setSpacing(GRID)
        words.addWidget(label(f"ckpt_gui {program_version()}", size=1.5, bold=True))
        for text in (
            self.tr(
                "Opens a language-model checkpoint, shows how it differs from what it should be, and writes it fixed."
            ),
            self.tr("Nothing in a file is ever executed. Nothing is ever written over a source."),
            self.tr("Apache License 2.0."),
        ):
            line = label(text, wrap=True, muted=True)
            line.setMinimumWidth(24 * self.fontMetrics().height())
            words.addWidget(line)
        top = QHBoxLayout()
        top.setSpacing(3 * GRID)
        top.addWidget(mark, 0, Qt.AlignmentFlag.AlignTop)
        top.addLayout(words)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(3 * GRID, 3 * GRID, 3 * GRID, 2 * GRID)
        layout.setSpacing(2 * GRID)
        layout.addLayout(top)
        layout.addWidget(_close_button(self))


def program_version() -> str:
    """Return the version that is installed."""
    return installed("ckpt_gui") or "(not installed)"


def _grid() -> QGridLayout:
    grid = QGridLayout()
    grid.setHorizontalSpacing(2 * GRID)
    grid.setVerticalSpacing(GRID // 2 + 2)
    grid.setColumnStretch(2, 1)
    return grid


def _close_button(dialog: QDialog) -> QDialogButtonBox:
    box = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
    box.rejected.connect(dialog.close)
    return box


class HelpDialog(QDialog):
    """What is where, and how a checkpoint is fixed: enough to begin with.

    Signals:
        wanted(name): More is wanted: `legend`, `shortcuts` or `explain`.
    """

    wanted = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(self.tr("First steps"))
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        body = ScrollBody()
        column = QVBoxLayout(body)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(2 * GRID)
        for title, text in self._parts():
            card = Card()
            card.body.addWidget(label(title, bold=True, size=1.15))
            card.body.addWidget(label(text, wrap=True))
            column.addWidget(card)
        column.addStretch(1)
        self.area = scroll_area(body)
        self.area.setAccessibleName(self.tr("First steps"))
        box = _close_button(self)
        for name, words in (
            ("legend", self.tr("Legend")),
            ("shortcuts", self.tr("Keyboard shortcuts")),
            ("explain", self.tr("Explain an error")),
        ):
            way = button(words)
            way.clicked.connect(lambda _=False, name=name: self._go(name))
            box.addButton(way, QDialogButtonBox.ButtonRole.ActionRole)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID)
        layout.setSpacing(2 * GRID)
        layout.addWidget(self.area, 1)
        layout.addWidget(box)
        em = self.fontMetrics().height()
        room = self.screen().availableSize() * 0.9
        self.resize(min(40 * em, room.width()), min(36 * em, room.height()))

    def _parts(self) -> tuple[tuple[str, str], ...]:
        return (
            (
                self.tr("Open"),
                self.tr(
                    "Drop a file or a folder onto the window, or press Ctrl+O. It is only read: nothing in it is "
                    "executed, and nothing is ever written over it."
                ),
            ),
            (
                self.tr("See"),
                self.tr(
                    "On the left stands what the checkpoint is and what was found; a click on a finding shows its "
                    "tensors. In the middle every tensor stands beside what is expected. F8 goes to the next "
                    "difference, Ctrl+F filters, and the inspector on the right tells all about the selected one."
                ),
            ),
            (
                self.tr("Fix"),
                self.tr(
                    "The plan below lists every change before it is made, and each can be ticked off. Ctrl+Z takes "
                    "any decision back."
                ),
            ),
            (
                self.tr("Write"),
                self.tr(
                    "Ctrl+E writes a new folder, reads it again and compares it. What another program said of the "
                    "checkpoint can be pasted into “Explain an error”."
                ),
            ),
            (
                self.tr("Find everything"),
                self.tr("Ctrl+Shift+P finds any command by a few letters, and any tensor after an @."),
            ),
        )

    def _go(self, name: str) -> None:
        self.accept()
        self.wanted.emit(name)
