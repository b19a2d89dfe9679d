"""The inert values that a torch pickle turns into: descriptions, never torch objects.

They stand in the tree of a torch file and are what the pickle writer accepts.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ckpt_gui.dataclasses import dataclass


class StorageInfo(NamedTuple):
    """A storage as its persistent id describes it.

    Attributes:
        dtype: Short name of the element type; None where the storage is counted in bytes.
        key: Name of its record.
        location: The device it was saved from.
        numel: Elements, or bytes where `dtype` is None.
        view: First element and number of elements of a part of it that was a storage of its own (before torch 1.6).
    """

    dtype: str | None
    key: str
    location: str
    numel: int
    view: tuple[int, int] | None = None


class TensorStub(NamedTuple):
    """A tensor as the pickle describes it; nothing is checked yet.

    Attributes:
        storage: Where its elements lie; None for a meta tensor, which has none.
        offset: Elements before the first one.
        shape: Sizes.
        strides: Element strides.
        dtype: Torch's name of its type where the storage does not tell.
        requires_grad: As saved.
        part: What it says of the distributed tensor of which it is one rank's part (`LocalPart`); None if it is none.
    """

    storage: StorageInfo | None
    offset: Any
    shape: Any
    strides: Any
    dtype: str | None = None
    requires_grad: Any = False
    part: Any = None


class StateDict(dict[Any, Any]):
    """An `OrderedDict` of the pickle, with the attributes that were set on it.

    Lighter than the real one: a torch file has an empty one for every tensor.
    """

    __slots__ = ("attributes",)

    attributes: dict[Any, Any]

    @property
    def _metadata(self) -> Any:
        """The version metadata that `torch.nn.Module.state_dict` leaves on its result; None without."""
        return getattr(self, "attributes", {}).get("_metadata")


class TorchSize(tuple[Any, ...]):
    """A `torch.Size`."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class TorchDType:
    """A `torch.dtype`, or another named constant such as a layout or memory format.

    Attributes:
        name: Its name in the `torch` module.
    """

    name: str

    def __str__(self) -> str:
        """Return it as torch prints it."""
        return f"torch.{self.name}"


@dataclass(frozen=True, slots=True)
class TorchDevice:
    """A `torch.device`.

    Attributes:
        args: What it was made from, such as `("cuda", 0)`.
    """

    args: tuple[str | int, ...]

    def __str__(self) -> str:
        """Return it as torch writes it."""
        return ":".join(map(str, self.args))


class OpaqueKey:
    """A dict key that is neither text nor number: kept apart from every other, shown by its description.

    Hashing what a file holds can take for ever (tuples of shared tuples), so such keys are told apart by identity.
    """

    __slots__ = ("text", "value")

    def __init__(self, text: str, value: Any = None) -> None:
        """Keep the description, and what it describes."""
        self.text = text
        self.value = value

    def __str__(self) -> str:
        """Return the description."""
        return self.text


def safe_key(value: Any) -> Any:
    """Return a value fit to be a dict key: cheap to hash, whatever a hostile file puts there."""
    kind = type(value)
    if kind is str or kind is bool or kind is float or kind is bytes or value is None:
        return value
    if kind is int and _is_simple(value):
        return value
    if kind in (tuple, TorchSize) and len(value) <= 64 and all(map(_is_simple, value)):
        return value
    if isinstance(value, OpaqueKey):
        return value
    return OpaqueKey(f"<{getattr(value, 'name', kind.__name__)}>", value)


def _is_simple(value: Any) -> bool:
    """True for what hashes and prints in no time; a number of a million digits does neither."""
    if type(value) is int:
        return -(1 << 63) <= value < 1 << 64
    return type(value) in (str, bool, float)
