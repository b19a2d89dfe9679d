"""What one container of a source holds: a file, or a folder that is one checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ckpt_gui.core.beside import Extra
from ckpt_gui.core.errors import Finding
from ckpt_gui.core.source import Blocks, Reader, SourceFile
from ckpt_gui.core.tensors import TensorRef
from ckpt_gui.dataclasses import dataclass, field

if TYPE_CHECKING:
    from ckpt_gui.core.formats.pickle_distributed import LocalPart


@dataclass(frozen=True, slots=True)
class Part:
    """What one container of a source holds.

    Attributes:
        container: Its kind.
        name: What the refs call it.
        refs: Its tensors.
        reader: Reads them.
        files: The files that it is made of.
        problems: What the user should know.
        metadata: String metadata of the container.
        tree: Nested values with refs as leaves; None for flat containers.
        extras: Values that are not tensors.
        checksums: Size and CRC-32 by (file, storage).
        shards: What tensors that are one rank's part of a distributed one say of the whole, by path.
        config: What the container itself says of the model, in the terms of config.json.
        blocks: How quantised tensors that can be decoded are packed, by key.
    """

    container: str
    name: str
    refs: tuple[TensorRef, ...]
    reader: Reader
    files: tuple[SourceFile, ...]
    problems: tuple[Finding, ...]
    metadata: Mapping[str, str] = field(default_factory=dict)
    tree: Any = None
    extras: tuple[Extra, ...] = ()
    checksums: Mapping[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    shards: Mapping[tuple[str, ...], LocalPart] = field(default_factory=dict)
    config: Mapping[str, Any] | None = None
    blocks: Mapping[str, Blocks] = field(default_factory=dict)
