"""Adapters (LoRA, DoRA): which pairs of small matrices stand for which module, and by what they are scaled.

PEFT puts `base_model.model.` before every name, `base_layer` inside the names of the weights it wraps, and the
adapter's own name behind `lora_A` while it is in memory. torchtune keeps its own names. The tensors know their rank and
not their scale: alpha stands in adapter_config.json. Sources: peft 0.15 `utils/save_and_load.py`,
`tuners/lora/layer.py`; torchtune 0.6.1 `modules/peft/lora.py`, `dora.py`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from ckpt_gui.core.tensors import TensorRef
from ckpt_gui.dataclasses import dataclass, field, replace

PREFIX = "base_model.model."  # PEFT's, before every name
LORA, TOKENS = "LORA", "TRAINABLE_TOKENS"  # kinds (`peft_type`) that are merged here
_MOST_PATTERN = 200  # characters of a pattern of adapter_config.json that is tried on names
_MOST_REPEATS = 3
_REPEATED = re.compile(r"[*+?{]")
_REPEATED_GROUP = re.compile(r"\)[*+?{]")  # what can take for ever to find that it does not fit


@dataclass(frozen=True, slots=True)
class Lora:
    """One module's adapter.

    Attributes:
        module: Its name without PEFT's prefix, such as `model.layers.0.self_attn.q_proj`.
        a: rank × in.
        b: out × rank.
        lengths: DoRA's length of each row of the result (`magnitude`), or None.
        bias: What is added to the module's bias (`lora_bias`), scaled as the product is, or None.
        embedding: True for an embedding, whose weight is stored the other way round.
        alpha: What the scale is made of; None where nothing tells.
        scale: What the product B · A is multiplied by; None where nothing tells.
    """

    module: str
    a: TensorRef
    b: TensorRef
    lengths: TensorRef | None = None
    embedding: bool = False
    alpha: float | None = None
    scale: float | None = None
    bias: TensorRef | None = None

    @property
    def rank(self) -> int:
        """The rank, as the tensors have it."""
        return self.a.shape[0] if self.a.shape else 0

    @property
    def refs(self) -> tuple[TensorRef, ...]:
        """Its tensors."""
        return tuple(ref for ref in (self.a, self.b, self.lengths, self.bias) if ref is not None)


@dataclass(frozen=True, slots=True)
class Tokens:
    """Rows of an embedding that were trained, and stand for those of the base.

    Attributes:
        module: Name of the embedding without PEFT's prefix.
        rows: tokens × width.
        indices: Which rows they are, as adapter_config.json has it; None where nothing tells.
    """

    module: str
    rows: TensorRef
    indices: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Adapter:
    """What the names say of an adapter.

    Attributes:
        style: `peft`, `torchtune` or `litgpt`: who has named its tensors.
        kind: `LORA`, or another `peft_type` of PEFT's; `LITGPT` for litgpt's own way of fusing pairs.
        loras: One for each module, in file order.
        whole: Name without prefix → tensor, of those that are stored whole: trained (`modules_to_save`), or the base's.
        trained: Names in `whole` that stood under `modules_to_save`.
        replaced: Tensors that `modules_to_save` stands for, left as they were (`original_module`).
        names: The adapter's names in memory, such as `default`.
        config: adapter_config.json; empty where there is none.
        inside: True if the base's weights are in the same file: an un-merged model.
        odd: Tensors of adapters that are of no known kind here, or half of a pair.
        tokens: Rows of embeddings that were trained.
        others: All tensors, where the kind is one that is not merged here.
        bare: True if PEFT's names lack the prefix without which PEFT finds nothing.
    """

    style: str
    loras: tuple[Lora, ...] = ()
    whole: Mapping[str, TensorRef] = field(default_factory=dict)
    trained: frozenset[str] = frozenset()
    replaced: tuple[TensorRef, ...] = ()
    names: tuple[str, ...] = ()
    config: Mapping[str, Any] = field(default_factory=dict)
    inside: bool = False
    odd: tuple[TensorRef, ...] = ()
    bare: bool = False
    tokens: tuple[Tokens, ...] = ()
    kind: str = LORA
    others: tuple[TensorRef, ...] = ()

    @property
    def dora(self) -> bool:
        """True if rows have trained lengths."""
        return any(lora.lengths is not None for lora in self.loras)

    @property
    def groups(self) -> tuple[tuple[Lora, ...], ...]:
        """The modules by rank, alpha, scale and kind, those of most modules first."""
        found: dict[tuple[object, ...], list[Lora]] = {}
        for lora in self.loras:
            kind = (lora.rank, lora.alpha, lora.scale, lora.lengths is not None)
            found.setdefault(kind, []).append(lora)
        return tuple(tuple(group) for group in sorted(found.values(), key=lambda g: -len(g)))


def scaled(lora: Lora, config: Mapping[str, Any], alpha: float | None) -> Lora:
    """Return a module's adapter with its alpha and scale.

    Args:
        lora: As its tensors have it.
        config: adapter_config.json; empty without.
        alpha: What the user says alpha is.
    """
    if alpha is None:
        alpha = _number(_by_pattern(config.get("alpha_pattern"), lora.module))
    if alpha is None:
        alpha = _number(config.get("lora_alpha"))
    if alpha is None or not lora.rank:
        return lora
    scale = alpha / (math.sqrt(lora.rank) if config.get("use_rslora") is True else lora.rank)
    return replace(lora, alpha=alpha, scale=scale)


def stated_rank(config: Mapping[str, Any], module: str) -> int | None:
    """Return the rank that adapter_config.json gives a module, or None."""
    rank = _by_pattern(config.get("rank_pattern"), module)
    rank = config.get("r") if rank is None else rank
    return rank if type(rank) is int else None


def _by_pattern(patterns: Any, module: str) -> Any:
    """Return what the first pattern says that fits the end of a module's name, as PEFT has it."""
    if not isinstance(patterns, Mapping):
        return None
    for pattern, value in patterns.items():
        text = str(pattern)
        if text == module or module.endswith(f".{text}"):
            return value
        if _is_tried(text) and re.match(rf"(.*\.)?({text})$", module):
            return value
    return None


def _is_tried(pattern: str) -> bool:
    if len(pattern) > _MOST_PATTERN or len(_REPEATED.findall(pattern)) > _MOST_REPEATS:
        return False
    if _REPEATED_GROUP.search(pattern):
        return False
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        return False
    return True


def untried_patterns(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the patterns of adapter_config.json that are too costly to be tried on names, or no patterns."""
    found: list[str] = []
    for name in ("rank_pattern", "alpha_pattern"):
        patterns = config.get(name)
        found += [str(p) for p in patterns if not _is_tried(str(p))] if isinstance(patterns, Mapping) else []
    return tuple(found)


def _number(value: Any) -> float | None:
    return float(value) if type(value) in (int, float) and math.isfinite(value) else None
