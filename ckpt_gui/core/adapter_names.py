"""Tell adapters by their tensors' names, and sort the names: pairs, what is stored whole, what is of another kind.

PEFT saves every kind of adapter in one way of naming; each kind has a word of its own in its tensors' names, so that it
is known without an adapter_config.json. Sources: peft 0.15 `utils/save_and_load.py`, `utils/other.py`, the `prefix` of
each class in `tuners/`; torchtune 0.6.1 `modules/peft/lora.py`, `dora.py`; litgpt 0.5.11 `lora.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ckpt_gui.core.adapters import LORA, PREFIX, TOKENS, Adapter, Lora, Tokens, scaled
from ckpt_gui.core.tensors import TensorRef
from ckpt_gui.dataclasses import dataclass, replace

_PEFT = re.compile(
    r"(?P<module>.+)\.(?:(?P<part>lora_[AB])(?:\.(?P<name>[^.]+))?\.(?P<what>weight|bias)"
    r"|(?P<table>lora_embedding_[AB])(?:\.(?P<table_name>[^.]+))?"
    r"|lora_magnitude_vector(?:\.(?P<length_name>[^.]+?))?(?:\.weight)?)\Z"
)
_TUNE = re.compile(r"(?P<module>.+)\.(?:(?P<part>lora_[ab])\.weight|(?P<length>magnitude))\Z")
_TRAINED = re.compile(r"(?P<module>.+)\.modules_to_save(?:\.(?P<name>[^.]+))?\.(?P<leaf>weight|bias)\Z")
_ROWS = re.compile(r"(?P<module>.+?)(?:\.token_adapter)?\.trainable_tokens_delta(?:\.(?P<name>[^.]+))?\Z")
_LITGPT = re.compile(r"transformer\.h\.\d+\.(?:attn|mlp)\..+\.lora_[AB]\Z|lm_head\.lora_[AB]\Z")
_HEADS = ("lm_head", "embed_out", "output", "score")
# What only tensors of another kind of adapter have in their names, and the kind.
_MARKS = (
    (".ia3_l", "IA3"), (".hada_w", "LOHA"), (".lokr_", "LOKR"), (".vera_lambda_", "VERA"), (".oft_", "OFT"),
    (".boft_", "BOFT"), (".fourierft_", "FOURIERFT"), (".hra_", "HRA"), (".vblora_", "VBLORA"), (".bone_", "BONE"),
    (".lora_E", "ADALORA"), (".ln_tuning_", "LN_TUNING"), (".adaption_", "ADAPTION_PROMPT"),
    ("internal_xlora_classifier", "XLORA"), ("prefix_task_cols", "MULTITASK_PROMPT_TUNING"),
    ("prompt_embeddings", "PROMPT_TUNING"),
)  # fmt: skip
LITGPT = "LITGPT"


@dataclass(slots=True)
class _Halves:
    a: TensorRef | None = None
    b: TensorRef | None = None
    lengths: TensorRef | None = None
    bias: TensorRef | None = None
    embedding: bool = False

    def all(self) -> list[TensorRef]:
        return [ref for ref in (self.a, self.b, self.lengths, self.bias) if ref is not None]


def has_adapter(shapes: Iterable[str]) -> bool:
    """Return True if some key may be an adapter's, by the templates of the keys."""
    return any("lora_" in key or key.startswith((PREFIX, "prompt_embeddings")) or _marked(key) for key in shapes)


def read_adapter(
    named: Iterable[tuple[str, TensorRef]], config: Mapping[str, Any] | None, alpha: float | None = None
) -> Adapter | None:
    """Return the adapter that tensors are, or None if there is none among them.

    Args:
        named: Key without wrappers, and tensor.
        config: adapter_config.json, if there is one.
        alpha: What the user says alpha is.
    """
    named, config = list(named), dict(config or {})
    peft = any(".lora_A." in key or ".lora_embedding_A" in key or key.startswith(PREFIX) for key, _ in named)
    kind = _kind([key for key, _ in named], config)
    if kind not in (LORA, TOKENS):
        return _other(named, config, kind)
    found = _Peft() if peft else _Tune()
    for key, ref in named:
        found.take(key.removeprefix(PREFIX) if peft else key, ref)
    if not found.halves and not found.tokens and not (peft and config):
        return None
    loras, odd = [], list(found.odd)
    for module, half in found.halves.items():
        if half.a is None or half.b is None:
            odd += half.all()
            continue
        lora = Lora(module, half.a, half.b, half.lengths, half.embedding, bias=half.bias)
        loras.append(scaled(lora, config, alpha))
    inside = _inside(loras, found.whole)
    bare = peft and not inside and not any(key.startswith(PREFIX) for key, _ in named)
    tokens = tuple(replace(t, indices=_indices(t, config)) for t in found.tokens)
    return Adapter(
        "peft" if peft else "torchtune", tuple(loras), found.whole, frozenset(found.trained), tuple(found.replaced),
        tuple(found.names), config, inside, tuple(odd), bare, tokens, kind,
    )  # fmt: skip


def _kind(keys: list[str], config: Mapping[str, Any]) -> str:
    """Return the kind of an adapter: what its config says, else what its names tell."""
    if any(map(_LITGPT.match, keys)):
        return LITGPT
    stated = config.get("peft_type")
    if stated:
        return str(stated)
    return next((kind for key in keys if (kind := _marked(key))), LORA)


def _marked(key: str) -> str:
    return next((kind for mark, kind in _MARKS if mark in key), "")


def _other(named: list[tuple[str, TensorRef]], config: Mapping[str, Any], kind: str) -> Adapter:
    """Return an adapter of a kind that is not merged here: its tensors stay as they are."""
    style, wrapped = ("litgpt", ".linear.") if kind == LITGPT else ("peft", ".base_layer.")
    inside = any(wrapped in key for key, _ in named)
    return Adapter(style, config=config, inside=inside, kind=kind, others=tuple(ref for _, ref in named))


class _Peft:
    """Sorts PEFT's names."""

    def __init__(self) -> None:
        self.halves: dict[str, _Halves] = {}
        self.whole: dict[str, TensorRef] = {}
        self.trained: list[str] = []
        self.replaced: list[TensorRef] = []
        self.names: dict[str, None] = {}
        self.odd: list[TensorRef] = []
        self.tokens: list[Tokens] = []

    def take(self, key: str, ref: TensorRef) -> None:
        if match := _PEFT.match(key):
            self._half(match, ref)
        elif trained := _TRAINED.match(key):
            self._name(trained["name"])
            name = f"{trained['module']}.{trained['leaf']}"
            self.trained.append(name)
            if self.whole.setdefault(name, ref) is not ref:
                self.odd.append(ref)
        elif rows := _ROWS.match(key):
            self._name(rows["name"])
            self.tokens.append(Tokens(rows["module"], ref))
        elif ".original_module." in key or ".trainable_tokens_original" in key:
            self.replaced.append(ref)
        elif ".lora_" in key or self.whole.setdefault(_unwrapped(key), ref) is not ref:
            self.odd.append(ref)

    def _name(self, name: str | None) -> None:
        if name and name != "weight":
            self.names[name] = None

    def _half(self, match: re.Match[str], ref: TensorRef) -> None:
        self._name(match["name"] or match["table_name"] or match["length_name"])
        part = match["part"] or match["table"]
        half = self.halves.setdefault(match["module"], _Halves())
        attribute = "lengths" if part is None else part[-1].lower()
        if match["what"] == "bias":
            attribute = "bias" if attribute == "b" else ""
        if not attribute or getattr(half, attribute) is not None:
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


def _unwrapped(key: str) -> str:
    return key.replace(".token_adapter.", ".").replace(".base_layer.", ".")


def _inside(loras: list[Lora], whole: Mapping[str, TensorRef]) -> bool:
    """Return True if the weights that the adapter changes are there too.

    PEFT stores the weight of an adapted embedding or head beside its pair in adapters also: they do not count.
    """
    inner = [x for x in loras if not x.embedding and not x.module.endswith(_HEADS)]
    if not inner:
        return len(whole) > 2 * len(loras) + 4
    return 2 * sum(1 for x in inner if f"{x.module}.weight" in whole) > len(inner)


def _indices(tokens: Tokens, config: Mapping[str, Any]) -> tuple[int, ...] | None:
    """Return which rows of an embedding were trained; None if the config does not say, or not one for each."""
    stated = config.get("trainable_token_indices") or config.get("token_indices")
    if isinstance(stated, Mapping):
        stated = next((rows for name, rows in stated.items() if f".{tokens.module}".endswith(f".{name}")), None)
    rows = tuple(i for i in stated if type(i) is int and i >= 0) if isinstance(stated, list) else ()
    return rows if len(set(rows)) == len(rows) and tokens.rows.shape[:1] == (len(rows),) else None
