"""The kernels in C, reached through ctypes: all that C takes on trust is checked here first."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np

from ckpt_gui.core.native.interface import Array, Columns, Sums
from ckpt_gui.core.native.plain import Plain, scale_of

VERSION = 4  # INTERFACE in kernels.c
_PLACE, _SIZE, _HALF, _TALLY = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint16, ctypes.c_int64
_FUNCTIONS: tuple[tuple[str, tuple[Any, ...], Any], ...] = (
    ("ckpt_count8", (_PLACE, _SIZE, _PLACE), None),
    ("ckpt_count16", (_PLACE, _SIZE, _PLACE), None),
    ("ckpt_count16_apart", (_PLACE, _SIZE, _PLACE), None),
    ("ckpt_bins32", (_PLACE, _SIZE, _PLACE, _SIZE, ctypes.c_double, _PLACE), None),
    ("ckpt_look_up16", (_PLACE, _SIZE, _PLACE, _PLACE, _HALF, _HALF), _TALLY),
    ("ckpt_look_up32", (_PLACE, _SIZE, _PLACE, _PLACE, _HALF, _HALF), _TALLY),
    ("ckpt_fp32_bf16", (_PLACE, _SIZE, _PLACE), _TALLY),
    ("ckpt_fp32_fp16", (_PLACE, _SIZE, _PLACE), _TALLY),
    ("ckpt_sums32", (_PLACE, _SIZE, _PLACE), ctypes.c_int32),
    ("ckpt_columns32", (_PLACE, _SIZE, _SIZE, _PLACE, _PLACE, _PLACE), None),
)
_PATTERNS = 1 << 16
_FLOATS = 5  # of `Sums`, which C has as these and integers of 64 bits


class Compiled:
    """See `Kernels`."""

    is_compiled = True

    def __init__(self, path: Path) -> None:
        """Load the library at `path`.

        Raises:
            OSError: It is no library of this machine.
            AttributeError: It lacks a function.
            ValueError: It was compiled from another version of the source.
        """
        self.path = path
        library = ctypes.CDLL(str(path))
        version = library.ckpt_interface
        version.argtypes, version.restype = (), ctypes.c_int32
        if version() != VERSION:
            raise ValueError(f"{path} has version {version()} of the functions, not {VERSION}")
        self._call = {}
        for name, arguments, result in _FUNCTIONS:
            function = getattr(library, name)
            function.argtypes, function.restype = arguments, result
            self._call[name] = function

    def count(self, counts: Array, patterns: Array) -> None:
        """See `Kernels`."""
        bits = 8 * patterns.itemsize
        apart = bits == 16 and patterns.strides == (4,)
        _check(patterns, "patterns", np.uint8 if bits == 8 else np.uint16, packed=not apart)
        _check(counts, "counts", np.int64, size=1 << bits, written=True)
        name = f"ckpt_count{bits}{'_apart' if apart else ''}"
        self._call[name](patterns.ctypes.data, patterns.size, counts.ctypes.data)

    def count_bins(self, counts: Array, values: Array, edges: Array) -> None:
        """See `Kernels`."""
        scale = scale_of(edges)
        if scale is None:
            Plain().count_bins(counts, values, edges)
            return
        _check(values, "values", np.float32)
        _check(edges, "edges", np.float64)
        _check(counts, "counts", np.int64, size=edges.size - 1, written=True)
        places = (values.ctypes.data, values.size, edges.ctypes.data, counts.size, scale, counts.ctypes.data)
        self._call["ckpt_bins32"](*places)

    def look_up(self, patterns: Array, table: Array, out: Array, least: int = 0, most: int = 0) -> int:
        """See `Kernels`."""
        _check(patterns, "patterns", np.uint16)
        _check(table, "table", np.uint16 if table.itemsize == 2 else np.uint32, size=_PATTERNS)
        _check(out, "out", table.dtype, size=patterns.size, written=True)
        if not 0 <= least <= most < _PATTERNS:
            raise ValueError(f"no range of patterns: {least} to {most}")
        places = (patterns.ctypes.data, patterns.size, table.ctypes.data, out.ctypes.data)
        return int(self._call[f"ckpt_look_up{8 * table.itemsize}"](*places, least, most - least))

    def to_bf16(self, values: Array, out: Array) -> int:
        """See `Kernels`."""
        return self._narrow("ckpt_fp32_bf16", values, out)

    def to_fp16(self, values: Array, out: Array) -> int:
        """See `Kernels`."""
        return self._narrow("ckpt_fp32_fp16", values, out)

    def sums(self, values: Array) -> Sums | None:
        """See `Kernels`."""
        _check(values, "values", np.float32)
        found = np.zeros(len(Sums._fields))  # the last of them are integers
        if not self._call["ckpt_sums32"](values.ctypes.data, values.size, found.ctypes.data) or not values.size:
            return None
        return Sums(*found[:_FLOATS].tolist(), *found[_FLOATS:].view(np.int64).tolist())

    def columns(self, values: Array) -> Columns:
        """See `Kernels`."""
        rows, columns = values.shape
        flat = np.ascontiguousarray(values).reshape(-1)
        _check(flat, "values", np.float32)
        made = Columns(*(np.empty(columns, dtype=kind) for kind in (np.float64, np.float32, np.int32)))
        self._call["ckpt_columns32"](flat.ctypes.data, rows, columns, *(array.ctypes.data for array in made))
        return made

    def _narrow(self, name: str, values: Array, out: Array) -> int:
        _check(values, "values", np.float32)
        _check(out, "out", np.uint16, size=values.size, written=True)
        return int(self._call[name](values.ctypes.data, values.size, out.ctypes.data))


def _check(
    array: Array, name: str, dtype: Any, *, size: int | None = None, packed: bool = True, written: bool = False
) -> None:
    """See that an array is what C takes it for.

    Raises:
        ValueError: It is not.
    """
    if (
        array.dtype != dtype
        or array.ndim != 1
        or (packed and not array.flags.c_contiguous)
        or (size is not None and array.size != size)
        or (written and not array.flags.writeable)
    ):
        wanted = f"{'any number of' if size is None else size} {np.dtype(dtype)} side by side in one dimension"
        raise ValueError(f"{name}: {wanted} wanted, not {array.dtype} of shape {array.shape}")
