"""Sums of the elements of wide types, in fp64: torch's fp32 norms of large tensors are visibly wrong."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ckpt_gui.core.dtypes import BY_NAME
from ckpt_gui.core.native import Sums, kernels, sums_of
from ckpt_gui.core.stats.distribution import BUCKETS, Distribution, add_to_sketch, is_whole, of_sketch, of_values
from ckpt_gui.core.stats.elements import SMALLEST_NORMAL, Array, Floats, decode, exact, special
from ckpt_gui.core.stats.figures import TensorStats
from ckpt_gui.core.stats.tally_base import COUNTED, figures
from ckpt_gui.core.tensors import TensorRef

SMALL = 1 << 16  # up to so many elements of a wide type are kept, so that their distribution is exact
GLIMPSE = 1 << 12  # bytes of a block, a whole number of elements, that tell of most tensors that no narrower type fits


class Moments:
    """Sums in fp64; the deviations of blocks are merged after Chan, Golub and LeVeque (1979)."""

    def __init__(self, dtype: str, numel: int) -> None:
        self.dtype = dtype
        self.number = self.zeros = self.neg_zeros = self.subnormals = self.nan = self.pos_inf = self.neg_inf = 0
        self.mean = self.deviation = self.square_sum = 0.0
        self.low: float | None = None
        self.high: float | None = None
        self.fits = dict.fromkeys(narrower(dtype), True)
        self._kept: list[Floats] | None = [] if numel <= SMALL else None
        self._sketch = None if numel <= SMALL else np.zeros(BUCKETS, dtype=np.int64)
        self._odd = numel % 2 if dtype == "fp4" else 0
        self.is_exact = numel <= SMALL
        self._found: Distribution | None = None  # until more is added

    def add(self, raw: Array) -> None:
        """See `Tally`."""
        self._found = None
        self._note_fits(raw)
        if self._sketch is not None and self.dtype == "fp32":
            singles = raw.view(np.float32)
            found = kernels().sums(singles)
            if found is not None:
                self._take(found, singles.size)
                self._extend(found.low, found.high)
                add_to_sketch(self._sketch, singles)
                return
        self._add_values(raw)

    def _add_values(self, raw: Array) -> None:
        """Take in a block of any type, of which some elements may not be finite."""
        values = decode(raw, self.dtype)
        values = values[:-1] if self._odd else values  # a packed type that is small comes in one block
        with np.errstate(over="ignore", invalid="ignore"):
            if not math.isfinite(values.sum()):
                masks = special(values)
                self.nan += int(np.count_nonzero(masks["nan"]))
                self.pos_inf += int(np.count_nonzero(masks["pos_inf"]))
                self.neg_inf += int(np.count_nonzero(masks["neg_inf"]))
                values = values[np.isfinite(values)]
        if not values.size:
            return
        found = sums_of(values, SMALLEST_NORMAL.get(self.dtype, 0.0))
        self._take(found, values.size)
        extent: tuple[Any, Any] = (found.low, found.high)
        if BY_NAME[self.dtype].kind == "int" and BY_NAME[self.dtype].bits == 64:  # wider than fp64 tells exactly
            numbers = raw.view(BY_NAME[self.dtype].numpy)
            extent = (numbers.min(), numbers.max())
        self._extend(*(exact(end, self.dtype) for end in extent))
        if self._kept is not None:
            self._kept.append(values)
        elif self._sketch is not None:
            add_to_sketch(self._sketch, values)

    def _take(self, found: Sums, number: int) -> None:
        self.zeros += found.zeros
        self.neg_zeros += found.negative_zeros
        self.subnormals += found.subnormals
        self._join(number, found.mean, found.deviation)
        self.square_sum += found.squares

    def _note_fits(self, raw: Array) -> None:
        """Forget the narrower types that do not hold these elements exactly; most fail at the first block."""
        with np.errstate(over="ignore", invalid="ignore"):
            for name in [name for name, holds in self.fits.items() if holds]:
                self.fits[name] = all(holds_exactly(part, self.dtype, name) for part in (raw[:GLIMPSE], raw))

    def _join(self, number: int, mean: float, deviation: float) -> None:
        total, delta = self.number + number, mean - self.mean
        self.mean += delta * (number / total)
        self.deviation += deviation
        if self.number:
            self.deviation += delta * delta * (self.number * (number / total))
        self.number = total

    def _extend(self, low: float, high: float) -> None:
        self.low = low if self.low is None else min(self.low, low)
        self.high = high if self.high is None else max(self.high, high)

    def merge(self, other: Moments) -> None:
        """See `Tally`."""
        self._found = None
        for name in COUNTED:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.fits = {name: holds and other.fits[name] for name, holds in self.fits.items()}
        if other.low is None or other.high is None:
            return
        self._join(other.number, other.mean, other.deviation)
        self.square_sum += other.square_sum
        self._extend(other.low, other.high)
        if self._kept is not None and other._kept is not None:
            self._kept += other._kept
        if self._sketch is not None and other._sketch is not None:
            self._sketch += other._sketch

    def moments(self) -> tuple[int, float, float, float]:
        """See `Tally`."""
        return self.number, self.mean, self.deviation, self.square_sum

    def range(self) -> tuple[float, float] | None:
        """See `Tally`."""
        return None if self.low is None or self.high is None else (float(self.low), float(self.high))

    def distribution(self) -> Distribution:
        """See `Tally`."""
        if self._found is None:
            self._found = self._spread()
        return self._found

    def _spread(self) -> Distribution:
        extent = self.range()
        if extent is None:
            return of_values(np.zeros(0), True)
        if self._kept is not None:
            return of_values(np.concatenate(self._kept), is_whole(self.dtype, max(map(abs, extent))))
        assert self._sketch is not None
        return of_sketch(self._sketch, *extent)

    def stats(self, ref: TensorRef) -> TensorStats:
        """See `Tally`."""
        counted: dict[str, Any] = {name: getattr(self, name) for name in COUNTED}
        if self.low is None or self.high is None:
            return TensorStats(ref.key, ref.dtype, ref.shape, ref.numel, **counted)
        fits = tuple(name for name, holds in self.fits.items() if holds)
        return figures(ref, self.moments(), self.low, self.high, self.distribution(), counted, fits)

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """See `Tally`."""
        names = ("number", *COUNTED, "mean", "deviation", "square_sum", "low", "high", "fits")
        arrays: dict[str, Array] = {}
        if self._kept is not None:
            arrays["kept"] = np.concatenate([np.zeros(0), *self._kept])
        elif self._sketch is not None:
            seen = np.flatnonzero(self._sketch)
            arrays = {"buckets": seen.astype(np.uint16), "counts": self._sketch[seen].astype(np.uint64)}
        return {name: getattr(self, name) for name in names}, arrays

    def restore(self, plain: dict[str, Any], arrays: dict[str, Array]) -> None:
        """See `Tally`."""
        self._found = None
        for name in ("number", *COUNTED):
            setattr(self, name, int(plain[name]))
        for name in ("mean", "deviation", "square_sum"):
            setattr(self, name, float(plain[name]))
        self.low, self.high = (
            None if plain[name] is None else exact(plain[name], self.dtype) for name in ("low", "high")
        )
        self.fits = {name: bool(plain["fits"][name]) for name in self.fits}
        if self._kept is not None:
            self._kept = [arrays["kept"]]
        elif self._sketch is not None:
            self._sketch[arrays["buckets"]] = arrays["counts"].astype(np.int64)
        held = arrays["kept"].size if self._kept is not None else int(arrays["counts"].sum())
        if held != self.number:
            raise ValueError("the counts are not those of this tensor")


def narrower(dtype: str) -> tuple[str, ...]:
    """Return the narrower float types whose fit is told of a type."""
    return {"fp32": ("bf16", "fp16"), "fp64": ("fp32",)}.get(dtype, ())


def holds_exactly(raw: Array, dtype: str, narrow: str) -> bool:
    """Return True if a narrower float type holds every element exactly; infinities and NaN do not count."""
    if narrow == "bf16":
        return not raw.view(np.uint16)[0::2].any()
    if narrow == "fp16" and np.bitwise_or.reduce(raw.view(np.uint32), initial=0) & 0x1FFF:
        return False
    values = raw.view(BY_NAME[dtype].numpy)
    cast = values.astype(BY_NAME[narrow].numpy)
    return bool(((cast == values) | ~np.isfinite(values)).all())
