"""What a tally is, and how its sums become figures."""

from __future__ import annotations

import math
from typing import Any, Protocol

from ckpt_gui.core.stats.distribution import Distribution
from ckpt_gui.core.stats.elements import Array
from ckpt_gui.core.stats.figures import QUANTILES, TensorStats
from ckpt_gui.core.tensors import TensorRef

COUNTED = ("zeros", "neg_zeros", "subnormals", "nan", "pos_inf", "neg_inf")


class Tally(Protocol):
    """Collects what the blocks of a tensor say; two tallies of one type can be added.

    Attributes:
        is_exact: True if its distribution knows every value, False if it is a sketch.
    """

    is_exact: bool

    def add(self, raw: Array) -> None:
        """Take in a block."""

    def merge(self, other: Any) -> None:
        """Take in what another tally of the same type has seen."""

    def moments(self) -> tuple[int, float, float, float]:
        """Return number, mean, sum of squared deviations, and sum of squares of the finite elements."""

    def range(self) -> tuple[float, float] | None:
        """Return the smallest and the largest finite value."""

    def distribution(self) -> Distribution:
        """Return how the finite elements are spread."""

    def stats(self, ref: TensorRef) -> TensorStats:
        """Return the figures, without a histogram."""

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return everything it holds: plain values, and arrays."""

    def restore(self, plain: dict[str, Any], arrays: dict[str, Array]) -> None:
        """Become what `state` returned.

        Raises:
            ValueError, TypeError, KeyError: That can not have come from `state`.
        """


def moments_of(found: Distribution) -> tuple[int, float, float, float]:
    """Return number, mean, sum of squared deviations, and sum of squares of a distribution that is exact."""
    values, counts = found.values, found.counts
    number = int(counts.sum())
    if not number:
        return 0, 0.0, 0.0, 0.0
    mean = float((values * counts).sum()) / number
    return number, mean, float(((values - mean) ** 2 * counts).sum()), float((values * values * counts).sum())


def figures(
    ref: TensorRef,
    moments: tuple[int, float, float, float],
    low: float,
    high: float,
    found: Distribution,
    counted: dict[str, Any],
    fits: tuple[str, ...],
) -> TensorStats:
    """Return the figures that these sums say."""
    number, mean, deviation, squares = moments
    return TensorStats(
        ref.key, ref.dtype, ref.shape, ref.numel, low, high, mean, math.sqrt(deviation / number), math.sqrt(squares),
        max(abs(low), abs(high)), **counted, distinct=found.values.size if found.exact else None,
        quantiles=found.quantiles(QUANTILES), exact=found.exact, caption=found.caption, fits=fits,
    )  # fmt: skip
