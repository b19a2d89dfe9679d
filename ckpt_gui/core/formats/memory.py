"""A state dict in memory as a source, so that a training script goes through the same path as a file.

Nothing is copied and nothing is asked of a tensor but what it says of itself: subclasses, tensors on other devices and
on the meta device are listed; only reading needs values. Torch is never imported here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ckpt_gui.core.beside import Extra
from ckpt_gui.core.dtypes import BY_NAME, BY_TORCH
from ckpt_gui.core.errors import CheckpointError, Finding
from ckpt_gui.core.formats.torch_tree import describe
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.source import Source
from ckpt_gui.core.strides import normal_strides
from ckpt_gui.core.tensors import TensorRef, check_window

MAX_DEPTH = 100
# Classes whose bytes are what they seem; others (quantised, distributed) mean something else by their storage.
PLAIN = frozenset({"torch.Tensor", "torch.nn.parameter.Parameter", "torch.nn.parameter.Buffer", "numpy.ndarray"})


def from_state_dict(mapping: Mapping[Any, Any], path: str = "<state dict>") -> Source:
    """Return a source over tensors in memory.

    Args:
        mapping: A state dict: torch tensors or numpy arrays, and nested mappings of them.
        path: What to call it.

    Raises:
        CheckpointError: It is nested too deeply.
    """
    walk = _Walk()
    tree = walk.convert(mapping, ())
    return Source(
        path=path,
        container="memory",
        refs=tuple(walk.refs),
        tree=tree,
        extras=tuple(walk.extras),
        problems=walk.problems(),
        readers={"": MemoryReader(walk.tensors)},
    )


class MemoryReader:
    """Reads the bytes of tensors in memory.

    Attributes:
        tensors: The tensors by section and key.
    """

    def __init__(self, tensors: Mapping[tuple[str, ...], Any]) -> None:
        """Keep the tensors."""
        self.tensors = tensors

    def read_into(self, ref: TensorRef, start: int, out: memoryview) -> None:
        """Fill `out` with bytes of a tensor; see `tensors.Reader`.

        Raises:
            CheckpointError: The tensor has no values, or its class keeps them in a way of its own.
        """
        check_window(ref, start, len(out))
        tensor = self.tensors[ref.path]
        kind = _class_name(tensor)
        shown = safe_text(ref.full_key)
        if kind not in PLAIN:
            raise CheckpointError(
                "foreign-object",
                f"`{shown}` is a {safe_text(kind, 80)}, whose values cannot be read as plain bytes.",
                fix="Turn it into a plain tensor first (`full_tensor()`, `dequantize()`).",
                key=ref.full_key,
            )
        if getattr(getattr(tensor, "device", None), "type", "") == "meta":
            raise CheckpointError(
                "missing-tensor", f"`{shown}` is on the meta device: it has no values to read.", key=ref.full_key
            )
        if not _is_torch(tensor):
            _copy_array(tensor, start, out)
        elif len(out):
            tensor = tensor.detach().resolve_conj().resolve_neg()
            _copy_rows(tensor, BY_NAME[ref.dtype].itemsize or 1, start, out)

    def close(self) -> None:
        """Do nothing: the tensors belong to the caller."""


class _Walk:
    """One walk over a state dict."""

    def __init__(self) -> None:
        self.refs: list[TensorRef] = []
        self.tensors: dict[tuple[str, ...], Any] = {}
        self.extras: list[Extra] = []
        self.unknown: dict[str, str] = {}

    def convert(self, value: Any, path: tuple[str, ...]) -> Any:
        if len(path) > MAX_DEPTH:
            raise CheckpointError("limit-exceeded", f"The state dict is nested more than {MAX_DEPTH} levels deep.")
        if isinstance(value, Mapping):
            return {key: self.convert(item, (*path, str(key))) for key, item in value.items()}
        if type(value) in (list, tuple):
            return type(value)(self.convert(item, (*path, str(i))) for i, item in enumerate(value))
        if _is_torch(value) or hasattr(value, "__array_interface__"):
            return self._tensor(value, path)
        self.extras.append(Extra(path, *describe(value)))
        return value

    def _tensor(self, tensor: Any, path: tuple[str, ...]) -> Any:
        dtype = BY_TORCH.get(str(tensor.dtype).removeprefix("torch."))
        if dtype is None:
            self.unknown[".".join(path)] = str(tensor.dtype)
            self.extras.append(Extra(path, _class_name(tensor), safe_text(f"a tensor of {tensor.dtype}")))
            return tensor
        shape = tuple(int(size) for size in tensor.shape)
        if dtype.bits < 8 and shape:
            shape = (*shape[:-1], shape[-1] * 8 // dtype.bits)
        storage, offset, strides = _place(tensor, shape, dtype.itemsize)
        ref = TensorRef(path[-1], dtype.name, shape, path[:-1], "", storage, offset, strides)
        self.refs.append(ref)
        self.tensors[ref.path] = tensor
        return ref

    def problems(self) -> tuple[Finding, ...]:
        if not self.unknown:
            return ()
        key, kind = next(iter(self.unknown.items()))
        what = f"`{safe_text(key)}` ({safe_text(kind)})"
        message = f"{len(self.unknown)} tensors are of types unknown here, such as {what}."
        return (Finding("foreign-object", "warning", message, keys=tuple(self.unknown)),)


def _is_torch(value: Any) -> bool:
    return any(cls.__name__ == "Tensor" and cls.__module__ in ("torch", "torch._tensor") for cls in type(value).__mro__)


def _class_name(value: Any) -> str:
    cls = type(value)
    return "torch.Tensor" if cls.__module__ == "torch._tensor" else f"{cls.__module__}.{cls.__qualname__}"


def _place(tensor: Any, shape: tuple[int, ...], itemsize: int) -> tuple[str, int, tuple[int, ...] | None]:
    """Return what tells its bytes from all others, the byte offset in them, and strides."""
    if not _is_torch(tensor):
        return f"numpy:{tensor.__array_interface__['data'][0]:x}", 0, _array_strides(tensor, shape)
    try:
        held = tensor.untyped_storage()
        pointer = held.data_ptr()
        identity = f"{tensor.device}:{pointer:x}" if pointer else f"storage:{held._cdata:x}"
        offset, strides = int(tensor.storage_offset()), tuple(int(s) for s in tensor.stride())
    except (RuntimeError, NotImplementedError, TypeError, AttributeError):  # sparse, wrapper subclasses
        return f"object:{id(tensor):x}", 0, None
    if not itemsize or tensor.is_conj() or tensor.is_neg():  # the same bytes, but not the same values
        return f"object:{id(tensor):x}", 0, None
    return identity, offset * itemsize, normal_strides(shape, strides)


def _array_strides(array: Any, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    itemsize = array.itemsize
    if any(s < 0 or s % itemsize for s in array.strides):
        return None
    return normal_strides(shape, [s // itemsize for s in array.strides])


def _copy_array(array: Any, start: int, out: memoryview) -> None:
    import numpy as np

    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    out[:] = flat.data[start : start + len(out)]


def _copy_rows(tensor: Any, itemsize: int, start: int, out: memoryview) -> None:
    """Copy a range of bytes, making at most one row of a strided tensor contiguous beyond what is asked."""
    import torch

    if tensor.is_contiguous():
        # Not reshape: a single element may keep a stride of its own, and then has no bytes for torch.
        flat = tensor.as_strided((tensor.numel(),), (1,)).view(torch.uint8)[start : start + len(out)]
        out[:] = flat.cpu().numpy().data
        return
    row = math.prod(tensor.shape[1:]) * itemsize
    done = 0
    while done < len(out):
        index, within = divmod(start + done, row)
        rows = (len(out) - done) // row if not within else 0
        if rows:
            part, count, skip = tensor[index : index + rows].contiguous(), rows * row, 0
        else:
            part, count, skip = tensor[index], min(row - within, len(out) - done), within
        _copy_rows(part, itemsize, skip, out[done : done + count])
        done += count
