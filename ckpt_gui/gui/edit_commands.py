"""What the actions do that change a plan by hand: names, fields, what is left out; and plans as files."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from PySide6.QtWidgets import QFileDialog, QMenu

from ckpt_gui import dataclasses
from ckpt_gui.core.candidates import Candidate, rule_for
from ckpt_gui.core.diff import Row
from ckpt_gui.core.edits import FieldEdit, Rename
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.rows import in_state, row_of
from ckpt_gui.gui.help_commands import HelpCommands
from ckpt_gui.gui.models.rule_preview import start_rule
from ckpt_gui.gui.panels.fields_dialog import FieldsDialog
from ckpt_gui.gui.panels.map_dialog import MapDialog
from ckpt_gui.gui.panels.rule_dialog import RuleDialog

PLANS = "Fix plans (*.json);;All files (*)"


class EditCommands(HelpCommands):
    """The commands of one window that change its plan by hand."""

    def rename_key(self) -> None:
        """Let the user give the current key another name, or change the rule that gave it one."""
        snapshot, row = self._window.session.snapshot, self._row()
        if snapshot is None or row is None or row.ref is None:
            return
        try:
            rule, number = start_rule(snapshot.plan, row.ref.key)
        except CheckpointError as error:
            self._window.tell.trouble(error)
            return
        self._edit(rule, number)

    def fill_menu(self, menu: QMenu, rows: Sequence[Row]) -> None:
        """Offer what can be done with the name of a row, in the menu of the tree."""
        actions = self._window.actions_by_id
        if len(rows) == 1:
            menu.addSeparator()
            if rows[0].ref is not None:
                menu.addAction(actions["rename"])
            menu.addAction(actions["map"])

    def add_rule(self) -> None:
        """Let the user write a rule by a regular expression."""
        self._edit(Rename("", "", "regex"), None)

    def edit_rule(self, number: int) -> None:
        """Let the user change a rule of the plan."""
        rules = self._window.session.decisions.policy.renames
        if 0 <= number < len(rules):
            self._edit(rules[number], number)

    def _edit(self, rule: Rename, number: int | None) -> None:
        window = self._window
        snapshot = window.session.snapshot
        if snapshot is None:
            return
        place = len(snapshot.decisions.policy.renames) if number is None else number
        dialog = RuleDialog(window.jobs, window.theme, snapshot.plan, rule, place, window)
        dialog.accepted_rule.connect(lambda made: window.session.set_rule(made, number))
        dialog.finished.connect(lambda _: dialog.deleteLater())
        dialog.open()

    def map_to_expected(self) -> None:
        """Let the user say which expected tensor the current one is."""
        window, row = self._window, self._row()
        snapshot = window.session.snapshot
        if snapshot is None or row is None:
            return
        dialog = MapDialog(window.jobs, window.theme, snapshot.diff, row, window)
        dialog.chosen.connect(partial(self._map, row))
        dialog.finished.connect(lambda _: dialog.deleteLater())
        dialog.open()

    def _map(self, row: Row, candidate: Candidate) -> None:
        session, other = self._window.session, candidate.row
        stored, wanted = (row, other) if row.ref is not None else (other, row)
        if session.snapshot is None or stored.ref is None:
            return
        try:
            session.set_rule(rule_for(session.snapshot.export, stored.ref, wanted.expected), None)
        except CheckpointError as error:
            self._window.tell.trouble(error)

    def _row(self) -> Row | None:
        """Return the current row of the tree, as it is in the file; without one, the first that is missing."""
        window = self._window
        rows = window.tree_panel.view.selected_rows()
        snapshot = window.session.snapshot
        if snapshot is None:
            return None
        if not rows:
            return next(in_state(snapshot.diff.rows, "missing"), None)
        row = rows[0]
        return (row_of(snapshot.diff.rows, row.ref) or row) if row.ref is not None else row

    # --------------------------------------------------------------------------------------------------------- fields

    def edit_fields(self, field: str = "") -> None:
        """Let the user change fields of the config, and the metadata."""
        window = self._window
        if window.session.snapshot is None:
            return
        dialog = FieldsDialog(window.theme, window.session.snapshot, field, window)
        dialog.edited.connect(self._set_fields)
        dialog.finished.connect(lambda _: dialog.deleteLater())
        dialog.open()

    def _set_fields(self, config: tuple[FieldEdit, ...], metadata: tuple[FieldEdit, ...]) -> None:
        session = self._window.session
        old = session.decisions
        policy = dataclasses.replace(old.policy, config=config)
        session.decide(policy=policy, target=dataclasses.replace(old.target, metadata=metadata))

    # ---------------------------------------------------------------------------------------------------------- files

    def save_plan(self) -> None:
        """Let the user save the plan as a file."""
        title = self.tr("Save the fix plan")
        path, _ = QFileDialog.getSaveFileName(self._window, title, self._plan_name(), PLANS)
        if path:
            self._window.plan_keeper.save(path)

    def load_plan(self) -> None:
        """Let the user take over a plan that was saved."""
        path, _ = QFileDialog.getOpenFileName(self._window, self.tr("Load a fix plan"), self._plan_name(), PLANS)
        if path:
            self._window.plan_keeper.load(path)

    def _plan_name(self) -> str:
        return self._window.plan_keeper.suggested()
