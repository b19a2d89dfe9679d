"""Writing the pickle of a torch file, opcode by opcode (protocol 2, as `torch.save` writes).

Python's pickler would need torch objects to describe tensors. Here a tensor is a `StoredTensor`, and every other value
is one of a short list of plain types, so that `torch.load(weights_only=True)` reads the result.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ckpt_gui.core.dtypes import BY_NAME, DType
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.formats.layout import StoredTensor
from ckpt_gui.core.formats.torch_values import StateDict, TorchDevice, TorchDType, TorchSize
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.strides import contiguous_strides

MAX_DEPTH = 200
_BATCH = 1000


def dump_pickle(value: Any) -> bytes:
    """Return the pickle of a nested value with `StoredTensor` leaves.

    Raises:
        CheckpointError: It holds a value that cannot be written inertly, or is nested too deeply.
    """
    writer = _Writer()
    writer.value(value, 0)
    return b"\x80\x02" + b"".join(writer.out) + b"."


def stored_shape(tensor: StoredTensor) -> tuple[int, ...]:
    """Return the shape as torch counts it: two 4-bit numbers are one element."""
    shape = tensor.spec.shape
    bits = BY_NAME[tensor.spec.dtype].bits
    return (*shape[:-1], shape[-1] * bits // 8) if bits < 8 and shape else shape


class _Writer:
    """The opcodes so far, and what can be referred to again."""

    def __init__(self) -> None:
        self.out: list[bytes] = []
        self._memo: dict[tuple[str, str], bytes] = {}
        self._record_dtypes: dict[str, str] = {}

    def value(self, value: Any, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise CheckpointError("limit-exceeded", f"The values are nested more than {MAX_DEPTH} levels deep.")
        kind = type(value)
        if kind is StoredTensor:
            self._tensor(value)
        elif kind in _SCALARS:
            _SCALARS[kind](self, value)
        elif kind in _CONTAINERS:
            _CONTAINERS[kind](self, value, depth + 1)
        elif isinstance(value, Mapping):  # OrderedDict of the standard library, and the like
            self._ordered(value, depth + 1)
        else:
            raise CheckpointError(
                "foreign-object", f"A value of type {safe_text(kind.__name__)} cannot be written to a torch file."
            )

    def text(self, text: str) -> None:
        if not self._recall("text", text):
            data = text.encode("utf-8", "surrogatepass")
            self.out.append(b"X" + len(data).to_bytes(4, "little") + data)
            self._remember("text", text)

    def name(self, module: str, name: str) -> None:
        if not self._recall(module, name):
            self.out.append(f"c{module}\n{name}\n".encode())
            self._remember(module, name)

    def _recall(self, kind: str, text: str) -> bool:
        code = self._memo.get((kind, text))
        if code is not None:
            self.out.append(code)
        return code is not None

    def _remember(self, kind: str, text: str) -> None:
        index = len(self._memo)
        self.out.append(b"q" + bytes([index]) if index < 256 else b"r" + index.to_bytes(4, "little"))
        self._memo[kind, text] = b"h" + bytes([index]) if index < 256 else b"j" + index.to_bytes(4, "little")

    def integer(self, number: int) -> None:
        if 0 <= number < 256:
            self.out.append(b"K" + bytes([number]))
        elif 0 <= number < 65536:
            self.out.append(b"M" + number.to_bytes(2, "little"))
        elif -(1 << 31) <= number < 1 << 31:
            self.out.append(b"J" + number.to_bytes(4, "little", signed=True))
        else:
            data = number.to_bytes(number.bit_length() // 8 + 1, "little", signed=True)
            if len(data) > 255:
                raise CheckpointError("limit-exceeded", "A whole number is too long to be written.")
            self.out.append(b"\x8a" + bytes([len(data)]) + data)

    def _tensor(self, tensor: StoredTensor) -> None:
        dtype = BY_NAME[tensor.spec.dtype]
        if dtype.torch is None:
            raise CheckpointError("foreign-object", f"Torch has no type {dtype.name}.", key=tensor.spec.key)
        # A storage has one type for torch; a second view of another type says its own.
        first = self._record_dtypes.setdefault(tensor.record, dtype.name)
        typed = dtype.storage is not None and first == dtype.name
        shape = stored_shape(tensor)
        self.name("torch._utils", "_rebuild_tensor_v2" if typed else "_rebuild_tensor_v3")
        self.out.append(b"((")
        self.text("storage")
        self._storage(tensor, dtype, typed)
        self.out.append(b"tQK\x00")
        self._sizes(shape)
        self._sizes(contiguous_strides(shape))
        self.out.append(b"\x88" if tensor.requires_grad and dtype.kind in ("float", "complex") else b"\x89")
        self.name("collections", "OrderedDict")
        self.out.append(b")R")
        if not typed:
            self.name("torch", dtype.torch)
        self.out.append(b"tR")

    def _storage(self, tensor: StoredTensor, dtype: DType, typed: bool) -> None:
        if typed and dtype.storage is not None:
            self.name("torch", dtype.storage)
        else:
            self.name("torch.storage", "UntypedStorage")
        self.text(tensor.record)
        self.text("cpu")
        self.integer(tensor.spec.numel if typed else tensor.spec.nbytes)

    def _sizes(self, sizes: Iterable[int]) -> None:
        self.out.append(b"(")
        for size in sizes:
            self.integer(size)
        self.out.append(b"t")

    def items(self, value: Mapping[Any, Any], depth: int) -> None:
        pairs = list(value.items())
        for start in range(0, len(pairs), _BATCH):
            self.out.append(b"(")
            for key, item in pairs[start : start + _BATCH]:
                self.value(key, depth)
                self.value(item, depth)
            self.out.append(b"u")

    def list(self, value: Iterable[Any], depth: int) -> None:
        self.out.append(b"](")
        for item in value:
            self.value(item, depth)
        self.out.append(b"e")

    def _dict(self, value: Mapping[Any, Any], depth: int) -> None:
        self.out.append(b"}")
        self.items(value, depth)

    def _ordered(self, value: Mapping[Any, Any], depth: int) -> None:
        self.name("collections", "OrderedDict")
        self.out.append(b")R")
        self.items(value, depth)
        metadata = getattr(value, "_metadata", None)
        if metadata is not None:
            self._dict({"_metadata": metadata}, depth)
            self.out.append(b"b")

    def _tuple(self, value: Iterable[Any], depth: int) -> None:
        self.out.append(b"(")
        for item in value:
            self.value(item, depth)
        self.out.append(b"t")

    def _call(self, module: str, name: str, args: tuple[Any, ...], depth: int) -> None:
        self.name(module, name)
        self._tuple(args, depth)
        self.out.append(b"R")

    def _set(self, value: Iterable[Any], depth: int) -> None:
        # In a fixed order, so that the same values give the same file.
        self._call("__builtin__", "set", (sorted(value, key=lambda v: (type(v).__name__, str(v))),), depth)

    def _size(self, value: TorchSize, depth: int) -> None:
        self._call("torch", "Size", (tuple(value),), depth)

    def _bytes(self, value: bytes) -> None:
        # Python writes empty bytes as a call of `bytes`, which weights_only=True refuses.
        self._call("_codecs", "encode", (bytes(value).decode("latin-1"), "latin1"), 0)

    def _complex(self, value: complex) -> None:
        self._call("__builtin__", "complex", (value.real, value.imag), 0)

    def _device(self, value: TorchDevice) -> None:
        self._call("torch", "device", value.args, 0)

    def _float(self, value: float) -> None:
        self.out.append(b"G" + struct.pack(">d", value))


_SCALARS: dict[type, Callable[[_Writer, Any], None]] = {
    str: _Writer.text,
    int: _Writer.integer,
    float: _Writer._float,
    bool: lambda w, v: w.out.append(b"\x88" if v else b"\x89"),
    type(None): lambda w, _: w.out.append(b"N"),
    bytes: _Writer._bytes,
    bytearray: _Writer._bytes,
    complex: _Writer._complex,
    TorchDType: lambda w, v: w.name("torch", v.name),
    TorchDevice: _Writer._device,
}
_CONTAINERS: dict[type, Callable[[_Writer, Any, int], None]] = {
    dict: _Writer._dict,
    StateDict: _Writer._ordered,
    list: _Writer.list,
    tuple: _Writer._tuple,
    set: _Writer._set,
    frozenset: _Writer._set,
    TorchSize: _Writer._size,
}
