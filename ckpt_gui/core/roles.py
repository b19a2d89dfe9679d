"""What a tensor of a model is for: its part, its role, and the layer and expert that it belongs to.

A role is the name without its numbers, so that the same matrix of every layer has the same role. Tensors that fit no
slot get theirs from their own names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import repeat

from ckpt_gui.core.entry import Entry
from ckpt_gui.core.key_groups import group_keys
from ckpt_gui.core.keys import index_names, indices, template
from ckpt_gui.core.plan import Plan
from ckpt_gui.dataclasses import dataclass

EMBEDDING, HEAD, EXPERTS, ATTENTION, FEED_FORWARD, NORMS, OTHER = (
    "embedding", "head", "experts", "attention", "feed-forward", "norms", "other",
)  # fmt: skip
PARTS = (EMBEDDING, HEAD, EXPERTS, ATTENTION, FEED_FORWARD, NORMS, OTHER)
# Words in a name, the first that fits decides: a norm of attention heads is a norm, an expert's matrix an expert's.
_WORDS = (
    (NORMS, ("norm", ".ln_", "_ln.")),
    (EXPERTS, (".experts.", "block_sparse_moe.w", ".experts_")),
    (EMBEDDING, ("embed", ".wte.", ".wpe.", "embd")),
    (HEAD, ("lm_head", "output.weight", "embed_out")),
    (ATTENTION, ("attn", "attention", ".qkv")),
    (FEED_FORWARD, ("mlp", "feed_forward", "ffn", ".fc")),
)
_SLOT_PARTS = {"embedding": EMBEDDING, "head": HEAD}


@dataclass(frozen=True, slots=True)
class Role:
    """What a tensor is for.

    Attributes:
        name: The hub name with `N` in place of its numbers.
        part: One of `PARTS`.
        layer: The layer's number, in whichever part of the model; None outside the layers.
        expert: The expert's number; None for others.
    """

    name: str
    part: str
    layer: int | None = None
    expert: int | None = None


@dataclass(frozen=True, slots=True)
class RoleGroup:
    """The weights of one role.

    Attributes:
        name: The role's, as in `Role`.
        part: As there.
        places: Which of the plan's weights they are.
        layers: The layer's number of each; None outside the layers.
        experts: The expert's number of each; None for others.
    """

    name: str
    part: str
    places: Sequence[int]
    layers: Sequence[int] | None
    experts: Sequence[int] | None

    def members(self) -> Iterator[tuple[int, int | None, int | None]]:
        """Yield the place, the layer and the expert of each."""
        return zip(self.places, self.layers or repeat(None), self.experts or repeat(None), strict=False)


@dataclass(frozen=True, slots=True)
class _Kind:
    """What all weights whose keys have one template are for, and which of their numbers say what."""

    name: str
    part: str
    layer: int | None
    expert: int | None


def _kind_of(plan: Plan, kind: str, numbers: int) -> _Kind:
    """Return what a template says, in which there are so many numbers."""
    slot, name = plan.family.by_slot.get(kind) if plan.family else None, kind.replace("{}", "N")
    if slot is None:
        return _Kind(name, part_of(kind), 0 if numbers > 0 else None, 1 if numbers > 1 else None)
    names = index_names(slot.key)
    layer = next((at for at, index in enumerate(names) if index != "expert"), None)
    return _Kind(
        name, _SLOT_PARTS.get(slot.role) or part_of(kind), layer, names.index("expert") if "expert" in names else None
    )


def role_groups(plan: Plan) -> Iterator[RoleGroup]:
    """Yield the weights of a plan role by role: what `role_of` says of each, asked once a role."""
    for name, group in group_keys([entry.key for entry in plan.weights]).items():
        columns = group.columns if group.flat else ()
        kind = _kind_of(plan, name, len(columns))
        layers, experts = (None if at is None else columns[at] for at in (kind.layer, kind.expert))
        yield RoleGroup(kind.name, kind.part, group.places, layers, experts)


def in_roles(plan: Plan, wanted: Callable[[Role], bool]) -> list[Entry]:
    """Return the weights whose role is wanted, in the order of the plan. Takes a second for 500,000."""
    found = [
        place
        for group in role_groups(plan)
        for place, layer, expert in group.members()
        if wanted(Role(group.name, group.part, layer, expert))
    ]
    return [plan.weights[place] for place in sorted(found)]


def role_of(plan: Plan, entry: Entry) -> Role:
    """Return what an entry of a plan is for."""
    numbers = indices(entry.key)
    kind = _kind_of(plan, template(entry.key), len(numbers))
    layer, expert = (None if at is None else numbers[at] for at in (kind.layer, kind.expert))
    return Role(kind.name, kind.part, layer, expert)


@lru_cache(maxsize=1 << 17)  # asked again with every key stroke of a filter
def part_of(key: str) -> str:
    """Return the part of a model that a name speaks of, one of `PARTS`.

    >>> part_of("layers.0.attention.wq.weight"), part_of("model.norm.weight")
    ('attention', 'norms')
    """
    lowered = f".{key.lower()}"
    return next((part for part, words in _WORDS if any(word in lowered for word in words)), OTHER)
