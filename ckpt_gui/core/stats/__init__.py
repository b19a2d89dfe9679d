"""Figures of tensors and pairs, streamed in blocks of bounded memory: one pass a tensor, exact where it says so.

Whoever wants numbers imports them from here; what stands in the modules below may move.
"""

from ckpt_gui.core.stats.cache import StatsCache
from ckpt_gui.core.stats.casting import CastStats, cast_stats
from ckpt_gui.core.stats.distribution import Distribution
from ckpt_gui.core.stats.elements import decode, no_figures, pattern_values
from ckpt_gui.core.stats.figures import (
    BINS,
    QUANTILES,
    Histogram,
    PairStats,
    Relation,
    RowDifferences,
    TensorStats,
)
from ckpt_gui.core.stats.heat import HeatMap, heat_map
from ckpt_gui.core.stats.many import many_stats
from ckpt_gui.core.stats.pair import pair_stats
from ckpt_gui.core.stats.reading import BLOCK, Asked, Progress, SharedWatch, Watch, blocks
from ckpt_gui.core.stats.rows import MAX_ROWS
from ckpt_gui.core.stats.single import distribution, first_values, tensor_stats

__all__ = [
    "BINS",
    "BLOCK",
    "MAX_ROWS",
    "QUANTILES",
    "Asked",
    "CastStats",
    "Distribution",
    "HeatMap",
    "Histogram",
    "PairStats",
    "Progress",
    "Relation",
    "RowDifferences",
    "SharedWatch",
    "StatsCache",
    "TensorStats",
    "Watch",
    "blocks",
    "cast_stats",
    "decode",
    "distribution",
    "first_values",
    "heat_map",
    "many_stats",
    "no_figures",
    "pair_stats",
    "pattern_values",
    "tensor_stats",
]
