"""The numbers of a checkpoint that its headers tell: who weighs what, how full its files are, what it takes to load.

Nothing is read but what opening has read, so this is there at once. A tensor at the same place as another is counted
once, except where it is said.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from ckpt_gui.core.bulk import joined
from ckpt_gui.core.dtypes import num_bytes
from ckpt_gui.core.entry import Entry
from ckpt_gui.core.file_map import FileUse, file_uses
from ckpt_gui.core.plan import Plan
from ckpt_gui.core.roles import EMBEDDING, HEAD, PARTS, role_groups
from ckpt_gui.core.tensors import TensorRef, shares_storage
from ckpt_gui.dataclasses import dataclass, field

MOST = 10
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
    inputs = [ref for entry in plan.weights for ref in entry.inputs]
    refs = list(joined([ref.path if ref.section else ref.key for ref in inputs], inputs).values())
    # Of 500,000 entries the identities alone would take 100 MB: they are not needed where each has bytes of its own.
    sums = _sums(plan, apart=len(refs) == len(inputs) and not shares_storage(refs))
    loose = [dropped.ref for dropped in plan.dropped]
    return Overview(
        tensors=len(refs),
        parameters=sums.whole.parameters,
        parameters_stored=sums.stored,
        nbytes=sums.whole.nbytes,
        by_part=tuple(sorted(_shares(sums.parts), key=lambda s: PARTS.index(s.name))),
        by_role=_shares(sums.roles),
        by_layer=(*_numbered(sums.layers, "layer"), *_shares(sums.outside)),
        by_expert=_numbered(sums.experts, "expert"),
        by_dtype=tuple(sorted(_shares(sums.dtypes), key=lambda s: -s.nbytes)),
        largest=tuple(heapq.nlargest(MOST, refs, key=lambda ref: ref.nbytes)),
        smallest=tuple(heapq.nsmallest(MOST, refs, key=lambda ref: ref.nbytes)),
        files=file_uses(plan.source),
        loads=_loads(sums),
        aside=Share("aside", len(loose), sum(r.numel for r in loose), sum(r.nbytes for r in loose)),
    )


@dataclass(slots=True)
class _Sum:
    tensors: int = 0
    parameters: int = 0
    nbytes: int = 0

    def add(self, parameters: int, nbytes: int) -> None:
        self.tensors += 1
        self.parameters += parameters
        self.nbytes += nbytes

    def take(self, other: _Sum) -> None:
        self.tensors += other.tensors
        self.parameters += other.parameters
        self.nbytes += other.nbytes


def _many() -> defaultdict[Any, _Sum]:
    return defaultdict(_Sum)


@dataclass(slots=True)
class _Sums:
    """What is added up in one walk over the weights, those that are the same bytes made in the same way once."""

    whole: _Sum = field(default_factory=_Sum)
    stored: int = 0  # parameters, with all that are the same
    parts: dict[str, _Sum] = field(default_factory=_many)
    roles: dict[str, _Sum] = field(default_factory=_many)
    layers: dict[int, _Sum] = field(default_factory=_many)
    outside: dict[str, _Sum] = field(default_factory=_many)
    experts: dict[int, _Sum] = field(default_factory=_many)
    dtypes: dict[str, _Sum] = field(default_factory=_many)
    matrices: int = 0  # parameters of matrices that are neither embedding nor head
    rows: int = 0  # of those


def _sums(plan: Plan, *, apart: bool) -> _Sums:
    """Add up the weights of a plan; apart: no two of them are made of the same bytes."""
    weights, sums = plan.weights, _Sums()
    seen: set[object] = set()
    for group in role_groups(plan):
        role, is_linear = sums.roles[group.name], group.part not in (EMBEDDING, HEAD)
        for place, layer, expert in group.members():
            entry = weights[place]
            parameters = entry.output.numel
            sums.stored += parameters
            if not apart and entry.identity in seen:
                continue
            if not apart:
                seen.add(entry.identity)
            nbytes = _nbytes(entry)
            role.add(parameters, nbytes)
            sums.dtypes[entry.ref.dtype].add(parameters, nbytes)
            (sums.outside["outside the layers"] if layer is None else sums.layers[layer]).add(parameters, nbytes)
            if expert is not None:
                sums.experts[expert].add(parameters, nbytes)
            if is_linear and len(entry.output.shape) > 1:
                sums.matrices += parameters
                sums.rows += parameters // max(entry.output.shape[-1], 1)
        sums.parts[group.part].take(role)
        sums.whole.take(role)
    return sums


def _nbytes(entry: Entry) -> int:
    """Return the bytes that an entry takes in the file: of blocks that are decoded, those of the blocks."""
    packed = any(op.name == "dequantise" for op in entry.ops)
    return sum(ref.nbytes for ref in entry.inputs) if packed else num_bytes(entry.ref.dtype, entry.output.numel)


def _shares(found: Mapping[str, _Sum]) -> tuple[Share, ...]:
    return tuple(
        Share(name, each.tensors, each.parameters, each.nbytes) for name, each in found.items() if each.tensors
    )


def _numbered(found: Mapping[int, _Sum], word: str) -> tuple[Share, ...]:
    """Return the shares of layers or experts in order."""
    return _shares({f"{word} {number}": found[number] for number in sorted(found)})


def _loads(sums: _Sums) -> tuple[Load, ...]:
    """Return what the weights take: alone, without what a run needs besides."""
    total, matrices, rows = sums.whole.parameters, sums.matrices, sums.rows
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
