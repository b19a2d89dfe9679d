"""The numbers of a checkpoint that its headers tell: who weighs what, how full its files are, what it takes to load.

Nothing is read but what opening has read, so this is there at once. A tensor at the same place as another is counted
once, except where it is said.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from ckpt_gui.core.dtypes import num_bytes
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.plan import Entry, Plan
from ckpt_gui.core.roles import EMBEDDING, HEAD, PARTS, Role, role_of
from ckpt_gui.core.tensors import Source, TensorRef

MOST = 10
ALIGNED = 4096  # no alignment above that is told
BLOCK_4BIT = 64  # weights that share a scale in the usual 4-bit formats (bitsandbytes' default)


@dataclass(frozen=True, slots=True)
class Share:
    """Some of the tensors.

    Attributes:
        name: What they have in common.
        tensors: How many there are.
        parameters: Their elements.
        nbytes: Their bytes.
    """

    name: str
    tensors: int
    parameters: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class FileUse:
    """How a file is filled.

    Attributes:
        name: Relative to the source.
        size: Bytes that it seems to have.
        on_disk: Bytes that it takes on the disk: fewer where it has holes or is compressed; None where nobody tells.
        tensors: Tensors in it.
        nbytes: Their bytes, shared ones once.
    """

    name: str
    size: int
    on_disk: int | None
    tensors: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Load:
    """What the weights take in memory once they are loaded.

    Attributes:
        name: The type they are loaded in.
        nbytes: Bytes of the weights alone.
        note: What is counted how.
    """

    name: str
    nbytes: int
    note: str


@dataclass(frozen=True, slots=True)
class ByteRange:
    """A run of bytes of a file.

    Attributes:
        begin: First byte.
        end: The byte after the last.
        kind: `tensor`, `header` (what stands before the first tensor) or `gap`.
        keys: The tensors that lie there; empty for others.
        aligned: The largest power of two that divides `begin`, at most `ALIGNED`.
    """

    begin: int
    end: int
    kind: str
    keys: tuple[str, ...] = ()
    aligned: int = 1


@dataclass(frozen=True, slots=True)
class Overview:
    """A checkpoint in figures.

    Attributes:
        tensors: Weights of the model.
        parameters: Their elements, those at the same place once.
        parameters_stored: The same with every alias counted.
        nbytes: Their bytes, those at the same place once.
        by_part: Embedding, head, attention, …
        by_role: The same matrix of all layers together.
        by_layer: Layers in order, then what lies outside them.
        by_expert: Experts in order, all layers together; empty for a model without any.
        by_dtype: Element types.
        largest: The largest tensors, as stored.
        smallest: The smallest tensors, as stored.
        files: The files.
        loads: What it takes to load the weights, by type.
        aside: Stored tensors that are no weights (optimizer state, buffers).
    """

    tensors: int
    parameters: int
    parameters_stored: int
    nbytes: int
    by_part: tuple[Share, ...]
    by_role: tuple[Share, ...]
    by_layer: tuple[Share, ...]
    by_expert: tuple[Share, ...]
    by_dtype: tuple[Share, ...]
    largest: tuple[TensorRef, ...]
    smallest: tuple[TensorRef, ...]
    files: tuple[FileUse, ...]
    loads: tuple[Load, ...]
    aside: Share


def overview(plan: Plan) -> Overview:
    """Return the numbers of a plan's model. Looks at every tensor once."""
    every = [(entry, role_of(plan, entry)) for entry in plan.weights]
    weights = list(_once(every))
    refs = list({ref.path: ref for entry, _ in every for ref in entry.inputs}.values())
    loose = [dropped.ref for dropped in plan.dropped]
    return Overview(
        tensors=len(refs),
        parameters=sum(entry.output.numel for entry, _ in weights),
        parameters_stored=sum(entry.output.numel for entry, _ in every),
        nbytes=sum(map(_nbytes, (entry for entry, _ in weights))),
        by_part=tuple(sorted(_shares(weights, lambda _, role: role.part), key=lambda s: PARTS.index(s.name))),
        by_role=_shares(weights, lambda _, role: role.name),
        by_layer=_numbered(weights, "layer", lambda role: role.layer),
        by_expert=_numbered(weights, "expert", lambda role: role.expert, outside=False),
        by_dtype=tuple(sorted(_shares(weights, lambda entry, _: entry.ref.dtype), key=lambda s: -s.nbytes)),
        largest=tuple(heapq.nlargest(MOST, refs, key=lambda ref: ref.nbytes)),
        smallest=tuple(heapq.nsmallest(MOST, refs, key=lambda ref: ref.nbytes)),
        files=tuple(_files(plan.source)),
        loads=_loads(weights),
        aside=Share("aside", len(loose), sum(r.numel for r in loose), sum(r.nbytes for r in loose)),
    )


Weights = list[tuple[Entry, Role]]


def _once(weights: Weights) -> Iterator[tuple[Entry, Role]]:
    """Yield the weights, of those that are the same bytes made in the same way the first."""
    seen = set()
    for entry, role in weights:
        if entry.identity not in seen:
            seen.add(entry.identity)
            yield entry, role


def _nbytes(entry: Entry) -> int:
    """Return the bytes that an entry takes in the file: of blocks that are decoded, those of the blocks."""
    packed = any(op.name == "dequantise" for op in entry.ops)
    return entry.ref.nbytes if packed else num_bytes(entry.ref.dtype, entry.output.numel)


def _shares(weights: Weights, name: Callable[[Entry, Role], str]) -> tuple[Share, ...]:
    found: dict[str, list[int]] = {}
    for entry, role in weights:
        sums = found.setdefault(name(entry, role), [0, 0, 0])
        sums[0] += 1
        sums[1] += entry.output.numel
        sums[2] += _nbytes(entry)
    return tuple(Share(key, *sums) for key, sums in found.items())


def _numbered(
    weights: Weights, word: str, number: Callable[[Role], int | None], *, outside: bool = True
) -> tuple[Share, ...]:
    """Return the shares of layers or experts in order, and what has no number last."""
    inside = sorted(((number(role), entry, role) for entry, role in weights if number(role) is not None), key=_first)
    found = _shares([(entry, role) for _, entry, role in inside], lambda _, role: f"{word} {number(role)}")
    rest = [(entry, role) for entry, role in weights if number(role) is None] if outside else []
    return (*found, *_shares(rest, lambda *_: f"outside the {word}s"))


def _first(item: tuple[int | None, Entry, Role]) -> int:
    return item[0] or 0


def _loads(weights: Weights) -> tuple[Load, ...]:
    """Return what the weights take: alone, without what a run needs besides."""
    linear = [
        entry.output for entry, role in weights if len(entry.output.shape) > 1 and role.part not in (EMBEDDING, HEAD)
    ]
    total = sum(entry.output.numel for entry, _ in weights)
    matrices = sum(spec.numel for spec in linear)
    rows = sum(spec.numel // max(spec.shape[-1], 1) for spec in linear)
    rest = 2 * (total - matrices)
    kept = "embedding, head and norms stay in 16 bits"
    return (
        Load("fp32", 4 * total, "4 bytes a parameter"),
        Load("bf16", 2 * total, "2 bytes a parameter"),
        Load("fp16", 2 * total, "2 bytes a parameter"),
        Load("int8", rest + matrices + 4 * rows, f"1 byte a parameter and a scale a row; {kept}"),
        Load(
            "4-bit",
            rest + -(-matrices // 2) + 4 * -(-matrices // BLOCK_4BIT),
            f"half a byte a parameter and a scale for every {BLOCK_4BIT}; {kept}",
        ),
    )


# -------------------------------------------------------------------------------------------------------------- files


def _files(source: Source) -> Iterator[FileUse]:
    places: dict[str, dict[tuple[object, ...], int]] = {file.name: {} for file in source.files}
    counts = dict.fromkeys(places, 0)
    for ref in source.refs:
        if ref.file in places:
            counts[ref.file] += 1
            places[ref.file][ref.place] = ref.nbytes
    for file in source.files:
        yield FileUse(file.name, file.size, _on_disk(file.path), counts[file.name], sum(places[file.name].values()))


def _on_disk(path: str) -> int | None:
    """Return the bytes that the disk keeps of a file; None where the system does not say."""
    try:
        blocks = getattr(os.stat(path), "st_blocks", None)  # POSIX only
    except OSError:
        return None
    return None if blocks is None else 512 * blocks


@runtime_checkable
class HasRegions(Protocol):
    """A reader that knows where tensors lie in its file."""

    def region(self, ref: TensorRef) -> tuple[int, int]:
        """Return offset and length of a tensor that is one run of bytes.

        Raises:
            CheckpointError: It is none.
        """


def byte_map(source: Source, name: str) -> tuple[ByteRange, ...]:
    """Return what lies where in a file, from its first byte to its last.

    Args:
        source: The opened checkpoint.
        name: One of its files.

    Returns:
        Runs in order; empty where the container does not tell. Tensors that are not one run of bytes lie in gaps.
    """
    size = next(file.size for file in source.files if file.name == name)
    reader: object = source.readers.get(name)
    if not isinstance(reader, HasRegions):
        return ()
    keys: dict[tuple[int, int], list[str]] = {}
    for ref in source.refs:
        if ref.file == name and ref.nbytes:
            try:
                begin, length = reader.region(ref)
            except CheckpointError:  # a strided or packed one
                continue
            keys.setdefault((begin, begin + length), []).append(ref.full_key)
    return tuple(_filled(sorted(keys.items()), size))


def _filled(tensors: Iterable[tuple[tuple[int, int], list[str]]], size: int) -> Iterator[ByteRange]:
    at = 0
    for (begin, end), keys in tensors:
        if begin > at:
            yield ByteRange(at, begin, "gap" if at else "header", (), _alignment(at))
        yield ByteRange(begin, end, "tensor", tuple(keys), _alignment(begin))
        at = max(at, end)
    if at < size:
        yield ByteRange(at, size, "gap" if at else "header", (), _alignment(at))


def _alignment(offset: int) -> int:
    """Return the largest power of two that divides an offset, within reason.

    >>> _alignment(192), _alignment(0)
    (64, 4096)
    """
    return min(offset & -offset, ALIGNED) if offset else ALIGNED
