"""How two tensors go together: sums of products whose means are taken off block by block, so that nothing cancels."""

from __future__ import annotations

import math

import numpy as np

from ckpt_gui.core.dtypes import BY_NAME
from ckpt_gui.core.stats.elements import Array, Floats
from ckpt_gui.dataclasses import dataclass


@dataclass(slots=True)
class Together:
    """Sums over elements that are finite on both sides; blocks are merged after Chan, Golub and LeVeque (1979).

    Attributes:
        number: Elements.
        mean_a: Mean of the first.
        mean_b: Mean of the second.
        dev_a: Squared deviations of the first.
        dev_b: Squared deviations of the second.
        both: Products of the deviations.
        dot: Products.
        squares_a: Squares of the first.
        squares_b: Squares of the second.
        diff_squares: Squares of the differences.
    """

    number: int = 0
    mean_a: float = 0.0
    mean_b: float = 0.0
    dev_a: float = 0.0
    dev_b: float = 0.0
    both: float = 0.0
    dot: float = 0.0
    squares_a: float = 0.0
    squares_b: float = 0.0
    diff_squares: float = 0.0

    def add(self, a: Floats, b: Floats, diff: Floats) -> None:
        """Take in a block: both sides, all finite, and |Δ|."""
        if not a.size:
            return
        mean_a, mean_b = float(a.mean()), float(b.mean())
        left, right = a - mean_a, b - mean_b
        sums = (_dot(left, left), _dot(right, right), _dot(left, right))
        self._join(a.size, mean_a, mean_b, sums)
        self.dot += _dot(a, b)
        self.squares_a += _dot(a, a)
        self.squares_b += _dot(b, b)
        self.diff_squares += _dot(diff, diff)

    def add_equal(self, moments: tuple[int, float, float, float]) -> None:
        """Take in elements that both sides have alike: their number, mean, squared deviations and squares."""
        number, mean, deviation, squares = moments
        if number:
            self._join(number, mean, mean, (deviation, deviation, deviation))
            self.dot, self.squares_a, self.squares_b = (s + squares for s in (self.dot, self.squares_a, self.squares_b))

    def _join(self, number: int, mean_a: float, mean_b: float, sums: tuple[float, float, float]) -> None:
        total = self.number + number
        a, b = mean_a - self.mean_a, mean_b - self.mean_b
        weight = self.number * (number / total)
        self.dev_a += sums[0] + a * a * weight
        self.dev_b += sums[1] + b * b * weight
        self.both += sums[2] + a * b * weight
        self.mean_a += a * (number / total)
        self.mean_b += b * (number / total)
        self.number = total

    @property
    def cosine(self) -> float | None:
        """Cosine of the angle between the two."""
        return _ratio(self.dot, self.squares_a, self.squares_b)

    @property
    def correlation(self) -> float | None:
        """Pearson's correlation."""
        return _ratio(self.both, self.dev_a, self.dev_b)

    @property
    def relative(self) -> float | None:
        """‖Δ‖ / ‖a‖."""
        size = math.sqrt(self.squares_a)
        return math.sqrt(self.diff_squares) / size if 0 < size < math.inf else None


def _dot(a: Floats, b: Floats) -> float:
    return float(np.einsum("i,i->", a, b))  # not `a @ b`: that wakes a second thread for nothing


def _ratio(product: float, squares_a: float, squares_b: float) -> float | None:
    size = math.sqrt(squares_a) * math.sqrt(squares_b)
    return max(-1.0, min(1.0, product / size)) if 0 < size < math.inf else None


def max_ulp(left: Array, right: Array, dtype: str, known: Array | None) -> int:
    """Return the most steps from one number of a float type to the next that lie between two sides.

    Args:
        left: Raw bytes.
        right: Raw bytes.
        dtype: Type of both.
        known: Which elements are finite on both sides; None for all.
    """
    a, b = (_ordered(raw, BY_NAME[dtype].bits) for raw in (left, right))
    steps = np.maximum(a, b) - np.minimum(a, b)
    if known is not None:
        steps = steps[known]
    return int(steps.max(initial=0))


def _ordered(raw: Array, bits: int) -> Array:
    """Return unsigned numbers in the order of the values; the two zeros are one."""
    patterns = raw.view(f"uint{bits}")
    sign = patterns.dtype.type(1 << (bits - 1))
    size = patterns & (sign - patterns.dtype.type(1))
    ordered: Array = np.where(patterns & sign, sign - size, sign + size)
    return ordered
