"""Quantised weights by the names of their parts: each scheme stores codes under one name and scales under others."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from operator import itemgetter

from ckpt_gui.core.beside import Extra
from ckpt_gui.core.bulk import different
from ckpt_gui.core.errors import Finding
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.tensors import TensorRef
from ckpt_gui.dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scheme:
    """A way to store quantised weights.

    Attributes:
        title: Its name.
        marks: Endings of keys that only this scheme has.
        beside: One of these endings must stand in place of the mark's under some key; empty if the mark tells enough.
        how: How to get plain weights.
    """

    title: str
    marks: tuple[str, ...]
    beside: tuple[str, ...] = ()
    how: str = "Dequantise it with the tool that wrote it."

    @property
    def lasts(self) -> tuple[str, ...]:
        """Endings of the last segments of keys with its marks."""
        return tuple(mark.rpartition(".")[2] for mark in self.marks)


_BNB = "Load it with bitsandbytes in transformers, call dequantize() and save it."
SCHEMES: tuple[Scheme, ...] = (
    Scheme("bitsandbytes 4-bit", (".absmax", ".quant_map", ".nested_absmax", ".nested_quant_map"), (), _BNB),
    Scheme("bitsandbytes 4-bit", (".quant_state.bitsandbytes__nf4", ".quant_state.bitsandbytes__fp4"), (), _BNB),
    Scheme("bitsandbytes 8-bit", (".SCB",), (), _BNB),
    Scheme("GPTQ", (".g_idx",), (".qweight",)),
    Scheme("AWQ or GPTQ", (".qzeros",), (".qweight",)),
    Scheme("GPTQ of lit-llama", (".quant_weight",), (".scales",)),
    Scheme("FP8 with block scales", (".weight_scale_inv",), (".weight",)),
    Scheme("compressed-tensors, packed", (".weight_packed",), (".weight_scale",)),
    Scheme("FP8 or INT8 with scales", (".weight_scale",), (".weight",)),
    Scheme("quanto", ("._data",), ("._scale",)),
    Scheme("quanto", (".weight._scale",), (".weight._data", ".weight")),
    Scheme("MXFP4", ("_blocks",), ("_scales",)),
    Scheme("MXFP4, as OpenAI releases it", (".blocks",), (".scales",)),
)
_LASTS = tuple(last for scheme in SCHEMES for last in scheme.lasts)
_END = itemgetter(slice(-max(map(len, _LASTS)), None))
# Tensor classes that hold codes, as a pickle names them.
_CLASSES = (
    *("torchao.", "torchtune.modules.low_precision", "bitsandbytes.", "optimum.quanto", "quanto.", "hqq."),
    "torch._utils._rebuild_qtensor",
)
_ELSEWHERE = "FP8 with scales, as Meta releases it"


# Meta's FP8 release of Llama 3.1 405B: the scales of each rank's codes lie in a file of their own. Source: llama-stack
# `meta_reference/quantization/loader.py`.
_META_SCALES = re.compile(r"fp8_scales_\d{1,4}\.pt\Z")


def find_quantised(
    refs: Sequence[TensorRef], keys: Sequence[str], extras: Sequence[Extra], beside: Sequence[str] = ()
) -> Finding | None:
    """Return a finding if the tensors are parts of a quantised model.

    Args:
        refs: The tensors.
        keys: Their keys.
        extras: Values that are not tensors.
        beside: Names in the folder of the file.
    """
    ends = different(map(_END, keys))  # a few, even where there are 500,000 names
    if not any(end.endswith(_LASTS) for end in ends):
        return _scales_beside(refs, beside) or _subclasses(extras)
    names = set(keys)
    tails = {".".join(name.rsplit(".", 2)[-2:]) for name in names}
    for scheme in SCHEMES:
        marks = tuple(mark for mark in scheme.marks if any(f".{tail}".endswith(mark) for tail in tails))
        if not marks:
            continue
        coded = tuple(ref.full_key for ref in refs if _belongs(ref.key, scheme, names))
        if coded:
            how = f"{scheme.how} fix --to same takes wrappers off and keeps the codes."
            return _finding(scheme.title, coded, len(refs), f"names ending in {', '.join(marks)}", how)
    return _scales_beside(refs, beside) or _subclasses(extras)


def _scales_beside(refs: Sequence[TensorRef], beside: Sequence[str]) -> Finding | None:
    files = [name for name in beside if _META_SCALES.match(name)]
    keys = tuple(dict.fromkeys(ref.full_key for ref in refs if ref.dtype == "fp8_e4m3")) if files else ()
    if not keys:
        return None
    tell = f"FP8 codes, whose scales lie in files beside them ({safe_text(files[0], 40)} and so on)"
    return _finding(_ELSEWHERE, keys, len(refs), tell, "Take the BF16 release of the model.")


def can_be_carried(finding: Finding, names: Collection[str]) -> bool:
    """Return True if all that the codes of a finding need are tensors beside them, which an export carries along.

    Args:
        finding: A `quantised` one.
        names: Full keys of all tensors.
    """
    return all(key in names for key in finding.keys) and f"({_ELSEWHERE})" not in finding.message


def decodable(finding: Finding) -> Finding:
    """Return a `quantised` finding as it is where an export can decode what it names: nothing is blocked."""
    fix = "fix --to hf writes the numbers that codes and scales stand for; --to same keeps both as they are."
    return finding.replace(severity="warning", blocking=False, fix=fix)


def _belongs(key: str, scheme: Scheme, names: set[str]) -> bool:
    if not key.endswith(scheme.marks):
        return False
    mark = next(mark for mark in scheme.marks if key.endswith(mark))
    stem = key[: -len(mark)]
    return not scheme.beside or any(stem + ending in names for ending in scheme.beside)


def _subclasses(extras: Sequence[Extra]) -> Finding | None:
    """Quantised tensor classes stay foreign objects; what lies inside them are codes and scales."""
    found = [extra for extra in extras if extra.kind.startswith(_CLASSES)]
    if not found:
        return None
    keys = tuple(".".join(extra.path) for extra in found)
    return _finding(
        "torchao, NF4 or the like", keys, None, f"objects of {safe_text(found[0].kind, 80)}", SCHEMES[-1].how
    )


def _finding(title: str, keys: tuple[str, ...], total: int | None, tell: str, how: str) -> Finding:
    of_all = f" of {total:,} tensors" if total is not None else " values"
    message = (
        f"The weights are quantised ({title}): {len(keys):,}{of_all} are {tell}, such as `{safe_text(keys[0], 120)}`. "
        "They are codes and scales, not weights; renaming cannot convert them."
    )
    return Finding("quantised", "error", message, keys, how, blocking=True)
