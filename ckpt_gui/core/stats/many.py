"""The figures of many tensors, on a few threads."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from ckpt_gui import dataclasses
from ckpt_gui.core.bulk import joined
from ckpt_gui.core.cores import WORKERS
from ckpt_gui.core.garbage import collected_later
from ckpt_gui.core.remote.watch import adopt, current
from ckpt_gui.core.source import Source
from ckpt_gui.core.stats.figures import TensorStats
from ckpt_gui.core.stats.reading import Asked, Progress, SharedWatch
from ckpt_gui.core.stats.single import stats_under
from ckpt_gui.core.stats.tiny import window_stats, windows
from ckpt_gui.core.tensors import TensorRef

if TYPE_CHECKING:
    from ckpt_gui.core.stats.cache import StatsCache


def many_stats(
    source: Source,
    refs: Sequence[TensorRef],
    *,
    bins: int = 0,
    workers: int = WORKERS,
    progress: Progress | None = None,
    cancelled: Asked | None = None,
    cache: StatsCache | None = None,
) -> tuple[TensorStats, ...]:
    """Return the figures of tensors, in their order; those at the same place are read once.

    Args:
        source: The opened checkpoint.
        refs: Some of its tensors.
        bins: Bins of the histograms wanted; 0 for none.
        workers: Threads.
        progress: Called with a label, bytes done and bytes in all.
        cancelled: Asked between blocks.
        cache: Where counts are kept from one run to the next; None to read in any case.

    Raises:
        Cancelled: `cancelled` said so.
        CheckpointError: The bytes of a tensor can not be read.
    """
    asked = [ref.place for ref in refs]
    places = joined(asked, refs)
    shared = SharedWatch("Reading tensors", sum(ref.nbytes for ref in places.values()), progress, cancelled)
    with ThreadPoolExecutor(
        max(workers, 1), thread_name_prefix="stats", initializer=adopt, initargs=(current(),)
    ) as pool:
        try:
            found: dict[tuple[object, ...], TensorStats] = {}
            with collected_later():
                together = windows(source, places.values())
                for some in pool.map(lambda window: window_stats(window, shared, bins), together):
                    found |= some
            futures: dict[tuple[object, ...], Future[TensorStats]] = {
                place: pool.submit(stats_under, source, ref, bins, shared.watch(ref), cache)
                for place, ref in places.items()
                if place not in found
            }
            found |= {place: future.result() for place, future in futures.items()}
        except BaseException:
            shared.stopped = True
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return tuple(_named(found[place], ref.key) for place, ref in zip(asked, refs, strict=True))


def _named(stats: TensorStats, key: str) -> TensorStats:
    return stats if stats.key == key else dataclasses.replace(stats, key=key)
