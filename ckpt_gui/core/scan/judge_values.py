"""Judges that look at one tensor at a time: values that no healthy weight has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ckpt_gui.core.dtypes import BY_NAME
from ckpt_gui.core.errors import Finding
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.plan import Plan
from ckpt_gui.core.roles import EMBEDDING, HEAD, NORMS
from ckpt_gui.core.scan.judging import MOST, constant_norms, each
from ckpt_gui.core.scan.result import Rows, TensorScan
from ckpt_gui.core.text import plural

_CARE = "Load it from the step before, or look where it was cast; fix carries it over as it is."


def unreadable(_: Plan, tensors: Sequence[TensorScan]) -> Iterator[Finding]:
    """Tensors that end early or lie in a damaged record."""
    for tensor in tensors:
        if tensor.error:
            message = f"`{safe_text(tensor.ref.full_key)}` can not be read to its end: {tensor.error}"
            yield Finding("damaged", "error", message, (tensor.ref.full_key,), blocking=True)


def _is_overflow(tensor: TensorScan) -> bool:
    """Return True if infinities, and no NaN, stand in fp16: what a cast makes of larger values."""
    stats = tensor.stats
    return tensor.ref.dtype == "fp16" and not stats.nan and bool(stats.pos_inf or stats.neg_inf)


def non_finite(_: Plan, tensors: Sequence[TensorScan]) -> Iterator[Finding]:
    """NaN and infinities."""
    found = []
    for tensor in tensors:
        stats = tensor.stats
        if tensor.odd_count and not _is_overflow(tensor):
            named = {"NaN": stats.nan, "+∞": stats.pos_inf, "−∞": stats.neg_inf}
            counts = " and ".join(f"{number:,} {name}" for name, number in named.items() if number)
            where = f", {'the first' if tensor.odd_count > 1 else 'it stands'} at {tensor.odd[0]}" if tensor.odd else ""
            found.append((tensor, f"holds {counts}{where}"))
    yield from each("non-finite", "warning", found, "holds NaN or infinities", _CARE)


def overflow(_: Plan, tensors: Sequence[TensorScan]) -> Iterator[Finding]:
    """What a cast to fp16 leaves of values beyond its range."""
    found = []
    for tensor in tensors:
        if _is_overflow(tensor):
            first = tensor.odd[0]
            text = f"is fp16 and holds {plural(tensor.odd_count, 'infinite element')}, the first ({first.value}) at "
            found.append((tensor, f"{text}{first}: larger values than 65,504 were cast"))
        elif tensor.saturated:
            text = (
                f"is fp16 and holds {plural(tensor.saturated, 'element')} of exactly ±65,504, the largest that it has"
            )
            found.append((tensor, f"{text}: larger values were clipped"))
    fix = "Make it again from the bf16 or fp32 weights; in bf16 nothing overflows."
    yield from each("cast-overflow", "warning", found, "holds what a cast to fp16 could not", fix)


def beyond_fp16(_: Plan, tensors: Sequence[TensorScan]) -> Iterator[Finding]:
    """What a cast to fp16 would make infinite."""
    found = []
    for tensor in tensors:
        if tensor.large:
            first, one = tensor.large[0], tensor.large_count == 1
            where = f"{first.value} at {first}" if one else f"the first {first.value} at {first}"
            what = plural(tensor.large_count, "element")
            text = f"holds {what} beyond ±65,504, the largest that fp16 has: {where}"
            found.append((tensor, f"{text}; a cast to fp16 makes {'it' if one else 'them'} infinite"))
    fix = "Compare it with the model that it was trained from; keep it in bf16 or fp32."
    yield from each("beyond-fp16", "info", found, "holds elements that fp16 could not", fix)


def all_zero(plan: Plan, tensors: Sequence[TensorScan]) -> Iterator[Finding]:
    """Weights that are nothing but zeros."""
    fresh = constant_norms(tensors)
    found = [
        (t, f"holds {t.stats.count:,} elements, all of them zero")
        for t in tensors
        if is_zero_weight(t) and t not in fresh
    ]
    if plan.adapter is not None and len(found) > 1 and all("lora_b" in t.ref.key.lower() for t, _ in found):
        keys = tuple(t.ref.full_key for t, _ in found)
        message = f"The second matrices of {plural(len(keys), 'module')} are zero: there the adapter changes nothing."
        yield Finding("all-zero", "warning", message, keys, "As they begin: look whether it was trained at all.")
        return
    yield from each("all-zero", "warning", found, "holds nothing but zeros", _CARE)


def is_zero_weight(tensor: TensorScan) -> bool:
    """Return True for zeros in what does not begin as zeros: matrices and norms, not biases and gates."""
    if not tensor.stats.count or tensor.stats.zeros < tensor.stats.count:
        return False
    is_weight = len(tensor.ref.shape) > 1 or (tensor.role.part == NORMS and not tensor.key.endswith("bias"))
    return is_weight and tensor.ref.numel > 1 and BY_NAME[tensor.ref.dtype].kind == "float"


def constant(_: Plan, tensors: Sequence[TensorScan]) -> Iterator[Finding]:
    """Matrices that hold one value."""
    found = [
        (t, f"holds the same value everywhere, {t.stats.max:.6g}")
        for t in tensors
        if len(t.ref.shape) > 1 and t.stats.finite > 1 and t.stats.max == t.stats.min and t.stats.max
        and BY_NAME[t.ref.dtype].kind == "float"
    ]  # fmt: skip
    yield from each("constant-tensor", "warning", found, "holds one value everywhere", _CARE)


def dead_rows(_: Plan, tensors: Sequence[TensorScan]) -> Iterator[Finding]:
    """Rows of zeros in a matrix that has others."""
    found = []
    for tensor in tensors:
        if tensor.role.part in (EMBEDDING, HEAD):
            continue
        for rows in tensor.rows:
            one = rows.count == 1
            numbers = _numbers(rows)
            text = f"row {numbers}, which is zero" if one else f"{rows.count:,} rows that are zero: {numbers}"
            found.append((tensor, f"holds {text}"))
    yield from each("dead-rows", "warning", found, "holds rows that are zero", "These outputs are always zero.")


def untrained_rows(_: Plan, tensors: Sequence[TensorScan]) -> Iterator[Finding]:
    """Rows of the embedding and the head that training never moved."""
    words = {
        "zero": "zero", "equal": "equal to each other", "initial": "of the size that rows have before training",
    }  # fmt: skip
    found = []
    for tensor in tensors:
        if tensor.role.part in (EMBEDDING, HEAD) and tensor.rows:
            parts = [f"{rows.count:,} that are {words[rows.kind]} ({_numbers(rows)})" for rows in tensor.rows]
            text = f"holds rows that look never trained, of {tensor.ref.shape[0]:,}: {'; '.join(parts)}"
            found.append((tensor, text))
    fix = "Tokens of these rows were not in the training text, or are kept for later use."
    yield from each("untrained-rows", "info", found, "holds rows that look never trained", fix)


def _numbers(rows: Rows) -> str:
    """Return the numbers of rows, runs of neighbours put together, the first few of them.

    >>> _numbers(Rows("zero", 5, (1, 2, 3, 9, 12)))
    '1–3, 9, 12'
    """
    runs: list[list[int]] = []
    for number in rows.first:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    shown = [f"{a:,}" if a == b else f"{a:,}–{b:,}" for a, b in runs[:MOST]]
    more = len(runs) > MOST or rows.count > len(rows.first)
    return ", ".join(shown) + (", …" if more else "")
