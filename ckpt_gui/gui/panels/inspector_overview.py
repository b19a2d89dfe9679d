"""What the first tab of the inspector shows while no single tensor is selected: the group, or the whole checkpoint."""

from __future__ import annotations

from PySide6.QtWidgets import QVBoxLayout, QWidget

from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.text import plural
from ckpt_gui.gui.looks import STATE_STYLES
from ckpt_gui.gui.models.overview import LARGEST, Overview
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.facts import FactList
from ckpt_gui.gui.widgets.units import GRID, breakable, heading, plain_label
from ckpt_gui.gui.wording import count_text, human_bytes


class OverviewPage(QWidget):
    """Shows an `Overview`; None shows that nothing is open."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        tr = self.tr
        self.title = heading("", wrap=True)
        self.hint = plain_label(muted=True)
        self.facts = FactList("", [("tensors", tr("Tensors")), ("size", tr("Size")), ("types", tr("Types"))])
        self.states = FactList(tr("Beside what is expected"), [(name, "") for name in STATE_STYLES])
        self.largest = FactList(tr("Largest tensors"), [(str(place), "") for place in range(LARGEST)])
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(2 * GRID)
        for widget in (self.title, self.facts, self.states, self.largest, self.hint):
            box.addWidget(widget)

    def show_overview(self, overview: Overview | None) -> None:
        """Show a group, or the whole."""
        tr = self.tr
        for facts in (self.facts, self.states, self.largest):
            facts.clear()
        if overview is None:
            self.title.setText(tr("Nothing is open"))
            self.hint.setText("")
            return
        self.title.setText(breakable(safe_text(overview.name, 300)) if overview.name else tr("The whole file"))
        self.hint.setText(tr("Select a tensor in the tree to see what the file says of it."))
        missing = dict(overview.states).get("missing", 0)  # they have a row, and are not in the file
        self.facts.set_value("tensors", count_text(overview.tensors - missing))
        self.facts.set_value("size", human_bytes(overview.nbytes))
        self.facts.set_value("types", _types(overview))
        for state, count in overview.states:
            style = STATE_STYLES[state]
            self.states.set_name(state, f"{style.glyph}  {style.word}")
            self.states.set_value(state, plural(count, "tensor"))
        for place, row in enumerate(overview.largest if len(overview.largest) > 1 else ()):
            self.largest.set_name(str(place), human_bytes(row.nbytes))
            key = breakable(safe_text(row.key, 300))
            self.largest.set_value(str(place), key, raw=row.key, font=self._theme.fixed_font())


def _types(overview: Overview) -> str:
    total = max(1, sum(size for _, size in overview.dtypes))
    return ", ".join(f"{name} {100 * size / total:.3g} %" for name, size in overview.dtypes)
