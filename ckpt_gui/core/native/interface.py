"""What the kernels do, whoever does it."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from numpy.typing import NDArray

Array = NDArray[Any]


class Sums(NamedTuple):
    """What is added up of elements, in fp64.

    Attributes:
        mean: Their mean.
        deviation: The sum of the squares of what lies between each and the mean.
        squares: The sum of their squares.
        low: The smallest.
        high: The largest.
        zeros: How many are 0, of either sign.
        negative_zeros: How many are −0.
        subnormals: How many are so small that they lose digits.
    """

    mean: float
    deviation: float
    squares: float
    low: float
    high: float
    zeros: int
    negative_zeros: int
    subnormals: int


class Columns(NamedTuple):
    """What is told of each column of a matrix.

    Attributes:
        sums: The sum of its finite elements, fp64.
        largest: The largest magnitude of those; −1 if there is none.
        bad: How many elements are not finite.
    """

    sums: Array
    largest: Array
    bad: Array


class Kernels(Protocol):
    """Loops over one-dimensional arrays of elements at any address.

    Results are the same bit for bit in each class, but for the first three of `Sums`, whose last digits depend on the
    order in which is added.

    Attributes:
        is_compiled: Whether the loops run without the interpreter's lock, so that further threads help.
    """

    is_compiled: bool

    def count(self, counts: Array, patterns: Array) -> None:
        """Add to each of `counts` how often its number stands in `patterns`.

        Args:
            counts: 256 or 65,536 numbers, int64.
            patterns: Elements of uint8 or uint16; of uint16 every other one (`[::2]` or `[1::2]`) as well.

        Raises:
            ValueError: The arrays are others.
        """

    def count_bins(self, counts: Array, values: Array, edges: Array) -> None:
        """Add to each of `counts` how many finite fp32 lie between two borders; what lies outside goes to the ends.

        Args:
            counts: int64.
            values: float32.
            edges: float64, ascending, one more than counts.

        Raises:
            ValueError: The arrays are others.
        """

    def look_up(self, patterns: Array, table: Array, out: Array, least: int = 0, most: int = 0) -> int:
        """Put each pattern's entry of a table into `out`; return how many are from `least` to below `most`, unsigned.

        Args:
            patterns: uint16.
            table: 65,536 entries of uint16 or uint32.
            out: As many as there are patterns, of the table's type; it may be `patterns`.
            least: The smallest pattern without its sign that is counted.
            most: The one after the largest.

        Raises:
            ValueError: The arrays are others.
        """

    def to_bf16(self, values: Array, out: Array) -> int:
        """Round fp32 to the nearest bf16, ties to even; return how many finite values became infinite.

        Args:
            values: float32; NaN becomes a quiet NaN.
            out: As many uint16, elsewhere.

        Raises:
            ValueError: The arrays are others.
        """

    def to_fp16(self, values: Array, out: Array) -> int:
        """Round fp32 to the nearest fp16, ties to even; return how many finite values became infinite.

        Args:
            values: float32; NaN becomes a quiet NaN.
            out: As many uint16, elsewhere.

        Raises:
            ValueError: The arrays are others.
        """

    def sums(self, values: Array) -> Sums | None:
        """Return the sums of fp32; None where an element is not finite, or there is none.

        Args:
            values: float32.

        Raises:
            ValueError: The array is another.
        """

    def columns(self, values: Array) -> Columns:
        """Return what is told of each column of a matrix of fp32.

        Args:
            values: float32, two-dimensional.

        Raises:
            ValueError: The array is another.
        """
