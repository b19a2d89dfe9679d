"""Who shares bytes with whom, and what an export makes of a tensor: looked up by the inspector, made once."""

from __future__ import annotations

from collections import defaultdict

from ckpt_gui.core.entry import Entry
from ckpt_gui.core.export import Export
from ckpt_gui.core.source import Source
from ckpt_gui.core.tensors import TensorRef


class Relations:
    """An index over the refs of a source and the entries of an export. It looks at all of them."""

    def __init__(self, source: Source, export: Export) -> None:
        self._by_storage: dict[tuple[str, str], list[TensorRef]] = defaultdict(list)
        for ref in source.refs:
            self._by_storage[ref.file, ref.storage].append(ref)
        self._entries: dict[int, list[Entry]] = defaultdict(list)
        for entry in export.entries:
            for ref in entry.inputs:
                self._entries[id(ref)].append(entry)
        self._dropped = {id(d.ref): d.reason for d in export.dropped}

    def sharers(self, ref: TensorRef) -> list[TensorRef]:
        """Return the other refs in the same storage."""
        return [other for other in self._by_storage[ref.file, ref.storage] if other is not ref]

    def entries(self, ref: TensorRef) -> list[Entry]:
        """Return what an export makes of a ref."""
        return self._entries.get(id(ref), [])

    def reason(self, ref: TensorRef) -> str:
        """Return why an export leaves a ref out; empty if it does not."""
        return self._dropped.get(id(ref), "")
