"""A pop-up that builds a filter from fields: it edits the text of the filter box and keeps nothing of its own."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtWidgets import QComboBox, QFormLayout, QFrame, QHBoxLayout, QLineEdit, QVBoxLayout, QWidget

from ckpt_gui.core.diff import STATES
from ckpt_gui.core.filtering import replaced, value_of
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.roles import PARTS
from ckpt_gui.gui.looks import STATE_STYLES
from ckpt_gui.gui.panels.filter_box import FilterBox
from ckpt_gui.gui.panels.parts import button, label
from ckpt_gui.gui.widgets.units import GRID
from ckpt_gui.gui.wording import capital

SHOWN_BEFORE = 8  # of the filters used before


class FilterBuilder(QFrame):
    """Fields for what is asked for most. They show what the text says, and each change is written into it.

    Signals:
        edited(): The text was changed here.
    """

    edited = Signal()

    def __init__(self, box: FilterBox, parent: QWidget | None = None) -> None:
        super().__init__(parent, Qt.WindowType.Popup)
        self._box = box
        self.setProperty("card", True)
        self.setAccessibleName(self.tr("Build a filter"))
        self.choices = {name: QComboBox() for name in ("state", "dtype", "part")}
        self.lines = {name: QLineEdit() for name in ("layer", "shape", "size")}
        self.before = QComboBox()
        self._close = button(self.tr("Close"))
        self._lay_out()
        for name, combo in self.choices.items():
            combo.activated.connect(partial(self._write_choice, name))
        for name, line in self.lines.items():
            line.textEdited.connect(partial(self._write, name))
        self.before.activated.connect(self._take_before)
        self._close.clicked.connect(self.close)

    def _lay_out(self) -> None:
        titles = {
            "state": self.tr("&State"), "dtype": self.tr("&Type"), "part": self.tr("&Part"),
            "layer": self.tr("&Layers"), "shape": self.tr("S&hape"), "size": self.tr("Si&ze"),
        }  # fmt: skip
        hints = {"layer": "0-7", "shape": "(_,4096)", "size": ">1MiB"}
        form = QFormLayout()
        form.setHorizontalSpacing(2 * GRID)
        form.setVerticalSpacing(GRID)
        form.setLabelAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        for name, field in (self.choices | self.lines).items():
            field.setAccessibleName(titles[name].replace("&", ""))
            field.setMinimumWidth(14 * self.fontMetrics().height())
            form.addRow(titles[name], field)
        for name, hint in hints.items():
            self.lines[name].setPlaceholderText(hint)
        self.before.setAccessibleName(self.tr("Used before"))
        form.addRow(self.tr("&Used before"), self.before)
        end = QHBoxLayout()
        end.addWidget(label(self.tr("Each field writes a term into the box."), muted=True), 1)
        end.addWidget(self._close)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID)
        layout.setSpacing(2 * GRID)
        layout.addLayout(form)
        layout.addLayout(end)

    def open_below(self, widget: QWidget, dtypes: Iterable[str]) -> None:
        """Show what the box says, below a widget.

        Args:
            widget: The pop-up ends where it does.
            dtypes: The types to choose from.
        """
        self._fill(dtypes)
        self.adjustSize()
        corner = widget.mapToGlobal(QPoint(widget.width() - self.width(), widget.height() + GRID // 2))
        screen = widget.screen().availableGeometry()
        corner.setX(max(screen.left(), min(corner.x(), screen.right() - self.width())))
        corner.setY(max(screen.top(), min(corner.y(), screen.bottom() - self.height())))
        self.move(corner)
        self.show()
        self.choices["state"].setFocus(Qt.FocusReason.PopupFocusReason)

    def _fill(self, dtypes: Iterable[str]) -> None:
        text = self._box.text()
        choices: dict[str, list[tuple[str, str]]] = {
            "state": [(capital(STATE_STYLES[state].word), state) for state in STATES],
            "dtype": [(name, name) for name in sorted(set(dtypes))],
            "part": [(capital(name), name) for name in PARTS],
        }
        for name, combo in self.choices.items():
            _show_choice(combo, self.tr("Any"), choices[name], value_of(text, name))
        for name, line in self.lines.items():
            line.setText(value_of(text, name))
        self.before.clear()
        self.before.setEnabled(bool(self._box.history))
        self.before.setPlaceholderText(self.tr("Choose") if self._box.history else self.tr("None yet"))
        for old in self._box.history[:SHOWN_BEFORE]:
            self.before.addItem(safe_text(old, 60), old)
        self.before.setCurrentIndex(-1)

    def _write_choice(self, name: str, _place: int) -> None:
        self._write(name, str(self.choices[name].currentData()))

    def _write(self, name: str, value: str) -> None:
        self._box.setText(replaced(self._box.text(), name, "".join(value.split())))
        self.edited.emit()

    def _take_before(self, _place: int) -> None:
        self._box.setText(str(self.before.currentData()))
        self.edited.emit()
        self.close()


def _show_choice(combo: QComboBox, any_: str, choices: Iterable[tuple[str, str]], wanted: str) -> None:
    """Show the choices and which one the text wants; what is none of them, such as two at once, is added as it is."""
    combo.clear()
    combo.addItem(any_, "")
    for title, data in choices:
        combo.addItem(title, data)
    if combo.findData(wanted) < 0:
        combo.addItem(safe_text(wanted, 40), wanted)
    combo.setCurrentIndex(combo.findData(wanted))
