"""The buttons on a finding's card: what each says, and the command that it gives. A new one is a line here."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ckpt_gui.dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FindingAction:
    """A button.

    Attributes:
        id: Name of the window's action that is triggered; see `gui.actions`.
        text: What it says.
    """

    id: str
    text: str


_CONFIG = FindingAction("choose-config", "Choose a config…")
_REBUILD = FindingAction("export", "Write it with a new index…")
_ASSIGNED = FindingAction("assigned-only", "Use only what the index assigns")
_BY_CODE: Mapping[str, tuple[FindingAction, ...]] = MappingProxyType({
    "config-missing": (_CONFIG,),
    "heads-unknown": (_CONFIG, FindingAction("export", "Give the head counts…")),
    "family-ambiguous": (_CONFIG,),
    "shard-unindexed": (_REBUILD, _ASSIGNED),
    "index-stale": (_REBUILD,),
    "duplicate-tensor": (_ASSIGNED,),
    "several-models": (FindingAction("take-model", "Take one of the models…"),),
    "adapter-empty": (FindingAction("export", "Give alpha…"),),
})  # fmt: skip


def actions_for(code: str) -> tuple[FindingAction, ...]:
    """Return what the window can do about a finding of a code."""
    return _BY_CODE.get(code, ())
