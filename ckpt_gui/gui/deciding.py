"""The part of a session that takes decisions: each is one step of the undo stack, and a change of a frozen value."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QObject
from PySide6.QtGui import QUndoStack

from ckpt_gui import dataclasses
from ckpt_gui.core.beside import Sidecars
from ckpt_gui.core.edits import Rename
from ckpt_gui.core.export import Target
from ckpt_gui.core.plan import Step
from ckpt_gui.core.policy import Policy
from ckpt_gui.gui.decisions import AdapterChoice, Decisions
from ckpt_gui.gui.snapshot import Snapshot
from ckpt_gui.gui.undo import Decision


class Deciding(QObject):
    """Takes decisions, and leaves it to the session to show what follows from them.

    Attributes:
        snapshot: What is shown; None if nothing is open.
        undo_stack: The decisions taken since opening.
    """

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.snapshot: Snapshot | None = None
        self.undo_stack = QUndoStack(self)
        self._wanted: Decisions | None = None  # taken, and not yet followed by a snapshot
        self._first = Decisions()  # those of a checkpoint just opened

    def follow(self, decisions: Decisions) -> bool:
        """Show what follows from decisions; return False if it is refused at once."""
        raise NotImplementedError

    @property
    def decisions(self) -> Decisions:
        """The latest decisions, followed by a snapshot or not yet."""
        return self._wanted or (self.snapshot.decisions if self.snapshot else Decisions())

    @property
    def unsaved(self) -> bool:
        """True if the plan was edited, beyond what to write it as, and is not as it was opened, saved or exported."""
        now, first = self.decisions, self._first
        edited = (now.policy, now.adapter, now.target.metadata) != (first.policy, first.adapter, first.target.metadata)
        return self.snapshot is not None and edited and not self.undo_stack.isClean()

    def decide(
        self, *, policy: Policy | None = None, target: Target | None = None, adapter: AdapterChoice | None = None
    ) -> None:
        """Take a decision, which can be undone, and publish the snapshot that follows from it."""
        if self.snapshot is not None:
            old = self.decisions
            chosen = (policy or old.policy, target or old.target, adapter or old.adapter)
            self._push(dataclasses.replace(old, policy=chosen[0], target=chosen[1], adapter=chosen[2]))

    def change_policy(self, **changes: Any) -> None:
        """Take a decision that changes some fields of the policy."""
        if self.snapshot:
            self.decide(policy=dataclasses.replace(self.decisions.policy, **changes))

    def change_target(self, **changes: Any) -> None:
        """Take a decision that changes some fields of the target."""
        if self.snapshot:
            self.decide(target=dataclasses.replace(self.decisions.target, **changes))

    def set_rule(self, rule: Rename, number: int | None) -> None:
        """Decide for a rule: in the place of another, or after all others."""
        rules = self.decisions.policy.renames
        made = (*rules, rule) if number is None else (*rules[:number], rule, *rules[number + 1 :])
        self.change_policy(renames=made)

    def take_plan(self, policy: Policy, target: Target, base: Sidecars | None) -> None:
        """Take over decisions that were saved, with the files of the base folder that they name."""
        self.decide(policy=policy, target=dataclasses.replace(target, base=base))

    def confirm(self, step: Step) -> None:
        """Agree to a step that nothing proves, or take that back."""
        if self.snapshot is not None:
            agreed = self.decisions.confirmed ^ {(step.title, step.evidence)}
            self._push(dataclasses.replace(self.decisions, confirmed=agreed))

    def unmerge(self) -> None:
        """Decide that no adapter be merged."""
        if self.snapshot:
            self._push(dataclasses.replace(self.decisions, adapter=None))

    def _push(self, decisions: Decisions) -> None:
        if decisions != self.decisions:
            self.undo_stack.push(Decision(self.follow, self.decisions, decisions))
