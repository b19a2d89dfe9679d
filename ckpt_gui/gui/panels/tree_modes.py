"""In which way the keys are shown, with a filter and without, and what is unfolded in each: kept over both."""

from __future__ import annotations

from PySide6.QtCore import QObject

from ckpt_gui.core.row_tree import RowTree
from ckpt_gui.gui.models.tree_columns import FAMILIES_FROM, Mode
from ckpt_gui.gui.panels.tree_unfolding import Unfolding
from ckpt_gui.gui.panels.tree_view import FIRST_ROWS
from ckpt_gui.gui.panels.tree_views import KeyViews

MOST_OPEN = 1_000  # lines that a filter unfolds: some 500 hits and the groups around them


class TreeModes(QObject):
    """Remembers what the user has chosen and unfolded.

    Attributes:
        shown: The mode that is shown, and whether there is a filter.
        after: Whether names are shown as the plan would write them, in a preview.
    """

    def __init__(self, views: KeyViews, unfolding: Unfolding) -> None:
        super().__init__(views)
        self._views, self._unfolding = views, unfolding
        self._chosen: dict[bool, Mode] = {}  # by the user: with a filter, and without
        # names of groups, as they were without a filter: in the file, and in a preview, where names are others
        self._unfolded: dict[tuple[Mode, bool], set[str]] = {}
        self.after = False
        self.shown: tuple[Mode, bool] = ("flat", True)

    @property
    def chosen(self) -> str:
        """How the user wants the keys without a filter; empty if that was left to their number."""
        return self._chosen.get(False, "")

    def choose(self, mode: Mode, *, filtered: bool) -> None:
        """Show the keys in this way from now on, with a filter or without."""
        self._chosen[filtered] = mode

    def wanted(self, tensors: int) -> dict[bool, Mode]:
        """Return how to show the keys, with a filter and without: as the user chose, or as suits their number."""
        usual: dict[bool, Mode] = {False: "families" if tensors >= FAMILIES_FROM else "tree", True: "flat"}
        return usual | self._chosen

    def forget(self) -> None:
        """Begin anew: another checkpoint comes."""
        self._unfolded.clear()
        self._chosen.pop(True, None)
        self.shown, self.after = ("flat", True), False

    def keep(self) -> None:
        """Remember what is unfolded, before something else is shown."""
        mode, filtered = self.shown
        if not filtered and mode != "flat" and self._views.keys.rowCount() and not self._unfolding.running:
            self._unfolded[mode, self.after] = self._views.tree.unfolded()

    def unfold(self, tree: RowTree) -> None:
        """Unfold what was unfolded; with a filter, all that it lets pass if that is not too much."""
        mode, filtered = self.shown
        if filtered:
            few = tree.root.size <= MOST_OPEN // 2
            self._views.tree.unfold_first(tree, MOST_OPEN if few else FIRST_ROWS, members=few)
        elif names := self._unfolded.get((mode, self.after)) or self._unfolded.get((mode, not self.after)):
            self._unfolding.restore(names)
        else:
            self._views.tree.unfold_first(tree)
