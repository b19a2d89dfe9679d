"""What the right mouse button offers in the key tree."""

from __future__ import annotations

from PySide6.QtCore import QObject, QPoint, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QMenu

from ckpt_gui.core.row_tree import Node
from ckpt_gui.gui.panels.tree_copy import TreeCopy
from ckpt_gui.gui.panels.tree_unfolding import MOST_UNASKED, Unfolding
from ckpt_gui.gui.panels.tree_views import KeyViews


class TreeMenu(QObject):
    """Makes the menu, to which others add through `menu_opening` of the views."""

    def __init__(self, views: KeyViews, copy: TreeCopy, unfolding: Unfolding) -> None:
        super().__init__(views)
        self._views, self._copy, self._unfolding = views, copy, unfolding
        for view in views.both:
            view.customContextMenuRequested.connect(self._on_menu)

    def _on_menu(self, point: QPoint) -> None:
        index = self._views.current.indexAt(point)
        if not index.isValid():
            return
        menu = QMenu(self._views)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        node = None if self._views.flat else self._views.tree.keys.node(index)
        if node is not None and not node.is_row:
            self._offer_group(menu, node)
        elif (row := self._views.keys.row(index)) is not None:
            menu.addAction(self.tr("Copy key"), self._copy.copy_keys)
            expected = self.tr("Copy expected key")
            copy = menu.addAction(expected, lambda: QGuiApplication.clipboard().setText(row.expected))
            copy.setEnabled(bool(row.expected))
            menu.addAction(self.tr("Copy rows as a table"), self._copy.copy_rows)
            menu.addSeparator()
            menu.addAction(self.tr("Show only this state"), lambda: self._views.state_wanted.emit(row.state))
        self._views.menu_opening.emit(menu, self._views.selected_rows())
        menu.popup(self._views.current.viewport().mapToGlobal(point))

    def _offer_group(self, menu: QMenu, node: Node) -> None:
        title = self._views.tree.keys.tree.title(node)
        menu.addAction(self.tr("Copy name"), lambda: QGuiApplication.clipboard().setText(title))
        menu.addAction(self.tr("Copy rows as a table"), self._copy.copy_rows)
        menu.addSeparator()
        below = menu.addAction(self.tr("Unfold all below"), lambda: self._unfolding.unfold([node]))
        below.setEnabled(node.size <= MOST_UNASKED)
        menu.addAction(self.tr("Fold"), lambda: self._unfolding.fold([node]))
