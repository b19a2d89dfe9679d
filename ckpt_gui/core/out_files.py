"""Which files an export consists of, and where every byte of each will lie.

The split into shards is huggingface_hub's own, so that loaders see what `save_pretrained` would have made.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from huggingface_hub import split_state_dict_into_shards_factory

from ckpt_gui.core.beside import ForeignObject
from ckpt_gui.core.bulk import build
from ckpt_gui.core.entry import Entry, carried
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.export import Export
from ckpt_gui.core.export_tree import carries_tree
from ckpt_gui.core.families.layouts import KINDS
from ckpt_gui.core.fields import with_texts
from ckpt_gui.core.formats import safetensors, torch_layout
from ckpt_gui.core.formats.layout import FileLayout, StoredTensor
from ckpt_gui.core.formats.torch_values import StateDict
from ckpt_gui.core.joined import FOLDER as ADAPTER_FOLDER
from ckpt_gui.core.rank_cut import cut
from ckpt_gui.core.tensors import TensorRef, TensorSpec
from ckpt_gui.dataclasses import dataclass

_INDEX = {"safetensors": "model.safetensors.index.json", "torch": "pytorch_model.bin.index.json"}


@dataclass(frozen=True, slots=True)
class Part:
    """One tensor's bytes in one file, made once even if two names share them.

    Attributes:
        name: Key (safetensors) or record (torch): what the layout's offsets call it.
        entry: What makes it.
    """

    name: str
    entry: Entry


@dataclass(frozen=True, slots=True)
class OutFile:
    """A file of tensors to be written.

    Attributes:
        name: Its name in the folder.
        parts: The bytes to fill in.
        layout: Where everything lies.
        shared: Every key of a weight → the part that holds its bytes; None where each part is a weight of its name.
        tree: Every tensor that it will hold, what is merely carried included, in file order; None where those are the
            parts in the order of the layout. In a file of 500,000 tensors none of this is said twice.
    """

    name: str
    parts: tuple[Part, ...]
    layout: FileLayout
    shared: Mapping[str, str] | None = None
    tree: tuple[StoredTensor, ...] | None = None

    @property
    def keys(self) -> Mapping[str, str]:
        """Every key of a weight → the part that holds its bytes."""
        return {part.name: part.name for part in self.parts} if self.shared is None else self.shared

    @property
    def leaves(self) -> Iterable[StoredTensor]:
        """Every tensor that it will hold, in file order."""
        if self.tree is not None:
            return self.tree
        specs = {part.name: part.entry.output for part in self.parts}
        return (StoredTensor(specs[name], name) for name in self.layout.offsets)

    @property
    def weights(self) -> int:
        """How many keys of weights it has."""
        return len(self.parts if self.shared is None else self.shared)


def plan_files(export: Export) -> tuple[tuple[OutFile, ...], dict[str, str]]:
    """Return the files of tensors, and the index file's text by its name (empty for a single file).

    Raises:
        CheckpointError: The container can not hold the tensors.
    """
    groups = _groups(export)
    metadata = _metadata(export)
    files = tuple(_file(export, name, entries, metadata) for name, entries in groups.items())
    return files, _index(export, groups)


def _groups(export: Export) -> dict[str, list[Entry]]:
    if export.ranks > 1:
        return _rank_groups(export)
    if export.target.layout == "same":
        return _same_groups(export)
    assert export.layout is not None
    pattern = KINDS[export.layout.name].files[export.container]
    if "{suffix}" not in pattern:
        return {pattern: list(export.entries)}
    split = split_state_dict_into_shards_factory(
        {e.key: e for e in export.entries},
        get_storage_size=lambda e: e.output.nbytes,
        filename_pattern=pattern,
        max_shard_size=export.target.max_shard_bytes,
    )
    by_key = {e.key: e for e in export.entries}
    return {name: [by_key[k] for k in keys] for name, keys in split.filename_to_tensors.items()}


def _rank_groups(export: Export) -> dict[str, list[Entry]]:
    """Cut the tensors for tensor-parallel ranks, one file each."""
    assert export.layout is not None
    count, layout = export.ranks, export.layout
    return {
        f"consolidated.{rank:02}.pth": [cut(entry, rank, count, layout, export.plan) for entry in export.entries]
        for rank in range(count)
    }


def _same_groups(export: Export) -> dict[str, list[Entry]]:
    """Keep each tensor in the file in which it was."""
    groups: dict[str, list[Entry]] = {}
    own = next((e.ref.file for e in export.entries if not e.ref.file.startswith(ADAPTER_FOLDER)), "")
    for entry in export.entries:
        file = own if entry.ref.file.startswith(ADAPTER_FOLDER) else entry.ref.file  # what an adapter brings has none
        groups.setdefault(_same_name(file, export), []).append(entry)
    if not groups:
        raise CheckpointError("not-a-checkpoint", "There is no tensor to write.")
    return groups


def _same_name(file: str, export: Export) -> str:
    """Return the file's name, with an ending that fits its content."""
    name = PurePath(file).name or "model"
    suffixes = (".safetensors",) if export.container == "safetensors" else (".pt", ".pth", ".bin", ".ckpt")
    return name if name.endswith(suffixes) else PurePath(name).stem + suffixes[0]


def _file(export: Export, name: str, entries: Sequence[Entry], metadata: Mapping[str, str]) -> OutFile:
    if export.container == "safetensors":
        parts = tuple(build(Part, len(entries), name=[e.key for e in entries], entry=entries))
        layout = safetensors.layout([e.output for e in entries], metadata, _origins(export, entries))
        return OutFile(name, parts, layout)
    return _torch_file(export, name, entries)


def _origins(export: Export, entries: Sequence[Entry]) -> dict[str, int]:
    """Return where tensors that stay as they are begin in a source of the same container."""
    source = export.plan.source
    if source.container != "safetensors":
        return {}
    places = {e.key: source.place_of(e.expr) for e in entries if isinstance(e.expr, TensorRef)}
    return {key: place for key, place in places.items() if place is not None}


def _metadata(export: Export) -> dict[str, str]:
    """Carry the source's metadata; `format` says pt, which transformers 4 wants; records of dropped aliases go."""
    keys = {e.key for e in export.entries} | {d.key for d in export.dropped}
    kept = {k: v for k, v in export.plan.source.metadata.items() if k not in keys and v not in keys}
    return {"format": "pt"} | with_texts({**kept, "format": "pt"}, export.target.metadata)


def _torch_file(export: Export, name: str, entries: Sequence[Entry]) -> OutFile:
    made: dict[Any, Part] = {}
    leaves: dict[str, StoredTensor] = {}
    for entry in entries:
        part = made.setdefault(entry.identity, Part(str(len(made)), entry))
        leaves[entry.key] = StoredTensor(entry.output, part.name)
    tree: Any = leaves
    extra: list[Part] = []
    if carries_tree(export):
        tree, extra = _same_tree(export, entries, leaves, len(made))
        if not {part.name for part in made.values()} <= {leaf.record for leaf in torch_layout.leaves(tree)}:
            tree, extra = leaves, []  # weights within a pickled object: they come out of it
    elif export.layout and export.target.layout != "same" and (section := KINDS[export.layout.name].section):
        tree = {section: leaves}
    parts = (*made.values(), *extra)
    keys = {key: leaf.record for key, leaf in leaves.items()}
    return OutFile(name, parts, torch_layout.layout(tree), keys, tuple(torch_layout.leaves(tree)))


class _TreeCopy:
    """Copies the source's tree with new keys for the weights; what is not inert is left out and listed."""

    def __init__(self, export: Export, entries: Sequence[Entry], leaves: Mapping[str, StoredTensor], used: int) -> None:
        self.section = export.plan.section
        self.leaves: dict[tuple[str, ...], list[StoredTensor]] = {}
        for entry in entries:
            self.leaves.setdefault(entry.ref.path, []).append(leaves[entry.key])
        self.gone = {d.ref.path for d in export.dropped if d.kind in ("redundant", "user", "buffer", "replaced")}
        self.gone |= {ref.path for entry in entries for ref in entry.inputs} - self.leaves.keys()  # merged into others
        self.used = used
        self.parts: list[Part] = []
        self.records: dict[Any, str] = {}

    def copy(self, value: Any, path: tuple[str, ...]) -> Any:
        if isinstance(value, TensorRef):
            return self._other(value)
        if isinstance(value, dict):
            return self._dict(value, path)
        if isinstance(value, list | tuple) and not hasattr(value, "_fields") and type(value) in (list, tuple):
            kept = [self.copy(v, (*path, str(i))) for i, v in enumerate(value) if not isinstance(v, ForeignObject)]
            return kept if isinstance(value, list) else tuple(kept)
        return value

    def _dict(self, value: dict[Any, Any], path: tuple[str, ...]) -> dict[Any, Any]:
        made: dict[Any, Any] = StateDict() if isinstance(value, StateDict) else {}
        for key, item in value.items():
            if isinstance(item, ForeignObject):
                continue
            if isinstance(item, TensorRef):
                if item.path in self.gone:
                    continue
                if item.path in self.leaves:
                    made |= self._weights(item, key)
                    continue
            made[key] = self.copy(item, (*path, str(key)))
        if isinstance(made, StateDict) and getattr(value, "attributes", None) is not None:
            made.attributes = _plain_metadata(value)
        return made

    def _weights(self, ref: TensorRef, key: Any) -> dict[Any, StoredTensor]:
        """Return what a stored weight becomes by name: its copy as the output head, too."""
        made = self.leaves[ref.path]
        if len(ref.path) == len(self.section) + 1:
            return {leaf.spec.key: leaf for leaf in made}
        spec = TensorSpec(ref.key, made[0].spec.dtype, made[0].spec.shape)  # dicts within dicts keep their names
        return {key: StoredTensor(spec, made[0].record)}

    def _other(self, ref: TensorRef) -> StoredTensor:
        """Carry a tensor that is not a weight as it is."""
        if ref.place not in self.records:
            self.records[ref.place] = name = str(self.used + len(self.parts))
            self.parts.append(Part(name, carried(ref, why="carried")))
        return StoredTensor(TensorSpec(ref.key, ref.dtype, ref.shape), self.records[ref.place])


def _plain_metadata(value: dict[Any, Any]) -> dict[Any, Any]:
    """Return the `_metadata` of a state dict: module versions by module name."""
    found = getattr(value, "attributes", {}).get("_metadata")
    return {"_metadata": found} if isinstance(found, dict) else {}


def _same_tree(
    export: Export, entries: Sequence[Entry], leaves: Mapping[str, StoredTensor], used: int
) -> tuple[Any, list[Part]]:
    copier = _TreeCopy(export, entries, leaves, used)
    return copier.copy(export.plan.source.tree, ()), copier.parts


def _index(export: Export, groups: Mapping[str, Sequence[Entry]]) -> dict[str, str]:
    if export.ranks > 1:
        return {}
    had_index = export.target.layout == "same" and any(n.endswith(".index.json") for n in _source_names(export))
    if len(groups) < 2 and not had_index:
        return {}
    total = sum(e.output.nbytes for entries in groups.values() for e in entries)
    parameters = sum(math.prod(e.output.shape) for entries in groups.values() for e in entries)
    weight_map = {e.key: name for name, entries in groups.items() for e in entries}
    index = {
        "metadata": {"total_size": total, "total_parameters": parameters},
        "weight_map": dict(sorted(weight_map.items())),
    }
    return {_INDEX[export.container]: json.dumps(index, indent=2) + "\n"}


def _source_names(export: Export) -> list[str]:
    return [export.plan.source.path, *(f.name for f in export.plan.source.files)]
