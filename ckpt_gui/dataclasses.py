"""Data classes that cost little to make: the part of the standard module that this program uses.

The standard `dataclasses` writes, compiles and runs the source of six methods for each class, and imports `inspect`: a
third of the time that `check` took to start, a fifth of the window's. Here comparison, text and pickling are the same
few functions for all classes, and nothing is compiled. Type checkers are shown the standard module. These classes
behave like its own, except that fields are not inherited. Where a great many values are made at once, `core.bulk` does
it faster than any `__init__`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any, NoReturn

__all__ = ["asdict", "dataclass", "field", "fields", "replace"]
_UNSET: Any = object()
_UNSLOTTED = ("__dict__", "__weakref__")  # what a class of attributes has that one of slots has not


class _Field:
    """A field of a class.

    Attributes:
        name: Its name.
        default: Its value where none is given.
        factory: Makes its value where none is given.
        init: `__init__` takes it.
        repr: It is shown.
        compare: It counts for equality.
        hash: It counts for the hash.
    """

    __slots__ = ("compare", "default", "factory", "hash", "init", "name", "repr")

    def __init__(
        self, default: Any, factory: Any = _UNSET, init: bool = True, repr: bool = True, compare: bool = True,
        hash: bool | None = None,
    ) -> None:  # fmt: skip
        self.name = ""
        self.default = default
        self.factory = factory
        self.init = init
        self.repr = repr
        self.compare = compare
        self.hash = compare if hash is None else hash

    @property
    def has_default(self) -> bool:
        """True if there is a value where none is given."""
        return self.default is not _UNSET or self.factory is not _UNSET

    def make(self) -> Any:
        """Return the value where none is given."""
        if self.factory is not _UNSET:
            return self.factory()
        if self.default is _UNSET:
            raise TypeError(f"a value for `{self.name}` is missing")
        return self.default

    def words(self) -> dict[str, Any]:
        """Return what `dataclasses.field` of the standard module is told for such a field."""
        said = {"default": self.default, "default_factory": self.factory}
        flags = {"init": self.init, "repr": self.repr, "compare": self.compare, "hash": self.hash}
        return {name: value for name, value in said.items() if value is not _UNSET} | flags


def _field(*, default: Any = _UNSET, default_factory: Any = _UNSET, **flags: Any) -> Any:
    """Say more of a field than its default; as in the standard module."""
    return _Field(default, default_factory, **flags)


def _dataclass(*, frozen: bool = False, slots: bool = False, eq: bool = True) -> Callable[[type], type]:
    """Make a class of its annotated names.

    Args:
        frozen: Fields are set once.
        slots: Values have no other attributes.
        eq: Two values are equal if their fields are; else only where they are the same one.
    """
    return lambda kind: _made(kind, frozen=frozen, slots=slots, eq=eq)


def _made(kind: type, *, frozen: bool, slots: bool, eq: bool) -> type:
    members = {name: value for name, value in vars(kind).items() if name not in _UNSLOTTED}
    own = _take_fields(members, keep_defaults=not slots)
    members |= {"_fields": own, "__dataclass_fields__": _Standard()}
    members["__match_args__"] = tuple([each.name for each in own.values() if each.init])
    members.setdefault("__repr__", _repr)
    if eq:
        members["__eq__"] = _equal(_getter(each.name for each in own.values() if each.compare))
        members["__hash__"] = _hashed(_getter(each.name for each in own.values() if each.hash)) if frozen else None
    if frozen:
        members |= {"__setattr__": _refuse_set, "__delattr__": _refuse_delete}
    if slots:
        members |= {"__slots__": tuple(own), "__getstate__": _state, "__setstate__": _restore}
    made = type(kind)(kind.__name__, kind.__bases__, members)
    made.__qualname__ = kind.__qualname__
    made.__init__ = _initialiser(made, own)  # type: ignore[misc]
    return made


def _take_fields(members: dict[str, Any], *, keep_defaults: bool) -> Mapping[str, _Field]:
    """Return the fields that the annotations of a class name, and take their defaults out of its members."""
    found = {}
    for name, annotation in members.get("__annotations__", {}).items():
        if annotation.startswith("ClassVar"):
            continue
        given = members.pop(name, _UNSET)
        own = given if isinstance(given, _Field) else _Field(given)
        if type(own.default).__hash__ is None:
            raise ValueError(f"all values would share the default of `{name}`: use a factory")
        if keep_defaults and own.default is not _UNSET:
            members[name] = own.default
        own.name = name
        found[name] = own
    return found


def _initialiser(kind: type, own: Mapping[str, _Field]) -> Callable[..., None]:
    """Return `__init__`: takes a value for each field by place, by name, or its default, and sets each by a C call."""
    given = [each for each in own.values() if each.init]
    put = [_setter(kind, each.name) for each in given]
    others = [(_setter(kind, each.name), each) for each in own.values() if not each.init and each.has_default]
    usual = [each.default for each in given]
    places = {each.name: place for place, each in enumerate(given)}
    unset = [place for place, value in enumerate(usual) if value is _UNSET]  # needed, or made anew each time
    after = hasattr(kind, "__post_init__")
    count = len(given)

    def __init__(self: Any, *args: Any, **named: Any) -> None:
        values: Sequence[Any] = args
        if named or len(args) != count:
            first = len(args)
            if first > count:
                raise TypeError(f"{kind.__qualname__} has {count} fields, but {first} values were given")
            values = made = [*args, *usual[first:]]
            for name, value in named.items():
                place = places.get(name, -1)
                if place < first:
                    raise TypeError(f"{kind.__qualname__} has no field `{name}`, or was given it twice")
                made[place] = value
            for place in unset:
                if made[place] is _UNSET:
                    made[place] = given[place].make()
        for set_one, value in zip(put, values):  # noqa: B905 - they are as many; saying so takes a third longer
            set_one(self, value)
        for set_one, each in others:
            set_one(self, each.make())
        if after:
            self.__post_init__()

    return __init__


def _setter(kind: type, name: str) -> Callable[[Any, Any], None]:
    """Return what sets a field, even of a frozen value."""
    slot = vars(kind).get(name)
    if isinstance(slot, MemberDescriptorType):
        return slot.__set__
    return lambda value, to: object.__setattr__(value, name, to)


# ----------------------------------------------------------------------------------------- what all the classes share


def _getter(names: Iterable[str]) -> Callable[[Any], tuple[Any, ...]]:
    listed = tuple(names)
    if len(listed) > 1:
        return attrgetter(*listed)
    return lambda value: tuple([getattr(value, name) for name in listed])


def _equal(compared: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any, object], Any]:
    def __eq__(self: Any, other: object) -> Any:
        return compared(self) == compared(other) if other.__class__ is self.__class__ else NotImplemented

    return __eq__


def _hashed(counted: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any], int]:
    def __hash__(self: Any) -> int:
        return hash(counted(self))

    return __hash__


def _repr(self: Any) -> str:
    shown = ", ".join(f"{name}={getattr(self, name)!r}" for name, own in self._fields.items() if own.repr)
    return f"{type(self).__qualname__}({shown})"


def _refuse_set(self: object, name: str, value: object) -> NoReturn:
    raise AttributeError(f"cannot assign to field {name!r}")


def _refuse_delete(self: object, name: str) -> NoReturn:
    raise AttributeError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, name) for name in self._fields]


def _restore(self: Any, state: list[Any]) -> None:
    for name, value in zip(self._fields, state, strict=True):
        object.__setattr__(self, name, value)


class _Standard:
    """The fields as the standard module has them, made for whoever asks: its functions take these classes too."""

    __slots__ = ("_made",)

    def __init__(self) -> None:
        self._made: Any = None

    def __get__(self, value: object, kind: Any) -> Any:
        if self._made is None:
            import dataclasses

            asked = [(name, object, dataclasses.field(**each.words())) for name, each in kind._fields.items()]
            made = dataclasses.make_dataclass(kind.__name__, asked, kw_only=True)
            self._made = vars(made)["__dataclass_fields__"]
        return self._made


# ---------------------------------------------------------------------------------------------- functions on the values


def _fields_of(value: Any) -> tuple[_Field, ...]:
    """Return the fields of a value, or of a class."""
    return tuple(value._fields.values())


def _replace(value: Any, /, **changes: Any) -> Any:
    """Return a copy with some fields changed."""
    kept = {name: getattr(value, name) for name, own in value._fields.items() if own.init and name not in changes}
    return type(value)(**kept, **changes)


def _asdict(value: Any) -> Any:
    """Return a value as a dict, and so everything in it."""
    if hasattr(type(value), "_fields") and not isinstance(value, tuple):
        return {name: _asdict(getattr(value, name)) for name in value._fields}
    if type(value) in (list, tuple):
        return type(value)(map(_asdict, value))
    return {key: _asdict(each) for key, each in value.items()} if type(value) is dict else value


if TYPE_CHECKING:
    from dataclasses import asdict, dataclass, field, fields, replace
else:
    asdict, dataclass, field, fields, replace = _asdict, _dataclass, _field, _fields_of, _replace
