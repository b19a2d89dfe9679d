"""Adapters (LoRA, DoRA): which pairs of small matrices stand for which module, and by what they are scaled.

PEFT puts `base_model.model.` before every name, `base_layer` inside the names of the weights it wraps, and the
adapter's own name behind `lora_A` while it is in memory. torchtune keeps its own names. The tensors know their rank and
not their scale: alpha stands in adapter_config.json. Sources: peft 0.15 `utils/save_and_load.py`,
`tuners/lora/layer.py`; torchtune 0.6.1 `modules/peft/lora.py`, `dora.py`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ckpt_gui.core.tensors import TensorRef

PREFIX = "base_model.model."  # PEFT's, before every name
_PEFT = re.compile(
    r"(?P<module>.+)\.(?:(?P<part>lora_[AB])(?:\.(?P<name>[^.]+))?\.(?P<what>weight|bias)"
    r"|(?P<table>lora_embedding_[AB])(?:\.(?P<table_name>[^.]+))?"
    r"|lora_magnitude_vector(?:\.(?P<length_name>[^.]+?))?(?:\.weight)?)\Z"
)
_TUNE = re.compile(r"(?P<module>.+)\.(?:(?P<part>lora_[ab])\.weight|(?P<length>magnitude))\Z")
_TRAINED = re.compile(r"(?P<module>.+)\.modules_to_save(?:\.(?P<name>[^.]+))?\.(?P<leaf>weight|bias)\Z")
_HEADS = ("lm_head", "embed_out", "output", "score")
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

    @property
    def rank(self) -> int:
        """The rank, as the tensors have it."""
        return self.a.shape[0] if self.a.shape else 0

    @property
    def refs(self) -> tuple[TensorRef, ...]:
        """Its tensors."""
        return (self.a, self.b) if self.lengths is None else (self.a, self.b, self.lengths)


@dataclass(frozen=True, slots=True)
class Adapter:
    """What the names say of an adapter.

    Attributes:
        style: `peft` or `torchtune`.
        loras: One for each module, in file order.
        whole: Name without prefix → tensor, of those that are stored whole: trained (`modules_to_save`), or the base's.
        trained: Names in `whole` that stood under `modules_to_save`.
        replaced: Tensors that `modules_to_save` stands for, left as they were (`original_module`).
        names: The adapter's names in memory, such as `default`.
        config: adapter_config.json; empty where there is none.
        inside: True if the base's weights are in the same file: an un-merged model.
        odd: Tensors of adapters that are of no known kind here, or half of a pair.
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


@dataclass(slots=True)
class _Halves:
    a: TensorRef | None = None
    b: TensorRef | None = None
    lengths: TensorRef | None = None
    embedding: bool = False

    def all(self) -> list[TensorRef]:
        return [ref for ref in (self.a, self.b, self.lengths) if ref is not None]


def has_adapter(keys: Iterable[str]) -> bool:
    """Return True if some key may be an adapter's."""
    return any("lora_" in key or key.startswith(PREFIX) for key in keys)


def read_adapter(
    named: Iterable[tuple[str, TensorRef]], config: Mapping[str, Any] | None, alpha: float | None = None
) -> Adapter | None:
    """Return the adapter that tensors are, or None if there is none among them.

    Args:
        named: Key without wrappers, and tensor.
        config: adapter_config.json, if there is one.
        alpha: What the user says alpha is.
    """
    named = list(named)
    peft = any(".lora_A." in key or ".lora_embedding_A" in key or key.startswith(PREFIX) for key, _ in named)
    found = _Peft() if peft else _Tune()
    for key, ref in named:
        found.take(key.removeprefix(PREFIX) if peft else key, ref)
    if not found.halves and not (peft and config is not None):
        return None
    loras, odd = [], list(found.odd)
    for module, half in found.halves.items():
        if half.a is None or half.b is None:
            odd += half.all()
            continue
        lora = Lora(module, half.a, half.b, half.lengths, half.embedding)
        loras.append(_scaled(lora, config or {}, alpha))
    inside = _inside(loras, found.whole)
    bare = peft and not inside and not any(key.startswith(PREFIX) for key, _ in named)
    return Adapter(
        "peft" if peft else "torchtune", tuple(loras), found.whole, frozenset(found.trained), tuple(found.replaced),
        tuple(found.names), dict(config or {}), inside, tuple(odd), bare,
    )  # fmt: skip


class _Peft:
    """Sorts PEFT's names."""

    def __init__(self) -> None:
        self.halves: dict[str, _Halves] = {}
        self.whole: dict[str, TensorRef] = {}
        self.trained: list[str] = []
        self.replaced: list[TensorRef] = []
        self.names: dict[str, None] = {}
        self.odd: list[TensorRef] = []

    def take(self, key: str, ref: TensorRef) -> None:
        match = _PEFT.match(key)
        if match:
            self._half(match, ref)
        elif trained := _TRAINED.match(key):
            if trained["name"]:
                self.names[trained["name"]] = None
            name = f"{trained['module']}.{trained['leaf']}"
            self.trained.append(name)
            if self.whole.setdefault(name, ref) is not ref:
                self.odd.append(ref)
        elif ".original_module." in key:
            self.replaced.append(ref)
        elif (
            ".lora_" in key
            or "trainable_tokens" in key
            or "prompt_embeddings" in key
            or self.whole.setdefault(key.replace(".base_layer.", "."), ref) is not ref
        ):
            self.odd.append(ref)

    def _half(self, match: re.Match[str], ref: TensorRef) -> None:
        name = match["name"] or match["table_name"] or match["length_name"]
        if name and name != "weight":
            self.names[name] = None
        part = match["part"] or match["table"]
        half = self.halves.setdefault(match["module"], _Halves())
        attribute = "lengths" if part is None else part[-1].lower()
        if match["what"] == "bias" or getattr(half, attribute) is not None:
            self.odd.append(ref)
            return
        half.embedding |= match["table"] is not None
        setattr(half, attribute, ref)


class _Tune(_Peft):
    """Sorts torchtune's names."""

    def take(self, key: str, ref: TensorRef) -> None:
        match = _TUNE.match(key)
        if not match:
            self.whole[key] = ref
            return
        half = self.halves.setdefault(match["module"], _Halves())
        setattr(half, "lengths" if match["length"] else match["part"][-1], ref)


def _inside(loras: list[Lora], whole: Mapping[str, TensorRef]) -> bool:
    """Return True if the weights that the adapter changes are there too.

    PEFT stores the weight of an adapted embedding or head beside its pair in adapters also: they do not count.
    """
    inner = [x for x in loras if not x.embedding and not x.module.endswith(_HEADS)]
    if not inner:
        return len(whole) > 2 * len(loras) + 4
    return 2 * sum(1 for x in inner if f"{x.module}.weight" in whole) > len(inner)


def _scaled(lora: Lora, config: Mapping[str, Any], alpha: float | None) -> Lora:
    """Return a module's adapter with its alpha and scale."""
    if alpha is None:
        alpha = _number(_by_pattern(config.get("alpha_pattern"), lora.module))
    if alpha is None:
        alpha = _number(config.get("lora_alpha"))
    if alpha is None or not lora.rank:
        return lora
    scale = alpha / (math.sqrt(lora.rank) if config.get("use_rslora") is True else lora.rank)
    return Lora(lora.module, lora.a, lora.b, lora.lengths, lora.embedding, alpha, scale)


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
