"""What the user decides about an export: one value, and words for what changes from one to the next."""

from __future__ import annotations

import os
from collections.abc import Iterator

from ckpt_gui import dataclasses
from ckpt_gui.core.edits import FieldEdit
from ckpt_gui.core.export import GB, Target
from ckpt_gui.core.plan_file import plan_text
from ckpt_gui.core.policy import Policy
from ckpt_gui.core.remote.address import is_url
from ckpt_gui.core.source import Source
from ckpt_gui.core.text import human_bytes, plural
from ckpt_gui.dataclasses import dataclass
from ckpt_gui.gui.layouts import LAYOUTS

_TIES = {
    "auto": "tied pair as the layout wants it", "keep": "keep a stored head", "drop": "leave out an equal head",
    "copy": "always write a head", "none": "the model has no head",
}  # fmt: skip
_STEPS = {"tie": "leave out the head", "buffers": "leave out computed tensors"}
_PLAIN = {
    "section": "choice of section", "family": "choice of family", "heads": "head counts", "kv_heads": "head counts",
    "container": "choice of container", "lora_alpha": "alpha of the adapter",
    "assigned_only": "what the index assigns", "base": "files beside the weights",
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class AdapterChoice:
    """An adapter that shall be merged into the checkpoint.

    Attributes:
        path: What was named.
        source: The adapter, opened.
    """

    path: str
    source: Source


@dataclass(frozen=True, slots=True)
class Decisions:
    """What the user has decided: the undoable part of a session.

    Attributes:
        policy: How the checkpoint is to be understood.
        target: What is to be written.
        adapter: What is to be merged into it.
        config: The config file that it was opened with; empty for the one beside it. Stays as it is.
        salvage: Whether it was opened for what is whole of it only. Stays as it is.
        take: The file of the model that was taken of several in a folder; empty for none. Stays as it is.
        confirmed: Title and evidence of steps that nothing proves and that the user has agreed to.
    """

    policy: Policy = dataclasses.field(default_factory=Policy)
    target: Target = dataclasses.field(default_factory=lambda: Target(layout="hf"))
    adapter: AdapterChoice | None = None
    config: str = ""
    salvage: bool = False
    take: str = ""
    confirmed: frozenset[tuple[str, str]] = frozenset()

    def plan_text(self) -> str:
        """Return what is decided as the text of a plan file, which names an adapter by its whole path."""
        path = self.adapter.path if self.adapter else ""
        return plan_text(self.policy, self.target, path if is_url(path) or not path else os.path.abspath(path))


def taken_again(kept: Decisions, before: Decisions, now: Decisions) -> Decisions:
    """Return the decisions on a checkpoint opened anew: those that were taken before, where any were.

    Args:
        kept: The decisions before it was opened anew.
        before: Those that it had been opened with, of which nobody decided anything.
        now: Those that it is opened with now.
    """
    policy = kept.policy if kept.policy != before.policy else now.policy
    target = kept.target if kept.target != before.target else now.target
    return dataclasses.replace(now, policy=policy, target=target, confirmed=kept.confirmed)


def decision_words(old: Decisions, new: Decisions) -> str:
    """Return what changes, to stand after "Undo" and "Redo" in the menu.

    >>> decision_words(Decisions(), Decisions(target=Target(layout="meta")))
    'layout Meta'
    >>> decision_words(Decisions(), Decisions(Policy(skip=frozenset({"tie"}))))
    'ticking off “leave out the head”'
    """
    return ", ".join(dict.fromkeys(_changes(old, new)))


def _changes(old: Decisions, new: Decisions) -> Iterator[str]:
    if old.target.layout != new.target.layout:  # the container follows it
        yield f"layout {LAYOUTS.get(new.target.layout, new.target.layout)}"
    elif old.target.container != new.target.container:
        yield _PLAIN["container"]
    if old.target.dtype != new.target.dtype:
        yield "keep types" if new.target.dtype == "keep" else f"cast to {new.target.dtype}"
    if old.target.max_shard_bytes != new.target.max_shard_bytes:
        yield _shard_words(new.target.max_shard_bytes)
    if old.target.base != new.target.base:
        yield _PLAIN["base"]
    if old.target.model_parallel != new.target.model_parallel:
        yield f"files for {plural(new.target.model_parallel or 1, 'rank')}"
    yield from _field_changes("metadata", old.target.metadata, new.target.metadata)
    if old.adapter != new.adapter:
        yield "merging of an adapter" if new.adapter else "leaving the adapter out"
    yield from _policy_changes(old.policy, new.policy)
    for title, _ in sorted(new.confirmed - old.confirmed):
        yield f"agreeing to “{title.replace('`', '')}”"
    if old.confirmed - new.confirmed:
        yield "taking an agreement back"


def _policy_changes(old: Policy, new: Policy) -> Iterator[str]:
    for name in ("section", "family", "heads", "kv_heads", "lora_alpha", "assigned_only"):
        if getattr(old, name) != getattr(new, name):
            yield _PLAIN[name]
    if old.tie != new.tie:
        yield _TIES.get(new.tie, new.tie)
    if added := len(new.renames) - len(old.renames):
        yield "a rule for names" if added > 0 else "taking a rule for names back"
    elif old.renames != new.renames:
        yield "another rule for names"
    yield from _field_changes("config", old.config, new.config)
    for step in sorted(old.skip ^ new.skip):
        verb = "ticking off" if step in new.skip else "ticking"
        yield f"{verb} “{_STEPS.get(step, step)}”"
    if out := new.dropped - old.dropped:
        yield f"leaving out {plural(len(out), 'tensor')}"
    if back := old.dropped - new.dropped:
        yield f"taking in {plural(len(back), 'tensor')}"
    if more := new.kept - old.kept:
        yield f"keeping {plural(len(more), 'computed tensor')}"
    if less := old.kept - new.kept:
        yield f"leaving out {plural(len(less), 'computed tensor')}"


def _field_changes(where: str, old: tuple[FieldEdit, ...], new: tuple[FieldEdit, ...]) -> Iterator[str]:
    changed = {edit.name for edit in {*old} ^ {*new}}
    if changed:
        yield f"`{min(changed)}` of the {where}" if len(changed) == 1 else f"fields of the {where}"


def _shard_words(size: int) -> str:
    if size >= 1 << 60:
        return "one file"
    return f"files of at most {human_bytes(size) if size % GB else f'{size // GB} GB'}"
