"""Judges that look at tensors beside others: layers against layers, and the model as a whole.

Thresholds are wide on purpose: what a healthy model has is no finding. Layers differ by several times, and so do
attention and feed-forward; a role is compared with itself in other layers only.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence

from ckpt_gui.core.dtypes import BY_NAME
from ckpt_gui.core.errors import Finding
from ckpt_gui.core.plan import Plan
from ckpt_gui.core.scan.judging import FEWEST, constant_norms, each, norm_weights
from ckpt_gui.core.scan.looks import initial_std
from ckpt_gui.core.scan.result import TensorScan
from ckpt_gui.core.text import human_bytes

FAR = 5.0  # how many usual steps from neighbour to neighbour (of the logarithm) an outlier is away from its own
NEIGHBOURS = 3  # on each side
LEAST_SPREAD = 0.05  # of the logarithm: kinds that are nearly equal do not make small differences large
TIMES_SIZE, TIMES_PEAK = 8.0, 32.0  # and how many times larger or smaller its size, or its largest element, must be
TIMES_NORM = 16.0  # and the size of a norm: that of the first layer is ten times smaller in many a healthy model
FEWEST_ELEMENTS = 64
NEAR_INITIAL = 0.02  # a deviation this near to the initial one, as a share of it, counts as that
MOSTLY = 0.9


def fresh(plan: Plan, tensors: Sequence[TensorScan]) -> Iterator[Finding]:
    """Weights that are as they begin."""
    initial = initial_std(plan)
    norms = constant_norms(tensors)
    matrices = [t for t in tensors if len(t.ref.shape) > 1 and t.stats.count >= 4096 and t.stats.std]
    begun = [t for t in matrices if abs((t.stats.std or 0) / initial - 1) <= NEAR_INITIAL]
    most = len(begun) >= max(FEWEST, MOSTLY * len(matrices))
    if not norms and not most:
        return
    signs = []
    if norms:
        signs.append(f"all {len(norms)} norms are exactly {norms[0].stats.min:.0f}")
    if most:
        signs.append(f"{len(begun)} of {len(matrices)} matrices have the initial deviation of {initial:g}")
    text = f"The model looks as it does before training: {' and '.join(signs)}."
    keys = tuple(t.ref.full_key for t in (*norms, *(begun if most else ())))
    yield Finding("fresh-weights", "info", text, keys, "Look whether the weights were loaded before they were saved.")


def fresh_norms(_: Plan, tensors: Sequence[TensorScan]) -> Iterator[Finding]:
    """Norms of a few layers that are as they begin, while the same norm of most layers is not."""
    kinds: dict[str, list[TensorScan]] = {}
    for norm in norm_weights(tensors):
        kinds.setdefault(norm.role.name, []).append(norm)
    found = []
    for kind in kinds.values():
        ones = [t for t in kind if t.stats.min == t.stats.max == 1 and not t.odd_count]
        if len(kind) >= FEWEST and 2 * len(ones) < len(kind):
            found += [(t, "holds nothing but ones, as before training; that of most layers does not") for t in ones]
    what = "holds nothing but ones, as before training"
    yield from each("fresh-weights", "info", found, what, "Look whether this layer was loaded before it was saved.")


def upcast(_: Plan, tensors: Sequence[TensorScan]) -> Iterator[Finding]:
    """Wide tensors that were narrow before."""
    for wide in ("fp64", "fp32"):
        of_type = [t for t in tensors if t.ref.dtype == wide and t.stats.finite and t.stats.max != t.stats.min]
        total = sum(t.ref.nbytes for t in of_type)
        for narrow in dict.fromkeys(name for t in of_type for name in t.stats.fits):
            held = [t for t in of_type if narrow in t.stats.fits]
            nbytes = sum(t.ref.nbytes for t in held)
            if nbytes >= MOSTLY * total and any(len(t.ref.shape) > 1 for t in held):
                less = human_bytes(nbytes * BY_NAME[narrow].bits // BY_NAME[wide].bits)
                which = "All" if len(held) == len(of_type) else f"{len(held):,} of"
                text = f"{which} {len(of_type):,} {wide} tensors hold nothing that {narrow} does not: they were widened"
                fix = f"fix --dtype {narrow} writes {less} in place of {human_bytes(nbytes)}, and loses nothing."
                yield Finding("upcast-copy", "info", f"{text}.", tuple(t.ref.full_key for t in held), fix)
                break


def outliers(_: Plan, tensors: Sequence[TensorScan]) -> Iterator[Finding]:
    """Tensors that are unlike the same matrix in other layers."""
    kinds: dict[str, list[TensorScan]] = {}
    for tensor in tensors:
        if tensor.role.layer is not None and tensor.stats.abs_max and _comparable(tensor):
            kinds.setdefault(tensor.role.name, []).append(tensor)
    found = []
    for kind in kinds.values():
        sizes = _stand_out(kind, lambda t: t.stats.rms, TIMES_SIZE if len(kind[0].ref.shape) > 1 else TIMES_NORM)
        peaks = _stand_out(kind, lambda t: t.stats.abs_max, TIMES_PEAK)
        for number, tensor in enumerate(kind):
            if number in sizes:
                found.append((tensor, _compared("values", sizes[number], tensor.stats.rms or 0.0)))
            elif number in peaks:
                found.append(
                    (tensor, _compared("a largest element", peaks[number], float(tensor.stats.abs_max or 0.0)))
                )
    order = {id(tensor): number for number, tensor in enumerate(tensors)}
    found.sort(key=lambda item: order[id(item[0])])
    what = "holds values far from those of the same matrix in other layers"
    yield from each("outlier", "info", found, what, "Compare it with the model that it was trained from.")


def _comparable(tensor: TensorScan) -> bool:
    """Return True for matrices and norms: biases differ by any factor, those of keys in Qwen 2 by hundreds."""
    ref = tensor.ref
    return BY_NAME[ref.dtype].kind == "float" and ref.numel >= FEWEST_ELEMENTS and not tensor.key.endswith("bias")


def _stand_out(
    kind: Sequence[TensorScan], figure: Callable[[TensorScan], float | None], times: float
) -> dict[int, float]:
    """Return the tensors of a kind that lie far from the others, and how many times larger they are.

    They must lie far both from the median of all and from that of their neighbours, so that sizes that grow from layer
    to layer are no outliers.
    """
    logs = {n: math.log(value) for n, t in enumerate(kind) if (value := figure(t))}
    if len(logs) < FEWEST:
        return {}
    numbers = list(logs)
    middle = statistics.median(logs.values())
    leaps = {}
    for at, number in enumerate(numbers):
        near = (*numbers[max(at - NEIGHBOURS, 0) : at], *numbers[at + 1 : at + 1 + NEIGHBOURS])
        leaps[number] = abs(logs[number] - statistics.median(logs[n] for n in near))
    far = max(FAR * max(1.4826 * statistics.median(leaps.values()), LEAST_SPREAD), math.log(times))
    least = math.log(times)
    return {n: math.exp(x - middle) for n, x in logs.items() if leaps[n] >= far and abs(x - middle) >= least}


def _compared(what: str, ratio: float, value: float) -> str:
    more = f"{ratio:,.3g} times as large as" if ratio > 1 else f"{1 / ratio:,.3g} times smaller than"
    usual = "root mean square" if what == "values" else "largest |x|"
    return f"holds {what} {more} in other layers ({usual} {value:.4g}, usually {value / ratio:.4g})"
