"""Tensors that are no plain weights: placeholders of a partitioned model, flat slices, codes of a quantised one.

Their names are right, so they look like a model; nothing that a renaming could do makes them one. What they are is told
from names, types and shapes alone.
"""

from __future__ import annotations

import fnmatch
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from ckpt_gui.core.beside import Extra
from ckpt_gui.core.bulk import blocks, column, different, has_any
from ckpt_gui.core.errors import Finding
from ckpt_gui.core.formats.quantised import find_quantised
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.tensors import TensorRef

if TYPE_CHECKING:
    from ckpt_gui.core.formats.pickle_distributed import LocalPart

MAX_RANKS = 4096
_KEY, _SECTION, _SHAPE = attrgetter("key"), attrgetter("section"), attrgetter("shape")
_EMBEDDINGS = ("embed_tokens.weight", "tok_embeddings.weight", "wte.weight", "word_embeddings.weight")
_STATE = frozenset(("optimizer", "optimizer_states", "optim", "exp_avg", "exp_avg_sq"))
_FLAT = frozenset(("_flat_param", "flat_param"))
_ZERO = ("global_step*", "zero_to_fp32.py", "*zero_pp_rank_*_optim_states.pt", "latest")


def find_kinds(
    refs: Sequence[TensorRef], extras: Sequence[Extra], beside: Iterable[str], config: Mapping[str, Any] | None
) -> list[Finding]:
    """Return findings about tensors that are no plain weights.

    Args:
        refs: All tensors.
        extras: Values that are not tensors.
        beside: Names in the folder of the file.
        config: The parsed config.json, if there is one.
    """
    beside = sorted(beside)
    keys = column(_KEY, refs)
    weights = refs
    if has_any(_STATE, keys) or not _STATE.isdisjoint(chain.from_iterable(different(map(_SECTION, refs)))):
        weights = [ref for ref in refs if _STATE.isdisjoint(ref.section) and ref.key not in _STATE]
        keys = column(_KEY, weights)
    found = (
        _placeholders(weights, beside),
        _flat(weights, keys, config or {}),
        find_quantised(weights, keys, extras, beside),
        _look_alikes(refs),
        _expanded(refs),
    )
    return [finding for finding in found if finding is not None]


def _placeholders(refs: Sequence[TensorRef], beside: Sequence[str]) -> Finding | None:
    """ZeRO-3 leaves an empty tensor (DeepSpeed before 0.4: one of one element) where each parameter was."""
    if not has_any({(0,), (1,)}, column(_SHAPE, refs)):  # a few calls, however many tensors there are
        return None
    empty = [ref for ref in refs if ref.shape == (0,) and ref.key.endswith(("weight", "bias", "scale"))]
    ones = [ref for ref in refs if ref.shape == (1,) and ref.key.endswith("weight")]
    if not empty and 2 * len(ones) > len(refs) and len(ones) > 2:
        empty = ones
    if not empty:
        return None
    keys = tuple(ref.full_key for ref in empty)
    shape = list(empty[0].shape)
    if all(".lora_" in key for key in keys):
        message = f"The adapter is empty in {len(keys):,} of {len(refs):,} tensors, such as {_quote(keys[0])}: {shape}."
        fix = "Save it again with the weights gathered; what was trained is not in this file."
        return Finding("adapter-empty", "error", message, keys, fix, blocking=True)
    message = (
        f"{len(keys):,} of {len(refs):,} tensors are placeholders of shape {shape}, such as {_quote(keys[0])}: "
        f"the model was partitioned (ZeRO-3) and saved without gathering it. The weights are not in this file."
    )
    return Finding("partitioned-state", "error", message, keys, _where_weights_are(beside), blocking=True)


def _where_weights_are(beside: Sequence[str]) -> str:
    found = [name for pattern in _ZERO for name in beside if fnmatch.fnmatch(name, pattern)]
    if not found:
        return (
            "Look for a folder global_step… of the same run and open that; "
            "or save again with stage3_gather_16bit_weights_on_model_save."
        )
    shown = ", ".join(safe_text(name, 60) for name in dict.fromkeys(found[:4]))
    steps = [name for name in found if name.startswith("global_step")]
    return f"Beside it lies {shown}: open {safe_text(steps[-1], 60) if steps else 'this folder'} instead."


def _flat(refs: Sequence[TensorRef], keys: Sequence[str], config: Mapping[str, Any]) -> Finding | None:
    """FSDP flattens the parameters of a unit into one row and gives each rank an equal slice of it."""
    named = [ref for ref in _with_any(("flat_param",), refs, keys) if _FLAT.intersection(ref.key.split("."))]
    rows = [
        ref
        for ref in _with_any(_EMBEDDINGS, refs, keys)
        if len(ref.shape) == 1 and ref.shape[0] > 1 and ref.key.endswith(_EMBEDDINGS)
    ]
    both = named or rows
    if not both:
        return None
    first = both[0]
    message = (
        f"{_quote(first.full_key)} is a row of {first.shape[0] if first.shape else 1:,} numbers: a slice of flattened "
        f"parameters (FSDP), which means nothing without those of all ranks{_sum(first, config) if rows else ''}."
    )
    fix = "Save it again with a full state dict, or open the folder that has the parts of all ranks."
    return Finding("partitioned-state", "error", message, tuple(r.full_key for r in both), fix, blocking=True)


def _with_any(words: Sequence[str], refs: Sequence[TensorRef], keys: Sequence[str]) -> Iterator[TensorRef]:
    """Yield the tensors near one with a word in its key, some thousand at a time: the others are not looked at."""
    for some, theirs in zip(blocks(refs), blocks(keys), strict=True):
        text = "\n".join(theirs)
        if any(word in text for word in words):
            yield from some


def _sum(ref: TensorRef, config: Mapping[str, Any]) -> str:
    """Explain the length of a slice by the config: a share of the embedding and the last norm, and of the head."""
    inner = config.get("text_config")
    config = inner if isinstance(inner, dict) else config
    vocab, hidden = config.get("vocab_size"), config.get("hidden_size")
    if type(vocab) is not int or type(hidden) is not int or vocab < 1 or hidden < 1:
        return ""
    table = f"{vocab:,} × {hidden:,}"
    wholes = {
        f"the embedding ({table})": vocab * hidden,
        f"the embedding ({table}) and the last norm ({hidden:,})": vocab * hidden + hidden,
        f"the embedding and the head (2 × {table}) and the last norm ({hidden:,})": 2 * vocab * hidden + hidden,
    }
    for what, whole in wholes.items():
        ranks = round(whole / ref.shape[0])
        if 1 <= ranks <= MAX_RANKS and -(-whole // ranks) == ref.shape[0]:
            return f"; it is {_share(ranks)} {what}"
    return ""


def _share(ranks: int) -> str:
    return {1: "all of", 2: "½ of", 4: "¼ of", 8: "⅛ of"}.get(ranks, f"1/{ranks} of")


def _look_alikes(refs: Sequence[TensorRef]) -> Finding | None:
    """Names that are drawn alike but are different characters (composed and decomposed accents)."""
    groups: dict[str, list[str]] = {}
    for ref in refs if not all(map(str.isascii, map(_KEY, refs))) else ():
        if not ref.key.isascii():
            groups.setdefault(unicodedata.normalize("NFC", ref.full_key), []).append(ref.full_key)
    alike = [group for group in groups.values() if len(set(group)) > 1]
    if not alike:
        return None
    message = (
        f"{len(alike):,} names stand twice, drawn alike but spelled with different characters: {_quote(alike[0][0])}."
    )
    keys = tuple(key for group in alike for key in group)
    return Finding("key-collision", "error", message, keys, "Rename one of each; other tools may take them for one.")


def _expanded(refs: Sequence[TensorRef]) -> Finding | None:
    """A few stored numbers repeated without end by strides of 0: harmless to read, not to write."""
    wide = [ref for ref in refs if ref.strides is not None and ref.is_endless]
    if not wide:
        return None
    first = wide[0]
    numel = first.stored_nbytes * first.numel // max(first.nbytes, 1)
    message = (
        f"{_quote(first.full_key)} is an expanded view of {max(numel, 1):,} stored elements; "
        f"written out it would take {first.nbytes:,} bytes."
    )
    keys = tuple(ref.full_key for ref in wide)
    return Finding("limit-exceeded", "error", message, keys, "Leave it out of an export.", blocking=True)


def _quote(key: str) -> str:
    return f"`{safe_text(key, 120)}`"


def shards_finding(refs: Sequence[TensorRef], parts: Mapping[tuple[str, ...], LocalPart], name: str) -> list[Finding]:
    """Return a finding about tensors that are one rank's part of distributed ones.

    Args:
        refs: The tensors of a file.
        parts: What some of them say of the wholes, by path.
        name: The file.
    """
    cut = [ref for ref in refs if ref.path in parts and parts[ref.path].whole != ref.shape] if parts else []
    if not cut:
        return []
    message = (
        f"{len(cut):,} tensors in {name} are one rank's part of distributed tensors, such as "
        f"{_quote(cut[0].full_key)}: {list(cut[0].shape)} of {list(parts[cut[0].path].whole)}."
    )
    fix = "Open the folder that has the files of all ranks, or save a full state dict."
    return [Finding("partitioned-state", "error", message, tuple(ref.full_key for ref in cut), fix, blocking=True)]
