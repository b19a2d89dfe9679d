"""The numbers of a checkpoint that its headers tell: who weighs what, how full its files are, what it takes to load.

Nothing is read but what opening has read, so this is there at once. A tensor at the same place as another is counted
once, except where it is said.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator

from ckpt_gui.core.dtypes import num_bytes
from ckpt_gui.core.entry import Entry
from ckpt_gui.core.file_map import FileUse, file_uses
from ckpt_gui.core.plan import Plan
from ckpt_gui.core.roles import EMBEDDING, HEAD, PARTS, Role, role_of
from ckpt_gui.core.tensors import TensorRef
from ckpt_gui.dataclasses import dataclass

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
        files=file_uses(plan.source),
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
    return sum(ref.nbytes for ref in entry.inputs) if packed else num_bytes(entry.ref.dtype, entry.output.numel)


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
