"""The figures of two tensors in two columns; figures that differ are bold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QGridLayout, QLabel, QWidget

from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.units import GRID, plain_label
from ckpt_gui.gui.wording import figure_text

if TYPE_CHECKING:
    from ckpt_gui.core.stats import TensorStats

LONG = 10  # characters that do not fit twice into a narrow dock


class CompareTable(QFrame):
    """Rows of figures, a column a side."""

    def __init__(self, theme: Theme, names: tuple[str, str], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._names = names
        tr = self.tr
        self._rows = {
            "mean": tr("Mean"), "std": tr("Deviation"), "min": tr("Minimum"), "max": tr("Maximum"), "l2": tr("L2 norm"),
            "zeros": tr("Zeros"), "nan": "NaN", "pos_inf": "+Inf", "neg_inf": "−Inf",
        }  # fmt: skip
        self._cells: dict[str, tuple[QLabel, QLabel, QLabel]] = {}
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setHorizontalSpacing(GRID)
        self._grid.setVerticalSpacing(GRID // 2)
        self._grid.setColumnStretch(0, 1)
        for column, name in enumerate(names, start=1):
            self._grid.addWidget(self._cell(name, bold=True), 0, column)
        for row, (name, text) in enumerate(self._rows.items(), start=1):
            cells = (plain_label(text, muted=True, wrap=False), self._cell(), self._cell())
            for column, cell in enumerate(cells):
                self._grid.addWidget(cell, row, column)
            self._cells[name] = cells

    def _cell(self, text: str = "", *, bold: bool = False) -> QLabel:
        label = plain_label(text, wrap=False)
        label.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        if bold:
            font = label.font()
            font.setBold(True)
            label.setFont(font)
        return label

    def show_pair(self, a: TensorStats, b: TensorStats) -> None:
        """Fill both columns; rows of counts that are 0 on both sides are hidden."""
        for name, cells in self._cells.items():
            values = (getattr(a, name), getattr(b, name))
            counted = name in ("nan", "pos_inf", "neg_inf")
            font = self._theme.fixed_font()
            font.setBold(values[0] != values[1])
            texts = _texts(*values)
            for cell, text, value, side in zip(cells[1:], texts, values, self._names, strict=True):
                cell.setText(text)
                cell.setToolTip(figure_text(value))
                cell.setFont(font)
                cell.setAccessibleName(f"{self._rows[name]}, {side}: {figure_text(value)}")
            for cell in cells:
                cell.setVisible(not counted or any(values))

    def text(self, name: str, side: int) -> str:
        """Return the figure shown for a side (0 or 1)."""
        return self._cells[name][1 + side].text()


def _texts(a: float | None, b: float | None) -> tuple[str, str]:
    """Return two figures; long ones with fewer digits, unless that hides a difference.

    >>> _texts(0.0198743, 0.5), _texts(-1.23457e-05, 1.0), _texts(-1.23457e-05, -1.23458e-05)
    (('0.0198743', '0.5'), ('-1.235e-05', '1'), ('-1.23457e-05', '-1.23458e-05'))
    """
    full = (figure_text(a), figure_text(b))
    if a is None or b is None or isinstance(a, int) or isinstance(b, int) or max(map(len, full)) < LONG:
        return full
    short = (f"{a:.4g}", f"{b:.4g}")
    return full if a != b and short[0] == short[1] else short
