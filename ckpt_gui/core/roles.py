"""What a tensor of a model is for: its part, its role, and the layer and expert that it belongs to.

A role is the name without its numbers, so that the same matrix of every layer has the same role. Tensors that fit no
slot get theirs from their own names.
"""

from __future__ import annotations

from functools import lru_cache

from ckpt_gui.core.entry import Entry
from ckpt_gui.core.keys import bind, indices, template
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


def role_of(plan: Plan, entry: Entry) -> Role:
    """Return what an entry of a plan is for."""
    key = entry.key
    kind = template(key)
    slot = plan.family.by_slot.get(kind) if plan.family else None
    name = kind.replace("{}", "N")
    if slot is None:
        numbers = indices(key)
        return Role(name, part_of(key), numbers[0] if numbers else None, numbers[1] if len(numbers) > 1 else None)
    bound = bind(slot.key, key)
    part = {"embedding": EMBEDDING, "head": HEAD}.get(slot.role) or part_of(key)
    layer = next((number for index, number in bound.items() if index != "expert"), None)
    return Role(name, part, layer, bound.get("expert"))


@lru_cache(maxsize=1 << 17)  # asked again with every key stroke of a filter
def part_of(key: str) -> str:
    """Return the part of a model that a name speaks of, one of `PARTS`.

    >>> part_of("layers.0.attention.wq.weight"), part_of("model.norm.weight")
    ('attention', 'norms')
    """
    lowered = f".{key.lower()}"
    return next((part for part, words in _WORDS if any(word in lowered for word in words)), OTHER)
