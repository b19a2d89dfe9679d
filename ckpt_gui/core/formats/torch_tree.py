"""From the value of a torch pickle to refs, previews and a tree with refs as leaves.

The value comes from a stranger: it may hold itself, hold the same list a billion times over, or be nested without end.
The walk counts what it visits and stops with a sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, repeat
from typing import Any

from ckpt_gui.core.beside import Extra, ForeignObject
from ckpt_gui.core.bulk import build
from ckpt_gui.core.errors import CheckpointError, Finding
from ckpt_gui.core.formats.pickle_distributed import LocalPart
from ckpt_gui.core.formats.pickle_global import Global
from ckpt_gui.core.formats.torch_geometry import Geometry
from ckpt_gui.core.formats.torch_values import StateDict, StorageInfo, TensorStub, TorchDType, TorchSize
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.tensors import TensorRef
from ckpt_gui.dataclasses import dataclass, field

MAX_DEPTH = 100
MAX_REVISITS = 1 << 18
MAX_EXTRAS = 4096
_Named = tuple[Any, str, Any]  # key, name and item
_SCALARS = (str, bytes, int, float, complex, bool, type(None))


@dataclass(slots=True)
class TreeWalk:
    """One walk over the value of a pickle.

    Attributes:
        file: What the refs shall call the file.
        sizes: Bytes of each storage's record by the storage's name.
        refs: The tensors found.
        extras: Previews of what is not a tensor.
        bad: Tensors that cannot be read, with the reason, by path.
        meta: Paths of tensors that were saved without values.
        shards: What parts of distributed tensors say of the wholes, by path.
        named: Where the first object of each foreign name sits, by that name.
        more: Number of values that were not previewed.
    """

    file: str
    sizes: Mapping[str, int]
    refs: list[TensorRef] = field(default_factory=list)
    extras: list[Extra] = field(default_factory=list)
    bad: list[tuple[tuple[str, ...], str]] = field(default_factory=list)
    meta: list[tuple[str, ...]] = field(default_factory=list)
    shards: dict[tuple[str, ...], LocalPart] = field(default_factory=dict)
    named: dict[str, tuple[str, ...]] = field(default_factory=dict)
    more: int = 0
    _path: set[int] = field(default_factory=set)
    _seen: set[int] = field(default_factory=set)
    _revisits: int = 0
    _geometry: Geometry = field(init=False)

    def __post_init__(self) -> None:
        """Prepare the checks of tensors."""
        self._geometry = Geometry(self.sizes)

    def convert(self, value: Any, path: tuple[str, ...]) -> Any:
        """Return a value with refs in place of tensors, and collect what it holds.

        Raises:
            CheckpointError: `limit-exceeded`.
        """
        if type(value) is TensorStub:
            return self._tensor(value, path)
        if isinstance(value, (dict, list, tuple, ForeignObject)) and not isinstance(value, (TorchSize, StorageInfo)):
            return self._container(value, path)
        self._preview(value, path)
        return value

    def _container(self, value: Any, path: tuple[str, ...]) -> Any:
        if id(value) in self._path:
            self._note(path, "cycle", "holds itself")
            return ForeignObject("a value that holds itself", False)
        self._guard(value, path)
        self._path.add(id(value))
        try:
            if isinstance(value, dict):
                return self._dict(value, path)
            if isinstance(value, ForeignObject):
                return self._foreign(value, path)
            return self._sequence(value, path)
        finally:
            self._path.discard(id(value))

    def _guard(self, value: Any, path: tuple[str, ...]) -> None:
        if len(path) > MAX_DEPTH:
            raise CheckpointError("limit-exceeded", f"{self._pickle()} nests values more than {MAX_DEPTH} levels deep.")
        if id(value) not in self._seen:
            self._seen.add(id(value))
            return
        self._revisits += 1 + (0 if isinstance(value, ForeignObject) else len(value))
        if self._revisits > MAX_REVISITS:
            raise CheckpointError(
                "limit-exceeded",
                f"{self._pickle()} holds the same values over and over (more than {MAX_REVISITS:,} times).",
            )

    def _pickle(self) -> str:
        return f"The pickle in {safe_text(self.file)}" if self.file else "The pickle"

    def _dict(self, value: dict[Any, Any], path: tuple[str, ...]) -> dict[Any, Any]:
        made: dict[Any, Any] = StateDict() if type(value) is StateDict else {}
        for are_tensors, items in groupby(_named(value), _is_tensor):
            if are_tensors:
                made.update(self._tensors(list(items), path))
            else:
                made.update({key: self.convert(item, (*path, name)) for key, name, item in items})
        attributes = getattr(value, "attributes", None)
        if isinstance(made, StateDict) and attributes is not None:
            kept = {k: v for k, v in attributes.items() if k != "_metadata"}
            made.attributes = {"_metadata": attributes["_metadata"]} if "_metadata" in attributes else {}
            if kept:
                made.attributes |= self.convert(kept, (*path, "__dict__"))
        if not value:
            self._note(path, "dict", "empty")
        return made

    def _sequence(self, value: list[Any] | tuple[Any, ...], path: tuple[str, ...]) -> Any:
        if all(isinstance(item, _SCALARS) for item in value):
            self._note(path, type(value).__name__, _preview_sequence(value))
            return value
        items = [self.convert(item, (*path, str(i))) for i, item in enumerate(value)]
        return items if isinstance(value, list) else tuple(items)

    def _foreign(self, value: ForeignObject, path: tuple[str, ...]) -> ForeignObject:
        self.named.setdefault(value.name, path)
        self._note(path, safe_text(value.name), f"an object of {safe_text(value.name)}, not made")
        dicts = [i for i, child in enumerate(value.children) if isinstance(child, dict)]
        children = []
        for i, child in enumerate(value.children):
            # The state of an object is what its user sees as its members; arguments have only a number.
            flat = dicts and i == dicts[-1]
            children.append(self.convert(child, path if flat else (*path, f"({i})")))
        return ForeignObject(value.name, value.called, value.unsafe, tuple(children))

    def _tensors(self, items: Sequence[_Named], path: tuple[str, ...]) -> Iterable[tuple[Any, Any]]:
        """Return keys and refs of neighbouring tensors: made together, which takes half the time for very many."""
        keys, names, stubs = zip(*items, strict=True)
        odd = any(stub.storage is None or stub.part is not None for stub in stubs)
        placed = [] if odd else self._geometry.check_all(stubs)
        if odd or any(type(each) is str for each in placed):
            return [(key, self._tensor(stub, (*path, name))) for key, name, stub in items]
        dtypes, shapes, strides, offsets = zip(*placed, strict=True)
        refs = build(
            TensorRef, len(items), key=names, dtype=dtypes, shape=shapes, section=repeat(path), file=repeat(self.file),
            storage=[stub.storage.key for stub in stubs], offset=offsets, strides=strides,
        )  # fmt: skip
        self.refs += refs
        return zip(keys, refs, strict=True)

    def _tensor(self, stub: TensorStub, path: tuple[str, ...]) -> Any:
        if stub.storage is None:
            self.meta.append(path)
            return ForeignObject("a tensor of the meta device", False)
        made = self._geometry.check(stub)
        if isinstance(made, str):
            self.bad.append((path, made))
            self._note(path, "unreadable tensor", made)
            return ForeignObject("an unreadable tensor", False)
        dtype, shape, strides, offset = made
        key = path[-1] if path else "tensor"
        ref = TensorRef(key, dtype, shape, path[:-1], self.file, stub.storage.key, offset, strides)
        self.refs.append(ref)
        if stub.part is not None:
            self.shards[path] = stub.part
        return ref

    def _preview(self, value: Any, path: tuple[str, ...]) -> None:
        if isinstance(value, Global):
            self.named.setdefault(value.name, path)
        kind, text = describe(value)
        self._note(path, kind, text)

    def _note(self, path: tuple[str, ...], kind: str, text: str) -> None:
        if len(self.extras) < MAX_EXTRAS:
            self.extras.append(Extra(path, kind, text))
        else:
            self.more += 1


def _is_tensor(item: _Named) -> bool:
    return type(item[2]) is TensorStub


def _named(value: dict[Any, Any]) -> Iterator[_Named]:
    """Yield key, name and item; names are unique although 1 and "1" may both be keys."""
    for key, item in value.items():
        if type(key) is str:
            yield key, key, item
            continue
        name = key.decode("latin-1") if type(key) is bytes else str(key)
        yield key, name if name not in value else f"{name} ({type(key).__name__})", item


def describe(value: Any) -> tuple[str, str]:
    """Return type name and short safe preview of an inert value."""
    if isinstance(value, Global):
        return "name", safe_text(value.name)
    if isinstance(value, TorchDType):
        return "constant", str(value)
    if isinstance(value, str):
        return "str", safe_text(value, 120)
    if isinstance(value, (bytes, bytearray)):
        return "bytes", f"{len(value):,} bytes"
    if isinstance(value, int) and abs(value) >= 1 << 200:
        return "int", f"a number of {value.bit_length():,} bits"
    if isinstance(value, StorageInfo):
        return "storage", f"{value.numel:,} elements"
    if isinstance(value, (set, frozenset)):
        return "set", _preview_sequence(list(value)[:9])
    try:
        return type(value).__name__, safe_text(str(value), 120)
    except ValueError:  # Python prints no number of more than 4,300 digits
        return type(value).__name__, "a number too long to show"


def _preview_sequence(items: Any) -> str:
    shown = ", ".join(describe(item)[1] for item in items[:8])
    return f"{shown}, … ({len(items):,} values)" if len(items) > 8 else shown or "empty"


def find_problems(walk: TreeWalk, name: str) -> list[Finding]:
    """Return findings about tensors that cannot be read, worst first."""
    found = []
    if walk.bad:
        first, reason = walk.bad[0]
        more = f" ({len(walk.bad) - 1:,} more like it)" if len(walk.bad) > 1 else ""
        message = f"Tensor `{safe_text('.'.join(first))}` in {name} cannot be read: {reason}{more}."
        keys = tuple(".".join(path) for path, _ in walk.bad)
        found.append(Finding("damaged", "error", message, keys=keys, blocking=True))
    if walk.meta:
        count = len(walk.meta)
        message = f"{count:,} tensors in {name} were saved from the meta device: the file has no values for them."
        keys = tuple(".".join(path) for path in walk.meta)
        found.append(Finding("missing-tensor", "error", message, keys=keys, blocking=True))
    return found
