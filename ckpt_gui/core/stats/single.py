"""The figures of one tensor in one pass; a second one only where a sketch can not fill the bins exactly."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ckpt_gui import dataclasses
from ckpt_gui.core.dtypes import BY_NAME
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.native import bin_numbers, kernels
from ckpt_gui.core.source import Source
from ckpt_gui.core.stats.distribution import Distribution, equal_edges
from ckpt_gui.core.stats.elements import Counts, Floats, decode, exact, no_figures
from ckpt_gui.core.stats.figures import Histogram, TensorStats
from ckpt_gui.core.stats.reading import Asked, Progress, Watch, blocks
from ckpt_gui.core.stats.tally import tally_for
from ckpt_gui.core.stats.tally_base import Tally
from ckpt_gui.core.tensors import TensorRef

if TYPE_CHECKING:
    from ckpt_gui.core.stats.cache import StatsCache


def tensor_stats(
    source: Source,
    ref: TensorRef,
    *,
    bins: int = 0,
    progress: Progress | None = None,
    cancelled: Asked | None = None,
    cache: StatsCache | None = None,
) -> TensorStats:
    """Return the figures of a stored tensor.

    Args:
        source: The opened checkpoint.
        ref: One of its tensors.
        bins: Bins of the histogram wanted; 0 for none.
        progress: Called with a label, bytes done and bytes in all.
        cancelled: Asked between blocks.
        cache: Where counts are kept from one run to the next; None to read in any case.

    Raises:
        Cancelled: `cancelled` said so.
        CheckpointError: The bytes can not be read.
    """
    return stats_under(
        source, ref, bins, Watch(f"Reading {safe_text(ref.key, 60)}", ref.nbytes, progress, cancelled), cache
    )


def stats_under(source: Source, ref: TensorRef, bins: int, watch: Watch, cache: StatsCache | None) -> TensorStats:
    """Return the figures of a tensor, reported to a watch; see `tensor_stats`."""
    if reason := without_figures(source, ref):
        return TensorStats(ref.key, ref.dtype, ref.shape, ref.numel, reason=reason)
    tally = read_tally(source, ref, watch, cache)
    stats = tally.stats(ref)
    edges = equal_edges(tally.range(), bins)
    if edges is None:
        return stats
    if not stats.exact:
        watch.total = watch.done + ref.nbytes
    counts = histogram_counts(source, ref, tally.distribution(), edges, watch)
    return dataclasses.replace(stats, histogram=Histogram(tuple(edges.tolist()), tuple(counts.tolist())))


def without_figures(source: Source, ref: TensorRef) -> str | None:
    """Say why there are no figures of a stored tensor; None if there are."""
    blocks = source.blocks.get(ref.key)
    if blocks is not None:
        return f"It holds blocks of {blocks.kind}: its bytes are no numbers, and figures of those are not calculated."
    if ref.is_endless:
        what = ref.endless_text()
        return f"{what[0].upper()}{what[1:]} if it were written out: figures of it are not calculated."
    return no_figures(ref.dtype)


def distribution(
    source: Source,
    ref: TensorRef,
    *,
    progress: Progress | None = None,
    cancelled: Asked | None = None,
    cache: StatsCache | None = None,
) -> Distribution:
    """Return how the finite elements of a tensor are spread: histograms of any binning and quantiles come from it.

    Raises:
        Cancelled: `cancelled` said so.
        CheckpointError: The bytes can not be read.
    """
    if without_figures(source, ref):
        return Distribution(np.zeros(0), np.zeros(0, dtype=np.int64), True)
    watch = Watch(f"Reading {safe_text(ref.key, 60)}", ref.nbytes, progress, cancelled)
    return read_tally(source, ref, watch, cache).distribution()


def read_tally(source: Source, ref: TensorRef, watch: Watch, cache: StatsCache | None = None) -> Tally:
    """Return the tally of a whole tensor, from the cache if it is there."""
    kept = cache.load(source, ref) if cache is not None else None
    if kept is not None:
        watch.step(ref.nbytes)
        return kept
    tally = tally_for(ref)
    for _, raw in blocks(source, ref, watch):
        tally.add(raw)
    if cache is not None:
        cache.keep(source, ref, tally)
    return tally


def histogram_counts(source: Source, ref: TensorRef, found: Distribution, edges: Floats | None, watch: Watch) -> Counts:
    """Count a tensor's finite elements by bin: from its distribution if that is exact, else in a pass of its own."""
    if edges is None:
        return np.zeros(0, dtype=np.int64)
    if found.exact:
        return found.counts_between(edges)
    counts = np.zeros(edges.size - 1, dtype=np.int64)
    for _, raw in blocks(source, ref, watch):
        if ref.dtype == "fp32":
            kernels().count_bins(counts, raw.view(np.float32), edges)
            continue
        values = decode(raw, ref.dtype)
        finite = np.isfinite(values)
        counts += np.bincount(bin_numbers(values if finite.all() else values[finite], edges), minlength=counts.size)
    return counts


def first_values(source: Source, ref: TensorRef, number: int = 8) -> tuple[float, ...]:
    """Return the first values of a tensor in row-major order; none for types without figures.

    Raises:
        CheckpointError: The bytes can not be read.
    """
    if no_figures(ref.dtype):
        return ()
    wanted = min(number, ref.numel)
    raw = np.empty(-(-wanted * BY_NAME[ref.dtype].bits // 8), dtype=np.uint8)
    source.read_into(ref, 0, raw.data)
    values = decode(raw, ref.dtype)[:wanted].tolist()
    return tuple(exact(value, ref.dtype) if math.isfinite(value) else float(value) for value in values)
