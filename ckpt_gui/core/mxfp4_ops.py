"""The op that turns MXFP4 codes and their scales into the numbers that they stand for, as bf16 and exactly.

A byte holds two codes of four bits, the lower half first; 32 codes share a scale, a power of two with bias 127. bf16
has room for every product but those beyond its largest number, which become infinite as they do in transformers.
Sources: OCP microscaling formats rev. 1.0; transformers 4.57 `integrations/mxfp4.py` (`convert_moe_packed_tensors`);
OpenAI gpt-oss `gpt_oss/torch/weights.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.ops import Bytes, Shape, Stream, read_any
from ckpt_gui.dataclasses import dataclass

GROUP = 32  # numbers that share a scale
_PACKED = GROUP // 2  # bytes of their codes
_BYTES = 2 * GROUP  # of them as bf16
_BIAS = 127
_SIZES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)  # of the codes 0 to 7; those from 8 on are the same below zero
_SLAB = 1 << 20  # bytes of codes that are held at once where columns are wanted


@dataclass(frozen=True, slots=True)
class DecodeMxfp4:
    """Decode MXFP4: codes of the shape (…, groups, 16) and scales of (…, groups) become bf16 of (…, 32 × groups)."""

    name: ClassVar[str] = "dequantise"

    @property
    def needs(self) -> tuple[str, ...]:
        """Nothing."""
        return ()

    def inverse(self) -> DecodeMxfp4:
        """Return itself: nothing here makes codes of numbers."""
        return self

    def fits(self, codes: Shape, scales: Shape) -> bool:
        """Return True if there is one scale for each 16 bytes of codes."""
        return len(codes) > 1 and codes[-1] == _PACKED and scales == codes[:-1] and 0 not in codes

    def shape(self, shapes: Sequence[Shape], dims: Mapping[str, int]) -> Shape:
        """Return the shape in numbers.

        Raises:
            CheckpointError: Codes and scales do not fit together.
        """
        codes, scales = shapes
        if not self.fits(codes, scales):
            raise CheckpointError("shape-mismatch", f"Scales of the shape {scales} do not fit MXFP4 codes of {codes}.")
        return (*codes[:-2], codes[-2] * GROUP)

    def apply(self, parts: Sequence[Stream], dims: Mapping[str, int]) -> Stream:
        """Return the decoded tensor; its unit is the numbers of one scale."""
        codes, scales = parts
        return _Decoded(codes, scales, self.shape([codes.shape, scales.shape], dims))

    def describe(self, dims: Mapping[str, int]) -> str:
        """Name both types."""
        return f"MXFP4 with a scale for each {GROUP} → bf16, exact"


class _Decoded:
    """An MXFP4 tensor as bf16, group by group."""

    dtype = "bf16"
    unit = _BYTES

    def __init__(self, codes: Stream, scales: Stream, shape: Shape) -> None:
        self.codes, self.scales, self.shape = codes, scales, shape
        self.groups = shape[-1] // GROUP  # of a row

    def read_into(self, start: int, out: Bytes) -> None:
        codes, scales = self._groups(start // _BYTES, out.nbytes // _BYTES)
        out[:] = _numbers(codes, scales).reshape(-1)

    def read_columns(self, origin: int, begin: int, out: Bytes) -> None:
        """Fill rows of bytes as `ops.HasColumns` has it: whole rows of codes are read, what is wanted is decoded."""
        row, width = origin // (self.groups * _BYTES), out.shape[1]
        first, last = begin // _BYTES, -(-(begin + width) // _BYTES)
        step = max(1, _SLAB // (self.groups * _PACKED))
        for done in range(0, len(out), step):
            part = out[done : done + step]
            codes, scales = self._groups((row + done) * self.groups, len(part) * self.groups)
            wide = codes.reshape(len(part), self.groups, _PACKED)[:, first:last]
            made = _numbers(wide, scales.reshape(len(part), self.groups)[:, first:last])
            part[:] = made.reshape(len(part), -1)[:, begin - first * _BYTES :][:, :width]

    def _groups(self, first: int, count: int) -> tuple[Bytes, Bytes]:
        """Read the codes and the scales of some groups."""
        import numpy as np

        codes, scales = np.empty(count * _PACKED, dtype=np.uint8), np.empty(count, dtype=np.uint8)
        read_any(self.codes, first * _PACKED, codes)
        read_any(self.scales, first, scales)
        return codes.reshape(count, _PACKED), scales


def _numbers(codes: Bytes, scales: Bytes) -> Bytes:
    """Return the bytes of the numbers of whole groups: codes (…, 16) and scales (…) become (…, 64)."""
    import numpy as np

    pairs = scales.astype(np.uint16)[..., None] << 8 | codes
    made: Bytes = np.take(_table(), pairs).view(np.uint8)
    return made


@lru_cache(maxsize=1)
def _table() -> Any:
    """Return, for each scale and each byte of codes, its two numbers as bf16, side by side in 32 bits."""
    import numpy as np

    from ckpt_gui.core.casts import cast

    values = np.array([*_SIZES, *(-size for size in _SIZES)], dtype=np.float32)
    byte = np.arange(256)
    pairs = np.stack([values[byte & 15], values[byte >> 4]], axis=-1)
    with np.errstate(over="ignore"):
        every = np.ldexp(pairs[None], np.arange(256)[:, None, None] - _BIAS).astype(np.float32)
    raw, _ = cast(every.reshape(-1).view(np.uint8), "fp32", "bf16")
    return raw.view(np.uint32)
