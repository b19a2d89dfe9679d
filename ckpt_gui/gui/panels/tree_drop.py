"""Leaving tensors out of the export from the key tree: which may be, and the entry in the tree's menu."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QMenu

from ckpt_gui.core.diff import Row
from ckpt_gui.gui.panels.tree_views import KeyViews
from ckpt_gui.gui.session import Session


class Dropping(QObject):
    """Turns a selection of rows into a decision of the session."""

    def __init__(self, session: Session, view: KeyViews) -> None:
        super().__init__(view)
        self._session = session
        view.menu_opening.connect(self._on_menu)

    def toggle(self) -> None:
        """Leave the selected tensors out of the export, or take them in again; only those that may be left out."""
        snapshot, view = self._session.snapshot, cast(KeyViews, self.parent())
        keys = {row.ref.full_key for row in self._usable(view.selected_rows()) if row.ref is not None}
        if snapshot is None or not keys:
            return
        dropped = snapshot.decisions.policy.dropped
        self._session.change_policy(dropped=dropped - keys if keys <= dropped else dropped | keys)

    def _usable(self, rows: Sequence[Row]) -> list[Row]:
        """Return the rows that the user may leave out: what fits nowhere, and copies that collide."""
        snapshot = self._session.snapshot
        if snapshot is None:
            return []
        collide = {key for f in snapshot.plan.findings if f.code == "key-collision" for key in f.keys}
        return [row for row in rows if row.ref is not None and (row.state == "extra" or row.key in collide)]

    def _on_menu(self, menu: QMenu, rows: Sequence[Row]) -> None:
        usable = self._usable(rows)
        if usable and self._session.snapshot is not None:
            dropped = self._session.snapshot.decisions.policy.dropped
            out = all(row.ref is not None and row.ref.full_key in dropped for row in usable)
            text = self.tr("Take into the export again") if out else self.tr("Leave out of the export")
            menu.addSeparator()
            menu.addAction(text, self.toggle)
