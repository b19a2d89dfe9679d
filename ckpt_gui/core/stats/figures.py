"""What is said of a tensor and of a pair: figures as values, so that they can be printed, drawn, kept and compared.

Minimum, maximum, mean, deviation and norm are those of the finite elements; NaN and the infinities are counted apart.
An expanded or overlapping view is figured as the tensor that it is: each element counts as often as it is shown.
"""

from __future__ import annotations

from typing import Literal

from ckpt_gui.dataclasses import dataclass

BINS = 128
QUANTILES = (0.001, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 0.999)
Relation = Literal["same storage", "equal", "equal after cast", "different"]


@dataclass(frozen=True, slots=True)
class Histogram:
    """How many finite elements lie in each bin of equal width; the last bin includes its right edge.

    Attributes:
        edges: The borders, one more than there are bins.
        counts: Elements a bin.
    """

    edges: tuple[float, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TensorStats:
    """The figures of one tensor.

    Attributes:
        key: Its name in the file.
        dtype: Element type.
        shape: Sizes.
        count: Elements.
        min: Smallest finite element; None if there is none. Whole numbers are exact.
        max: Largest finite element.
        mean: Mean of the finite elements.
        std: Standard deviation of the finite elements (divided by their number, not by one less).
        l2: Euclidean norm of the finite elements.
        abs_max: Largest magnitude of a finite element.
        zeros: Elements that are +0 or −0.
        neg_zeros: Elements that are −0.
        subnormals: Elements that are not 0 and smaller than the smallest normal number of the type.
        nan: Elements that are not a number.
        pos_inf: Elements that are +∞.
        neg_inf: Elements that are −∞.
        distinct: How many different finite values there are (+0 and −0 are one); None where that was not counted.
        quantiles: (share, value) pairs: the smallest value that at least that share of the finite elements does not
            exceed.
        exact: True if `quantiles` and `distinct` come from counts of every value; False if from a sketch.
        caption: How the quantiles, and histograms from the same counts, came about, in words.
        fits: Narrower float types that hold every element exactly, so that a cast loses nothing.
        histogram: Present if bins were asked for and there are finite elements; always exact.
        reason: Why there are no figures; None if there are.
    """

    key: str
    dtype: str
    shape: tuple[int, ...]
    count: int
    min: float | None = None
    max: float | None = None
    mean: float | None = None
    std: float | None = None
    l2: float | None = None
    abs_max: float | None = None
    zeros: int = 0
    neg_zeros: int = 0
    subnormals: int = 0
    nan: int = 0
    pos_inf: int = 0
    neg_inf: int = 0
    distinct: int | None = None
    quantiles: tuple[tuple[float, float], ...] = ()
    exact: bool = True
    caption: str = ""
    fits: tuple[str, ...] = ()
    histogram: Histogram | None = None
    reason: str | None = None

    @property
    def finite(self) -> int:
        """Elements that are finite; 0 where there are no figures."""
        return 0 if self.reason else self.count - self.nan - self.pos_inf - self.neg_inf

    @property
    def rms(self) -> float | None:
        """Root of the mean square of the finite elements; None if there are none."""
        return self.l2 / self.finite**0.5 if self.l2 is not None and self.finite else None


@dataclass(frozen=True, slots=True)
class RowDifferences:
    """The mean |Δ| of rows, at most `MAX_ROWS` of them: of every `step` rows the one that differs most.

    Attributes:
        rows: Row numbers, counted from 0.
        values: Mean |Δ| of each of these rows; an element that is not finite counts as no difference.
        step: Rows that one point stands for.
        differing: How many rows of all differ in at least one element.
        first: The first of those, at most `FIRST_ROWS`.
    """

    rows: tuple[int, ...]
    values: tuple[float, ...]
    step: int
    differing: int = 0
    first: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class PairStats:
    """Two tensors of one shape, compared.

    Attributes:
        relation: `same storage`, `equal`, `equal after cast` (the wider type cast to the narrower gives its values, and
            not the other way round) or `different`.
        by_value: True if the element types differ, so that values were compared and not bits.
        differing: Elements that differ; for one type, in their bits (so +0 and −0 differ, and a NaN equals itself).
        count: Elements of each side.
        a: Figures of the first.
        b: Figures of the second.
        max_diff: Largest |Δ| where both sides are finite; None if they nowhere are.
        where: (row, column) of the first element with the largest |Δ|; all dims but the first count as columns.
        mean_diff: Mean |Δ| over the elements that are finite on both sides.
        diff_l2: Euclidean norm of Δ over the same elements.
        relative: ‖Δ‖ / ‖a‖ over the same elements; None if a is zero there.
        cosine: Cosine of the angle between the two over the same elements; None if one of them is zero.
        correlation: Pearson's correlation over the same elements; None if one of them is constant.
        sign_flips: Elements of which one is positive and the other negative.
        max_ulp: Most numbers of the type that lie between the two sides of an element, both finite, counted up to and
            with the farther one; None for types that are no floats, or differ.
        edges: Common borders of the two histograms over the joint finite range.
        hist_a: Finite elements of the first in each bin.
        hist_b: Finite elements of the second in each bin.
        rows: Differences by row.
        reason: Why there are no figures beside the relation; None if there are.
    """

    relation: Relation
    by_value: bool
    differing: int
    count: int
    a: TensorStats
    b: TensorStats
    max_diff: float | None = None
    where: tuple[int, int] | None = None
    mean_diff: float | None = None
    diff_l2: float | None = None
    relative: float | None = None
    cosine: float | None = None
    correlation: float | None = None
    sign_flips: int = 0
    max_ulp: int | None = None
    edges: tuple[float, ...] = ()
    hist_a: tuple[int, ...] = ()
    hist_b: tuple[int, ...] = ()
    rows: RowDifferences = RowDifferences((), (), 1)
    reason: str | None = None

    @property
    def text(self) -> str:
        """The relation in words."""
        if self.relation == "different":
            return f"different in {self.differing:,} of {self.count:,} elements"
        if self.relation == "equal after cast":
            return (
                f"equal after a cast ({self.a.dtype} and {self.b.dtype}; rounding changes {self.differing:,} elements)"
            )
        return f"equal in value ({self.a.dtype} and {self.b.dtype})" if self.by_value else self.relation
