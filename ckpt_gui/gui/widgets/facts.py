"""A list of facts: a quiet name at the left, a value at the right; rows without a value are not shown."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtGui import QFont, QGuiApplication
from PySide6.QtWidgets import QGridLayout, QLabel, QToolButton, QWidget

from ckpt_gui.gui.language import said
from ckpt_gui.gui.widgets.copy_button import CopyButton
from ckpt_gui.gui.widgets.units import GRID, breakable, em, heading, plain_label


class FactList(QWidget):
    """Rows that are made once and filled often.

    Args:
        title: Heading of the list; empty for none.
        names: (id, label) of each row.
        copied: Ids of the rows whose raw value can be copied by a button.
        parent: The widget around it.
    """

    def __init__(
        self, title: str, names: Sequence[tuple[str, str]], copied: Sequence[str] = (), parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setHorizontalSpacing(GRID)
        self._grid.setVerticalSpacing(GRID - 2)
        self._grid.setColumnMinimumWidth(0, em(self, 5.6))
        self._grid.setColumnStretch(1, 1)
        if title:
            self._grid.addWidget(heading(title), 0, 0, 1, 3)
        self._rows: dict[str, tuple[QLabel, QLabel, QToolButton | None]] = {}
        self._raw: dict[str, str] = {}
        for name, text in names:
            self._add(name, text, name in copied)

    def _add(self, name: str, text: str, copied: bool) -> None:
        row = self._grid.rowCount()
        label, value = plain_label(text, muted=True, wrap=False), plain_label()
        if copied:
            button = self._copy_button(name, text)
            self._grid.addWidget(button, row, 2, Qt.AlignmentFlag.AlignTop)
        else:
            button = None
            value.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._grid.addWidget(label, row, 0, Qt.AlignmentFlag.AlignTop)
        self._grid.addWidget(value, row, 1)
        self._rows[name] = (label, value, button)
        self.set_value(name, "")

    def _copy_button(self, name: str, text: str) -> QToolButton:
        button = CopyButton()
        tip = self.tr("Copy: {name}").format(name=text.lower())
        button.setToolTip(tip)
        button.setAccessibleName(tip)
        button.clicked.connect(lambda _=False, name=name: QGuiApplication.clipboard().setText(self._raw[name]))
        return button

    def set_value(self, name: str, text: str, *, raw: str | None = None, font: QFont | None = None) -> None:
        """Fill a row; an empty text hides it.

        Args:
            name: Id of the row.
            text: What is shown.
            raw: What the copy button gives; the shown text if None.
            font: Another font for the value.
        """
        label, value, button = self._rows[name]
        self._raw[name] = text if raw is None else raw
        text = said(text)
        value.setText(breakable(text) if button else text)
        value.setAccessibleName(f"{label.text()}: {text}")
        if font is not None:
            value.setFont(font)
            self._align(label, value)
        for widget in (label, value, button):
            if widget is not None:
                widget.setVisible(bool(text))
        self.setVisible(any(self._raw.values()))

    def set_name(self, name: str, text: str) -> None:
        """Change the label of a row."""
        self._rows[name][0].setText(said(text))

    def _align(self, label: QLabel, value: QLabel) -> None:
        """Put label and value on one base line, whatever their fonts."""
        lower = label.fontMetrics().ascent() - value.fontMetrics().ascent()
        value.setContentsMargins(0, max(0, lower), 0, 0)
        label.setContentsMargins(0, max(0, -lower), 0, 0)

    def value(self, name: str) -> str:
        """Return what a row shows, without break marks."""
        return self._rows[name][1].text().replace("\u200b", "")

    def clear(self) -> None:
        """Empty all rows."""
        for name in self._rows:
            self.set_value(name, "")
