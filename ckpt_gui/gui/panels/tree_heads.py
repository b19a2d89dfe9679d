"""The columns of the key tree as the user wants them: which are shown, in what order and how wide.

Both views follow. Widths are kept in heights of a line, so that they hold in other fonts; what nobody has set shares
the room, and where there is little, columns that matter less give way first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from PySide6.QtCore import QObject, QPoint, Qt, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QHeaderView, QMenu, QWidget

from ckpt_gui.core.row_tree import CODE
from ckpt_gui.gui.language import said
from ckpt_gui.gui.models.tree_columns import COLUMNS, Column
from ckpt_gui.gui.panels.list_view import KeyListView
from ckpt_gui.gui.panels.tree_view import KeyTreeView
from ckpt_gui.gui.panels.tree_views import KeyViews

KEY_EMS = 11.0  # least width of each of the two names
TWO_SHAPES_EMS = 13.0  # of the column of shapes where some rows show two
ROWS_LOOKED_AT = 60  # to divide the room
GIVE_WAY = (Column.SIZE, Column.COUNT, Column.DTYPE)  # first to last, where room is short
_BY_NAME = {spec.name: column for column, spec in COLUMNS.items()}
_NAMES = (Column.KEY, Column.EXPECTED)


class TreeHeads(QObject):
    """The heads of both views, and the menu that changes them.

    Attributes:
        menu: An entry for each column, and one to have all as they were.

    Signals:
        changed(words): The user wants them otherwise; `restore` takes the words.
    """

    changed = Signal(list)

    def __init__(self, views: KeyViews, parent: QWidget) -> None:
        super().__init__(parent)
        self._views = views
        self._order: list[Column] = list(Column)
        self._shown = {column: spec.shown for column, spec in COLUMNS.items()}
        self._widths: dict[Column, float] = {}  # that the user has set, in heights of a line
        self._own = False  # whether a change is made here
        self.menu = QMenu(self.tr("&Columns"), parent)
        self._actions = dict(self._make_menu())
        for view in views.both:
            head = _head(view)
            head.setStretchLastSection(False)
            head.setMinimumSectionSize(2 * self._em)
            head.setSectionsMovable(True)
            head.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
            head.setToolTip(self.tr("Drag to move or widen a column; the right button chooses which are shown"))
            head.customContextMenuRequested.connect(self._on_menu)
            head.sectionResized.connect(self._on_resized)
            head.sectionMoved.connect(self._on_moved)
            view.settled.connect(self.share_room)
        views.tree.header().setFirstSectionMovable(True)
        views.changed.connect(self.share_room)
        self._arrange()

    @property
    def _em(self) -> int:
        return self._views.fontMetrics().height()

    def is_shown(self, column: Column) -> bool:
        """Return True if the user sees a column now."""
        return not _head(self._views.current).isSectionHidden(column)

    # ------------------------------------------------------------------------------------------- what the user wants

    def show_column(self, column: Column, shown: bool) -> None:
        """Show a column, or hide it."""
        self._shown[column] = shown
        self._arrange()
        self._tell()

    def reset(self) -> None:
        """Have all columns as they are at first."""
        self.restore(())
        self._tell()

    def words(self) -> list[str]:
        """Return how the columns are, one word each in their order: `-dtype` for one that is hidden, `key=20.5`."""
        return [
            ("" if self._shown[column] else "-")
            + COLUMNS[column].name
            + (f"={self._widths[column]:.1f}" if column in self._widths else "")
            for column in self._order
        ]

    def restore(self, words: Sequence[str]) -> None:
        """Have the columns as they were; what a word says that nobody knows any more is left out."""
        self._order, self._widths = [], {}
        self._shown = {column: spec.shown for column, spec in COLUMNS.items()}
        for word in words:
            name, _, width = word.removeprefix("-").partition("=")
            column = _BY_NAME.get(name)
            if column is None or column in self._order:
                continue
            self._order.append(column)
            self._shown[column] = not word.startswith("-") or COLUMNS[column].kept
            if width.replace(".", "", 1).isdigit():
                self._widths[column] = min(max(float(width), 2.0), 200.0)
        for column in Column:  # one that is new since then stands where it does at first
            if column not in self._order:
                self._order.insert(min(column, len(self._order)), column)
        self._arrange()

    def _tell(self) -> None:
        self.changed.emit(self.words())

    # ----------------------------------------------------------------------------------------------------- the heads

    def share_room(self) -> None:
        """Divide the room of the view that is shown: names get what their rows need, or half where both need more."""
        view = self._views.current
        with self._changing():
            self._hide(view)
            names = [column for column in _NAMES if not _head(view).isSectionHidden(column)]
            for column in set(Column) - set(names):
                _head(view).resizeSection(column, self._width(column))
            free = [column for column in names if column not in self._widths]
            room = view.viewport().width() - sum(self._width(c) for c in self._seen(view) if c not in free)
            for column in set(names) - set(free):
                _head(view).resizeSection(column, self._width(column))
            for column, width in zip(free, self._shares(view, free, room), strict=True):
                _head(view).resizeSection(column, width)

    def _shares(self, view: KeyTreeView | KeyListView, columns: Sequence[Column], room: int) -> list[int]:
        least = round(KEY_EMS * self._em)
        if len(columns) < 2:
            return [max(least, room)] * len(columns)
        wants = [self._want(view, column) for column in columns]
        spare = room - sum(wants)
        first = wants[0] + spare // 2 if spare >= 0 else min(wants[0], max(room // 2, room - wants[1]))
        first = max(least, min(first, room - least))
        return [first, max(least, room - first)]

    def _want(self, view: KeyTreeView | KeyListView, column: Column) -> int:
        """Return the width that the rows in sight need in a column; Qt's own way looks at many more."""
        width = _head(view).sectionSizeHint(column)
        for _, index in zip(range(ROWS_LOOKED_AT), view.in_sight(), strict=False):
            indent = view.indent(index) if column == Column.KEY else 0
            width = max(width, view.sizeHintForIndex(index.siblingAtColumn(column)).width() + indent)
        return width + self._em

    def _width(self, column: Column) -> int:
        ems = COLUMNS[column].ems or KEY_EMS
        if column == Column.SHAPE and self._has_two_shapes():
            ems = TWO_SHAPES_EMS
        return round(self._widths.get(column, ems) * self._em)

    def _has_two_shapes(self) -> bool:
        """Return True if some rows show the shape in the file beside another one that is expected."""
        return CODE["shape"] in self._views.current.keys.tree.states  # asked often: nothing is counted

    def _seen(self, view: KeyTreeView | KeyListView) -> list[Column]:
        return [column for column in Column if not _head(view).isSectionHidden(column)]

    def _hide(self, view: KeyTreeView | KeyListView) -> None:
        """Hide what the user does not want, and what there is no room for unless somebody gave it a width."""
        seen = [c for c in Column if self._shown[c] and not (c == Column.COUNT and view is self._views.list)]
        room = view.viewport().width()
        for column in GIVE_WAY:
            if sum(self._width(c) for c in seen) <= room:
                break
            if column in seen and column not in self._widths:
                seen.remove(column)
        for column in Column:
            _head(view).setSectionHidden(column, column not in seen)

    def _arrange(self) -> None:
        with self._changing():
            for view in self._views.both:
                head = _head(view)
                self._hide(view)
                for place, column in enumerate(self._order):
                    head.moveSection(head.visualIndex(column), place)
        for column, action in self._actions.items():
            action.setChecked(self._shown[column])
        self.share_room()

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Take no note of what the heads say meanwhile."""
        before, self._own = self._own, True
        try:
            yield
        finally:
            self._own = before

    def _on_resized(self, section: int, _old: int, width: int) -> None:
        if not self._own and width:
            self._widths[Column(section)] = width / self._em
            self.share_room()
            self._tell()

    def _on_moved(self, _section: int, _old: int, _new: int) -> None:
        if not self._own:
            head = _head(self._views.current)
            self._order = [Column(head.logicalIndex(place)) for place in range(len(Column))]
            self._arrange()
            self._tell()

    # ------------------------------------------------------------------------------------------------------ the menu

    def _make_menu(self) -> Iterator[tuple[Column, QAction]]:
        for column, spec in COLUMNS.items():
            action = self.menu.addAction(said(spec.title))
            action.setCheckable(True)
            action.setEnabled(not spec.kept)
            action.setToolTip(said(spec.tip))
            action.toggled.connect(lambda shown, column=column: self._on_toggled(column, shown))
            yield column, action
        self.menu.addSeparator()
        self.menu.addAction(self.tr("&Reset columns"), self.reset)
        self.menu.setToolTipsVisible(True)

    def _on_toggled(self, column: Column, shown: bool) -> None:
        if shown != self._shown[column]:
            self.show_column(column, shown)

    def _on_menu(self, point: QPoint) -> None:
        self.menu.popup(_head(self._views.current).mapToGlobal(point))


def _head(view: KeyTreeView | KeyListView) -> QHeaderView:
    return view.header() if isinstance(view, KeyTreeView) else view.horizontalHeader()
