"""What a comparison of values says of layers and roles: what did the fine-tune touch?"""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from ckpt_gui.core.compare import Change
from ckpt_gui.gui.models.shares import Bar
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.bars import Bars
from ckpt_gui.gui.widgets.strip import Strip
from ckpt_gui.gui.widgets.units import GRID, heading


class CompareChanges(QWidget):
    """A strip over the layers, and a bar for each kind of tensor: the largest ‖Δ‖/‖W‖.

    Signals:
        chosen(name): A layer or role was chosen.
    """

    chosen = Signal(str)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.layers, self.roles = Strip(theme), Bars(theme, "violet", fixed=True, live=True)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(GRID)
        column.addWidget(heading(self.tr("Change by layer (the largest ‖Δ‖/‖W‖)")))
        column.addWidget(self.layers)
        column.addWidget(heading(self.tr("Change by kind of tensor")))
        column.addWidget(self.roles)
        self.layers.chosen.connect(self.chosen)
        self.roles.chosen.connect(self.chosen)

    def show_changes(self, layers: Sequence[Change], roles: Sequence[Change]) -> None:
        """Show the changes that a comparison of values has found."""
        self.layers.show_bars(self.tr("Largest change by layer"), _bars(layers))
        self.roles.show_bars(_bars(roles))


def _bars(changes: Sequence[Change]) -> list[Bar]:
    made = []
    for change in changes:
        largest = change.relative[-1] if change.relative else 0.0
        share = f" · {100 * change.share:.3g} %" if change.share is not None else ""
        spread = ", ".join(f"{value:.3g}" for value in change.relative)
        tip = f"{change.different:,} of {change.tensors:,} differ; smallest, quartiles and largest: {spread or '–'}"
        made.append(Bar(change.name, largest, f"{largest:.3g}{share}", tip))
    return made
