"""The strip at the right edge of the key tree: where the differences lie among the lines as they stand."""

from __future__ import annotations

from itertools import islice

from PySide6.QtCore import QObject, QTimer

from ckpt_gui.core.diff import STATES
from ckpt_gui.core.row_tree import CODE, Node
from ckpt_gui.core.tree import DIFFERENT
from ckpt_gui.gui.panels.tree_views import KeyViews
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.overview_strip import OverviewStrip

ROLES = tuple(f"state.{state}" if state in DIFFERENT else "" for state in STATES)  # by code
_CODES = tuple(CODE[state] for state in STATES if state in DIFFERENT)  # the one with most attention first
_NONE = CODE["same"]
MOST_LINES = 100_000  # of an unfolded tree


class TreeStrip(QObject):
    """Keeps a strip beside the views. A folded group has the mark of what it holds that wants most attention."""

    def __init__(self, views: KeyViews, theme: Theme) -> None:
        super().__init__(views)
        self._views = views
        self._lines: list[Node] = []
        self.strip = OverviewStrip(theme)
        self._later = QTimer(self, singleShot=True, interval=30)
        self._later.timeout.connect(self.look)
        views.changed.connect(self._later.start)
        keys = views.tree.keys
        for signal in (views.tree.expanded, views.tree.collapsed, keys.rowsInserted):
            signal.connect(lambda *_: self._later.start())
        self.strip.chosen.connect(self._go_to)

    def look(self) -> None:
        """Look at the lines anew."""
        self._later.stop()
        if self._views.flat:
            self._lines = []
            self.strip.show_codes(self._views.list.keys.codes, ROLES)
            return
        view, states = self._views.tree, self._views.tree.keys.tree.states
        self._lines = list(islice(view.lines(), MOST_LINES))
        opened = {node.parent for node in self._lines}
        codes = [states[n.lo] if n.is_row else _NONE if n in opened else _worst(states, n) for n in self._lines]
        self.strip.show_codes(bytes(codes), ROLES)

    def _go_to(self, line: int) -> None:
        """Go to a line, or in a folded group to the first difference."""
        if self._views.flat:
            self._views.list.go_to_place(line)
        elif line < len(self._lines):
            node, tree = self._lines[line], self._views.tree.keys.tree
            self._views.tree.go_to(node if node.is_row else tree.first_row(node, DIFFERENT) or node)


def _worst(states: bytes, group: Node) -> int:
    """Return the code of what wants most attention in a folded group; that of an unfolded one is left to its rows."""
    return next((code for code in _CODES if states.find(code, group.lo, group.hi) >= 0), _NONE)
