"""Leaving tensors out of the export from the key tree: which may be, and the entry in the tree's menu."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QAbstractItemView, QMenu

from ckpt_gui.core.diff import Row
from ckpt_gui.gui.panels.tree_views import KeyViews
from ckpt_gui.gui.session import Session

_LEAVING = ("buffers", "tie")  # steps that leave tensors out unasked


class Dropping(QObject):
    """Turns a selection of rows into a decision of the session."""

    def __init__(self, session: Session, view: KeyViews) -> None:
        super().__init__(view)
        self._session = session
        view.menu_opening.connect(self._on_menu)
        for each in view.findChildren(QAbstractItemView):
            each.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Space leaves the selected row out, or takes it in again."""
        if isinstance(event, QKeyEvent) and event.key() == Qt.Key.Key_Space and not event.modifiers().value:
            if event.type() == QEvent.Type.KeyPress:
                self.toggle()
            return event.type() == QEvent.Type.KeyPress
        return super().eventFilter(watched, event)

    def toggle(self) -> None:
        """Leave the selected tensors out of the export, or take them in again; only those that may be left out."""
        snapshot, view = self._session.snapshot, cast(KeyViews, self.parent())
        rows = view.selected_rows()
        keys = {row.ref.full_key for row in self._usable(rows) if row.ref is not None}
        if snapshot is None:
            return
        policy = snapshot.decisions.policy
        if self._kept(rows):
            self._session.change_policy(kept=policy.kept - _keys(rows))
            return
        if step := self._step_of(rows):
            one_by_one = step == "buffers" and step not in policy.skip
            self._session.change_policy(
                **({"kept": policy.kept | _keys(rows)} if one_by_one else {"skip": policy.skip ^ {step}})
            )
            return
        if not keys:
            return
        dropped = policy.dropped
        self._session.change_policy(dropped=dropped - keys if keys <= dropped else dropped | keys)

    def _step_of(self, rows: Sequence[Row]) -> str:
        """Return the step that leaves all of these tensors out by itself and can be ticked off; empty if none does."""
        snapshot = self._session.snapshot
        wanted = _keys(rows)
        if snapshot is None or not wanted:
            return ""
        steps = (step for step in snapshot.steps if step.id in _LEAVING and step.optional)
        return next((step.id for step in steps if wanted <= set(step.keys)), "")

    def _kept(self, rows: Sequence[Row]) -> bool:
        """Return True if all of these are computed tensors that are carried along by choice."""
        wanted = _keys(rows)
        return bool(wanted) and wanted <= self._session.decisions.policy.kept

    def _usable(self, rows: Sequence[Row]) -> list[Row]:
        """Return the rows that the user may leave out: what fits nowhere, and copies that collide."""
        snapshot = self._session.snapshot
        if snapshot is None:
            return []
        collide = {key for f in snapshot.plan.findings if f.code == "key-collision" for key in f.keys}
        return [row for row in rows if row.ref is not None and (row.state == "extra" or row.key in collide)]

    def _on_menu(self, menu: QMenu, rows: Sequence[Row]) -> None:
        kept = self._kept(rows)
        if (kept or (step := self._step_of(rows))) and self._session.snapshot is not None:
            skipped = kept or step in self._session.decisions.policy.skip
            menu.addSeparator()
            menu.addAction(
                self.tr("Leave out of the export") if skipped else self.tr("Keep in the export"), self.toggle
            )
            return
        usable = self._usable(rows)
        if usable and self._session.snapshot is not None:
            dropped = self._session.snapshot.decisions.policy.dropped
            out = all(row.ref is not None and row.ref.full_key in dropped for row in usable)
            text = self.tr("Take into the export again") if out else self.tr("Leave out of the export")
            menu.addSeparator()
            menu.addAction(text, self.toggle)


def _keys(rows: Sequence[Row]) -> set[str]:
    """Return the full keys of the rows that are stored."""
    return {row.ref.full_key for row in rows if row.ref is not None}
