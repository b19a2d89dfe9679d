"""The figures of tiny tensors, many at once: a model of experts has 100,000 norms and biases, and each costs a look.

Neighbours in a file are read together, and those of one type and size are looked at as rows of one array; what is not
finite in all its elements is left to the usual way. The figures are those of `Moments`, to the last digit or the one
before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from operator import add
from typing import NamedTuple

import numpy as np

from ckpt_gui.core.bulk import build
from ckpt_gui.core.garbage import collected_later
from ckpt_gui.core.native import bin_numbers
from ckpt_gui.core.source import HasRuns, Run, Source
from ckpt_gui.core.stats.distribution import EXACT, equal_edges
from ckpt_gui.core.stats.elements import SMALLEST_NORMAL, Array, Floats, decode
from ckpt_gui.core.stats.figures import QUANTILES, Histogram, TensorStats
from ckpt_gui.core.stats.moments import holds_exactly, narrower
from ckpt_gui.core.stats.reading import SharedWatch
from ckpt_gui.core.tensors import TensorRef

TINY = 1 << 13  # bytes
LEAST = 16  # neighbours that are worth it
WINDOW = 1 << 20  # bytes that are read at once
GAP = 1 << 16  # bytes between two neighbours that are read for nothing
DTYPES = ("bf16", "fp16", "fp32", "fp64")
Place = tuple[object, ...]


class Window(NamedTuple):
    """Tiny tensors that lie close together in a file.

    Attributes:
        file: The file.
        begin: Where the first begins.
        places: Where each begins in the file.
        refs: The tensors.
    """

    file: Run
    begin: int
    places: Sequence[int]
    refs: Sequence[TensorRef]


@collected_later()
def windows(source: Source, refs: Iterable[TensorRef]) -> list[Window]:
    """Return the tiny tensors of a source that can be read together."""
    by_file: dict[str, list[TensorRef]] = defaultdict(list)
    for ref in refs:
        if ref.dtype in DTYPES:
            by_file[ref.file].append(ref)
    found: list[Window] = []
    for name, own in by_file.items():
        reader = source.readers[name]
        if not isinstance(reader, HasRuns):  # asked once a file: with protocols that takes its time
            continue
        tiny = (ref for ref in own if ref.key not in source.blocks)
        rows = [
            (run[1], run[1] + size, ref, run[0])
            for ref in tiny
            if 0 < (size := ref.nbytes) <= TINY and (run := reader.run_of(ref)) is not None
        ]
        found += _cut(sorted(rows, key=lambda row: row[0]))
    return found


def _cut(rows: list[tuple[int, int, TensorRef, Run]]) -> Iterator[Window]:
    first = 0
    for i, (_, end, _, file) in enumerate(rows):
        last = i + 1 == len(rows)
        if not last and rows[i + 1][0] - end <= GAP and rows[i + 1][0] + TINY - rows[first][0] <= WINDOW:
            continue
        some = rows[first : i + 1]
        if len(some) >= LEAST:
            yield Window(file, some[0][0], [row[0] for row in some], [row[2] for row in some])
        first = i + 1


@collected_later()
def window_stats(window: Window, watch: SharedWatch, bins: int = 0) -> dict[Place, TensorStats]:
    """Return the figures of a window's tensors by place; those with NaN or infinities are left out.

    Args:
        window: The tensors.
        watch: Counts their bytes.
        bins: Bins of the histograms wanted; 0 for none.

    Raises:
        Cancelled: The watch says so.
        CheckpointError: The file cannot be read.
    """
    sizes = [ref.nbytes for ref in window.refs]
    end = max(map(add, window.places, sizes))
    data = np.empty(end - window.begin, dtype=np.uint8)
    window.file.pread_into(window.begin, data.data)
    alike: dict[tuple[str, int], list[int]] = defaultdict(list)
    for i, (ref, size) in enumerate(zip(window.refs, sizes, strict=True)):
        alike[ref.dtype, size].append(i)
    found: dict[Place, TensorStats] = {}
    done = 0
    for (dtype, nbytes), rows in alike.items():
        begins = np.array([window.places[i] for i in rows]) - window.begin
        raw = data[begins[:, None] + np.arange(nbytes)]
        some = _of_rows(raw, dtype, [window.refs[i] for i in rows], bins)
        done += nbytes * len(some)
        found |= some
    watch.add(done)
    return found


def _of_rows(raw: Array, dtype: str, refs: Sequence[TensorRef], bins: int) -> dict[Place, TensorStats]:
    """Return the figures of tensors of one type and size, one a row."""
    values = decode(raw.reshape(-1), dtype).reshape(len(refs), -1)
    with np.errstate(over="ignore", invalid="ignore"):
        good = np.isfinite(values.sum(axis=1)) & np.isfinite(values).all(axis=1)
    raw, values = raw[good], values[good]
    if not len(values):
        return {}
    size = values.shape[1]
    with np.errstate(over="ignore"):
        mean = values.mean(axis=1)
        centred = values - mean[:, None]
        deviation = np.einsum("ij,ij->i", centred, centred)
        squares = np.einsum("ij,ij->i", values, values)
    ordered = np.sort(values, axis=1)
    low, high = ordered[:, 0], ordered[:, -1]
    zeros = size - np.count_nonzero(values, axis=1)
    at = np.maximum(np.ceil(np.array(QUANTILES) * size).astype(int) - 1, 0)
    kept = [ref for ref, fine in zip(refs, good.tolist(), strict=True) if fine]
    made = build(
        TensorStats, len(kept), key=(ref.key for ref in kept), dtype=repeat(dtype), shape=(ref.shape for ref in kept),
        count=repeat(size), min=low.tolist(), max=high.tolist(), mean=mean.tolist(),
        std=np.sqrt(deviation / size).tolist(), l2=np.sqrt(squares).tolist(),
        abs_max=np.maximum(np.abs(low), np.abs(high)).tolist(), zeros=zeros.tolist(),
        neg_zeros=np.count_nonzero((values == 0) & np.signbit(values), axis=1).tolist(),
        subnormals=(np.count_nonzero(np.abs(values) < SMALLEST_NORMAL[dtype], axis=1) - zeros).tolist(),
        nan=repeat(0), pos_inf=repeat(0), neg_inf=repeat(0),
        distinct=(1 + np.count_nonzero(np.diff(ordered, axis=1), axis=1)).tolist(),
        # a tuple of pairs each, made column by column
        quantiles=zip(*map(zip, map(repeat, QUANTILES), ordered[:, at].T.tolist()), strict=True),
        exact=repeat(True), caption=repeat(EXACT), fits=_fits(raw, dtype),
        histogram=[_histogram(row, bins) for row in values] if bins else repeat(None), reason=repeat(None),
    )  # fmt: skip
    return {ref.place: stats for ref, stats in zip(kept, made, strict=True)}


def _fits(raw: Array, dtype: str) -> list[tuple[str, ...]]:
    """Return the narrower types that hold each row exactly."""
    names = narrower(dtype)
    if not names:
        return [()] * len(raw)
    with np.errstate(over="ignore", invalid="ignore"):
        return [tuple(name for name in names if holds_exactly(row, dtype, name)) for row in raw]


def _histogram(row: Floats, bins: int) -> Histogram | None:
    edges = equal_edges((float(row.min()), float(row.max())), bins)
    if edges is None:
        return None
    counts = np.bincount(bin_numbers(row, edges), minlength=bins)
    return Histogram(tuple(edges.tolist()), tuple(counts.tolist()))
