"""The names that a pickle may mention, and what each of them does here.

A name on the allow-list has an inert builder: a function of ours that makes a description. No other name is ever
imported; it becomes a `ForeignObject`, marked unsafe where a permissive loader would run code not known to be harmless.
"""

from __future__ import annotations

from collections.abc import Callable, Sized
from typing import Any, TypeVar

from ckpt_gui.core.dtypes import BY_TORCH
from ckpt_gui.core.formats.pickle_distributed import DISTRIBUTED, distributed
from ckpt_gui.core.formats.pickle_global import Builder, Global
from ckpt_gui.core.formats.pickle_inert import is_unsafe
from ckpt_gui.core.formats.torch_values import (
    StateDict,
    TensorStub,
    TorchDevice,
    TorchDType,
    TorchSize,
    safe_key,
)

Items = TypeVar("Items", bound=Sized)

PYTHON2 = {"__builtin__": "builtins", "copy_reg": "copyreg", "exceptions": "builtins", "UserDict": "collections"}
MAX_CALL_ITEMS = 1 << 20
# Constants of torch that are neither types nor functions: layouts, memory formats, reduced-precision placeholders.
_CONSTANTS = frozenset(
    (
        *("strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc", "jagged", "complex32"),
        *("contiguous_format", "channels_last", "channels_last_3d", "preserve_format", "bits8", "bits16"),
        *("quint8", "qint8", "qint32", "quint4x2", "quint2x4", "per_tensor_affine", "per_channel_affine"),
        *("per_tensor_symmetric", "per_channel_symmetric"),
    )
)
_PLAIN_TENSORS = frozenset(
    {"torch.Tensor", "torch._tensor.Tensor", "torch.nn.parameter.Parameter", "torch.nn.parameter.Buffer"}
)


def find(module: str, qualname: str) -> Any:
    """Return what a name stands for: a constant's description, or a `Global`."""
    name = f"{PYTHON2.get(module, module)}.{qualname}"
    if module == "torch" and (qualname in BY_TORCH or qualname in _CONSTANTS):
        return TorchDType(qualname)
    build = BUILDERS.get(name)
    if build is not None:
        return Global(name, build)
    return Global(name, unsafe=is_unsafe(PYTHON2.get(module, module), qualname))


_new = tuple.__new__  # a third of the time of the class's own, for what every tensor needs


def _tensor(args: tuple[Any, ...]) -> TensorStub:
    return TensorStub(args[0], args[1], args[2], args[3])


def _tensor_v2(args: tuple[Any, ...]) -> TensorStub:
    return _new(TensorStub, (args[0], args[1], args[2], args[3], None, args[4], None))


def _tensor_v3(args: tuple[Any, ...]) -> TensorStub:
    dtype = args[6]
    if type(dtype) is not TorchDType:
        raise ValueError("a tensor's type is not a torch type")
    return TensorStub(args[0], args[1], args[2], args[3], dtype.name, args[4])


def _tensor_meta(args: tuple[Any, ...]) -> TensorStub:
    dtype, size, stride, requires_grad = args
    if type(dtype) is not TorchDType:
        raise ValueError("a tensor's type is not a torch type")
    return TensorStub(None, 0, size, stride, dtype.name, requires_grad)


def _parameter(args: tuple[Any, ...]) -> Any:
    if type(args[0]) is TensorStub:
        return args[0]._replace(requires_grad=args[1])
    return args[0]


def _from_type(args: tuple[Any, ...]) -> Any:
    """A subclass of Tensor: torch's own plain ones are the tensor itself, any other stays foreign."""
    rebuild, kind, inner = args[:3]
    if isinstance(kind, Global) and kind.name in DISTRIBUTED:
        return distributed(kind.name, inner, args[3] if len(args) > 3 else None)
    plain = isinstance(kind, Global) and kind.name in _PLAIN_TENSORS
    if plain and isinstance(rebuild, Global) and rebuild.build is not None and type(inner) is tuple:
        return rebuild.build(inner)
    return NotImplemented


def _ordered(args: tuple[Any, ...]) -> StateDict:
    return StateDict(_pairs(args[0])) if args else StateDict()


def _plain_dict(args: tuple[Any, ...]) -> dict[Any, Any]:
    return dict(_pairs(args[0])) if args else {}


def _default_dict(args: tuple[Any, ...]) -> dict[Any, Any]:
    return dict(_pairs(args[1])) if len(args) > 1 else {}


def _pairs(items: Any) -> dict[Any, Any]:
    if isinstance(items, dict):
        return _bounded(items)
    if type(items) not in (list, tuple):
        raise ValueError("a dict is made from something that is no list of pairs")
    return {safe_key(key): value for key, value in _bounded(items)}


def _bounded(items: Items) -> Items:
    """Return a container if copying it is cheap: a pickle may ask for the same copy a million times."""
    if len(items) > MAX_CALL_ITEMS:
        raise ValueError("a container is too large to be copied")
    return items


def _sequence(make: Callable[[Any], Any]) -> Builder:
    def build(args: tuple[Any, ...]) -> Any:
        if args and not isinstance(args[0], (list, tuple, dict, set, frozenset)):
            raise ValueError("a list is made from something that is not one")
        return make(_bounded(args[0])) if args else make(())

    return build


def _as_set(items: Any) -> frozenset[Any]:
    return frozenset(map(safe_key, items))


def _bytearray(args: tuple[Any, ...]) -> bytes:
    if args and type(args[0]) is str:  # protocol 2 writes bytearray(text, "latin-1")
        return _encode(args)
    if args and type(args[0]) is not bytes:
        raise ValueError("a bytearray is made from something that is not bytes")
    return bytes(args[0]) if args else b""


def _encode(args: tuple[Any, ...]) -> bytes:
    if type(args[0]) is not str or (len(args) > 1 and args[1] not in ("latin1", "latin-1", "utf-8", "utf8", "ascii")):
        raise ValueError("bytes are written in an unknown way")
    return args[0].encode(args[1] if len(args) > 1 else "utf-8")


def _complex(args: tuple[Any, ...]) -> complex:
    real, imag = args
    if type(real) not in (int, float) or type(imag) not in (int, float):
        raise ValueError("a complex number is made from something that is not numbers")
    return complex(real, imag)


def _size(args: tuple[Any, ...]) -> TorchSize:
    if args and type(args[0]) not in (tuple, list, TorchSize):
        raise ValueError("a torch.Size is made from something that is not a tuple")
    return TorchSize(_bounded(args[0]) if args else ())


def _device(args: tuple[Any, ...]) -> TorchDevice:
    if not 1 <= len(args) <= 2 or not all(type(a) in (str, int) for a in args):
        raise ValueError("a torch.device is made from something that is not a name")
    return TorchDevice(args)


def _layout(args: tuple[Any, ...]) -> TorchDType:
    if len(args) != 1 or type(args[0]) is not str:
        raise ValueError("a torch layout is not named by text")
    return TorchDType(args[0].removeprefix("torch."))


BUILDERS: dict[str, Builder] = {
    "torch._utils._rebuild_tensor": _tensor,
    "torch._utils._rebuild_tensor_v2": _tensor_v2,
    "torch._utils._rebuild_tensor_v3": _tensor_v3,
    "torch._utils._rebuild_meta_tensor_no_storage": _tensor_meta,
    "torch._utils._rebuild_parameter": _parameter,
    "torch._utils._rebuild_parameter_with_state": _parameter,
    "torch.nn.parameter.Parameter": _parameter,
    "torch._tensor._rebuild_from_type_v2": _from_type,
    "torch.Size": _size,
    "torch.device": _device,
    "torch.serialization._get_layout": _layout,
    "collections.OrderedDict": _ordered,
    "collections.defaultdict": _default_dict,
    "collections.Counter": _plain_dict,
    "builtins.dict": _plain_dict,
    "builtins.list": _sequence(list),
    "builtins.tuple": _sequence(tuple),
    "builtins.set": _sequence(_as_set),
    "builtins.frozenset": _sequence(_as_set),
    "builtins.bytearray": _bytearray,
    "builtins.complex": _complex,
    "_codecs.encode": _encode,
}
