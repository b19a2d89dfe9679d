"""Two tensors of one shape, compared in one pass; blocks whose bytes agree are counted once, for both sides."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from ckpt_gui.core.casts import cast
from ckpt_gui.core.dtypes import BY_NAME, CASTABLE
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.source import Source
from ckpt_gui.core.stats.covary import Together, max_ulp
from ckpt_gui.core.stats.distribution import equal_edges
from ckpt_gui.core.stats.elements import Array, Floats, decode, no_figures
from ckpt_gui.core.stats.figures import BINS, PairStats, Relation, TensorStats
from ckpt_gui.core.stats.reading import BLOCK, Asked, Progress, Watch, blocks
from ckpt_gui.core.stats.rows import RowMeans
from ckpt_gui.core.stats.single import histogram_counts
from ckpt_gui.core.stats.tally import tally_for
from ckpt_gui.core.tensors import TensorRef

if TYPE_CHECKING:
    from ckpt_gui.core.stats.cache import StatsCache


def pair_stats(
    source: Source,
    a: TensorRef,
    b: TensorRef,
    *,
    other: Source | None = None,
    progress: Progress | None = None,
    cancelled: Asked | None = None,
    cache: StatsCache | None = None,
) -> PairStats:
    """Compare two stored tensors of one shape.

    Args:
        source: The opened checkpoint.
        a: One of its tensors.
        b: The tensor to compare with.
        other: The checkpoint that holds `b`; None if `source` does.
        progress: Called with a label, bytes done and bytes in all.
        cancelled: Asked between blocks.
        cache: Where comparisons are kept from one run to the next; None to read in any case.

    Raises:
        Cancelled: `cancelled` said so.
        CheckpointError: The shapes differ, or the bytes can not be read.
    """
    if a.shape != b.shape:
        raise CheckpointError("shape-mismatch", _shapes_differ(a, b), key=b.key)
    a.refuse_endless()
    b.refuse_endless()
    second = other or source
    kept = cache.load_pair(source, a, second, b) if cache is not None else None
    if kept is not None:
        return kept
    found = _Comparison(source, a, second, b, second is source and a.place == b.place, progress, cancelled).run()
    if cache is not None:
        cache.keep_pair(source, a, second, b, found)
    return found


def _shapes_differ(a: TensorRef, b: TensorRef) -> str:
    left, right = ("×".join(str(n) for n in ref.shape) or "a scalar" for ref in (a, b))
    both = f"`{safe_text(a.key)}` is {left} and `{safe_text(b.key)}` is {right}"
    return f"{both}: only tensors of one shape can be compared."


def _only_bits(dtype: str) -> str | None:
    """Say why tensors of a type are compared by their bits alone; None if they are not."""
    if BY_NAME[dtype].bits < 8:
        return f"{dtype} elements are packed below a byte: pairs of them are compared by their bytes."
    return no_figures(dtype)


def _cast_between(a: str, b: str) -> tuple[str, str] | None:
    """Return from which type to which a cast is tried: from the wider to the narrower; None if there is none."""
    if a == b or not {a, b} <= set(CASTABLE):
        return None
    return (a, b) if BY_NAME[a].bits >= BY_NAME[b].bits else (b, a)


class _Comparison:
    """One comparison under way."""

    def __init__(
        self, source: Source, a: TensorRef, other: Source, b: TensorRef, same_place: bool,
        progress: Progress | None, cancelled: Asked | None,
    ) -> None:  # fmt: skip
        self.source, self.a, self.other, self.b, self.same_place = source, a, other, b, same_place
        self.by_value = a.dtype != b.dtype
        self.reason = _only_bits(a.dtype) or _only_bits(b.dtype)
        self.rows = RowMeans(a.shape)
        self.differing = self.flips = 0
        self.ulp: int | None = 0 if BY_NAME[a.dtype].kind == "float" and not self.by_value else None
        self.cast = _cast_between(a.dtype, b.dtype)
        self.together = Together()
        self.diff_sum = 0.0
        self.max_diff, self.max_at = -1.0, -1
        label = f"Comparing {safe_text(a.key, 40)} with {safe_text(b.key, 40)}"
        self.watch = Watch(label, self._bytes_to_read(), progress, cancelled)

    def _bytes_to_read(self) -> int:
        """Return what one pass takes, and a second one for the histograms of types that need it."""
        once = self.a.nbytes if self.same_place else self.a.nbytes + self.b.nbytes
        tallies = () if self.reason else tuple((ref, tally_for(ref)) for ref in (self.a, self.b))
        return once + sum(ref.nbytes for ref, tally in tallies if not tally.is_exact)

    def run(self) -> PairStats:
        if self.reason:
            return self._bits_only()
        self.shared, self.only_a, self.only_b = tally_for(self.a), tally_for(self.a), tally_for(self.b)
        self._read()
        return self._result()

    def _bits_only(self) -> PairStats:
        """Compare types that have no figures: by their bits, or not at all if the types differ."""
        if self.by_value:
            text = f"{self.a.dtype} and {self.b.dtype} can not be compared by value."
            raise CheckpointError("dtype-mixed", text, key=self.b.key)
        width = max(BY_NAME[self.a.dtype].itemsize, 1)
        if not self.same_place:
            for _, left, right in self._pairs():
                self.differing += int(np.count_nonzero(_bits_differ(left, right, width)))
        a, b = (TensorStats(r.key, r.dtype, r.shape, r.numel, reason=self.reason) for r in (self.a, self.b))
        return PairStats(self._relation(), False, self.differing, self.a.nbytes // width, a, b, reason=self.reason)

    def _pairs(self) -> Iterator[tuple[int, Array, Array]]:
        """Yield the first element's number and the raw bytes of both sides, element by element beside each other."""
        sizes = [max(BY_NAME[r.dtype].itemsize, 1) for r in (self.a, self.b)]
        step = BLOCK // max(sizes)
        number = self.a.nbytes // sizes[0]
        buffers = [np.empty(step * size, dtype=np.uint8) for size in sizes]
        for start in range(0, number, step):
            count = min(step, number - start)
            views = [buffer[: count * size] for buffer, size in zip(buffers, sizes, strict=True)]
            self.watch.step(sum(view.nbytes for view in views))
            self.source.read_into(self.a, start * sizes[0], views[0].data)
            self.other.read_into(self.b, start * sizes[1], views[1].data)
            yield start, views[0], views[1]

    def _read(self) -> None:
        if self.same_place:
            for start, raw in blocks(self.source, self.a, self.watch):
                self._agreeing(start, raw)
            return
        for start, left, right in self._pairs():
            if not self.by_value and np.array_equal(left, right):
                self._agreeing(start, left)
            else:
                self.only_a.add(left)
                self.only_b.add(right)
                self._differences(start, left, right)

    def _agreeing(self, start: int, raw: Array) -> None:
        self.shared.add(raw)
        self.rows.add(start, None, raw.nbytes // BY_NAME[self.a.dtype].itemsize)

    def _differences(self, start: int, left: Array, right: Array) -> None:
        a, b = decode(left, self.a.dtype), decode(right, self.b.dtype)
        self._note_differing(start, left, right, a, b)
        with np.errstate(over="ignore", invalid="ignore"):
            diff = np.abs(a - b)
            both = None
            if not math.isfinite(diff.sum()):
                known, both = np.isfinite(diff), np.isfinite(a) & np.isfinite(b)
                self._note_max(start, np.where(known, diff, -1.0))
                self.together.add(a[known], b[known], diff[known])
                a, b, diff = (np.where(known, x, 0.0) for x in (a, b, diff))
            else:
                self._note_max(start, diff)
                self.together.add(a, b, diff)
            self.diff_sum += float(diff.sum())
            self.flips += int(np.count_nonzero(np.sign(a) * np.sign(b) < 0))
        if self.ulp is not None:
            self.ulp = max(self.ulp, max_ulp(left, right, self.a.dtype, both))
        self.rows.add(start, diff, diff.size)

    def _note_differing(self, start: int, left: Array, right: Array, a: Floats, b: Floats) -> None:
        if self.by_value:
            differ = (a != b) & ~(np.isnan(a) & np.isnan(b))
        else:
            differ = _bits_differ(left, right, BY_NAME[self.a.dtype].itemsize)
        self.differing += int(np.count_nonzero(differ))
        self.rows.differ(start, differ)
        if self.cast is not None and differ.any():
            wide, values = (left, b) if self.cast[0] == self.a.dtype else (right, a)
            near = decode(cast(wide, *self.cast)[0], self.cast[1])
            if not np.array_equal(near, values, equal_nan=True):
                self.cast = None

    def _note_max(self, start: int, diff: Floats) -> None:
        at = int(diff.argmax())
        if diff[at] > self.max_diff:
            self.max_diff, self.max_at = float(diff[at]), start + at

    def _relation(self) -> Relation:
        if self.same_place:
            return "same storage"
        if not self.differing:
            return "equal"
        return "equal after cast" if self.cast is not None else "different"

    def _result(self) -> PairStats:
        shared = self.shared.moments()
        if shared[0]:
            self.max_diff = max(self.max_diff, 0.0)
        self.together.add_equal(shared)
        known = self.together.number
        if not self.by_value:
            self.only_a.merge(self.shared)
            self.only_b.merge(self.shared)
        edges = equal_edges(_joint(self.only_a.range(), self.only_b.range()), BINS)
        hist_a, hist_b = self._histograms(edges)
        together = self.together
        return PairStats(
            self._relation(), self.by_value, self.differing, self.a.numel,
            self.only_a.stats(self.a), self.only_b.stats(self.b),
            max_diff=self.max_diff if known else None, where=self._where(),
            mean_diff=self.diff_sum / known if known else None,
            diff_l2=math.sqrt(together.diff_squares) if known else None, relative=together.relative,
            cosine=together.cosine, correlation=together.correlation, sign_flips=self.flips, max_ulp=self.ulp,
            edges=() if edges is None else tuple(edges.tolist()), hist_a=hist_a, hist_b=hist_b, rows=self.rows.result(),
        )  # fmt: skip

    def _histograms(self, edges: Floats | None) -> tuple[tuple[int, ...], tuple[int, ...]]:
        a = histogram_counts(self.source, self.a, self.only_a.distribution(), edges, self.watch)
        if not self.by_value and not self.differing:
            return tuple(a.tolist()), tuple(a.tolist())
        b = histogram_counts(self.other, self.b, self.only_b.distribution(), edges, self.watch)
        return tuple(a.tolist()), tuple(b.tolist())

    def _where(self) -> tuple[int, int] | None:
        """Return row and column of the largest |Δ|; None if there is none above 0."""
        return divmod(self.max_at, self.rows.num_columns) if self.max_diff > 0 else None


def _bits_differ(left: Array, right: Array, width: int) -> Array:
    """Return which elements of `width` bytes differ in their bits."""
    if width > 8:
        left, right = left.view(np.uint64), right.view(np.uint64)
        wide: Array = (left != right).reshape(-1, width // 8).any(axis=1)
        return wide
    differ: Array = left.view(f"uint{8 * width}") != right.view(f"uint{8 * width}")
    return differ


def _joint(a: tuple[float, float] | None, b: tuple[float, float] | None) -> tuple[float, float] | None:
    if a is None or b is None:
        return a or b
    return min(a[0], b[0]), max(a[1], b[1])
