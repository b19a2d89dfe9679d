"""Leads the user to tensors in the tree: those of a finding, of a step of the plan, or of a page."""

from __future__ import annotations

from collections.abc import Collection

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QDockWidget

from ckpt_gui.core.errors import Finding
from ckpt_gui.gui.panels.inspector_panel import InspectorPanel
from ckpt_gui.gui.panels.page_tabs import PageTabs
from ckpt_gui.gui.panels.tree_panel import TreePanel


class Guide(QObject):
    """Turns to the page with the tree, and shows there what was asked for."""

    def __init__(self, tabs: PageTabs, tree: TreePanel, inspector: InspectorPanel, dock: QDockWidget) -> None:
        super().__init__(tabs)
        self._tabs, self._tree, self._inspector, self._dock = tabs, tree, inspector, dock

    def show_keys(self, keys: Collection[str], title: str) -> None:
        """Show only some tensors, and select the first."""
        self._tabs.show_page("tensors")
        self._tree.show_keys(keys, title)
        self._tree.select_first()

    def show_key(self, key: str) -> None:
        """Select a tensor."""
        self._tabs.show_page("tensors")
        self._tree.select_key(key)

    def show_finding(self, finding: Finding) -> None:
        """Show the tensors of a finding. Missing ones go by their state: they have other names in other layouts."""
        if finding.code == "missing-tensor":
            self._tabs.show_page("tensors")
            self._tree.show_state("missing")
            self._tree.select_first()
        else:
            self.show_keys(finding.keys, self.tr("tensors of the finding “{}”").format(finding.code))
        if finding.code.startswith("tied-"):
            self._dock.show()
            self._inspector.show_pair()

    def show_step(self, keys: tuple[str, ...]) -> None:
        """Show the tensors of a step of the plan; all of them again when none is selected."""
        title = self.tr("what is selected in the plan")
        if keys:
            self._tabs.show_page("tensors")
            self._tree.show_keys(keys, title)
        elif self._tree.only == title:
            self._tree.show_keys(None)
