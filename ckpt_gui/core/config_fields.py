"""The fields of a config that a user may want to change: those that findings speak of come first."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ckpt_gui.core.export import Export
from ckpt_gui.core.meta_config import META_DIMS
from ckpt_gui.core.model_config import HF_DIMS
from ckpt_gui.dataclasses import dataclass

_NAMES = re.compile(r"`([^`]+)`")
_WORDS = re.compile(r"\w+")
_DEEPEST = 4  # objects in objects that are gone into
# Sizes, and fields, that decide what a finding is about where its sentence does not name them.
_BY_CODE: Mapping[str, tuple[str, ...]] = {
    "heads-unknown": ("heads", "kv_heads", "head_dim"),
    "tied-conflict": ("tie_word_embeddings",),
    "missing-tensor": ("layers", "tie_word_embeddings"),
    "shape-mismatch": ("hidden", "ffn", "vocab", "heads", "kv_heads", "head_dim"),
}


@dataclass(frozen=True, slots=True)
class ConfigField:
    """A field as the file has it.

    Attributes:
        name: Its name; the parts of a nested one with dots between them.
        value: Its value as JSON text.
        named: True if a finding speaks of it.
    """

    name: str
    value: str
    named: bool


def editable_fields(export: Export) -> tuple[ConfigField, ...]:
    """Return the fields of the config beside the weights, those that findings speak of first; none without a config."""
    sidecars = export.plan.source.sidecars
    raw = next((c for c in (sidecars.config, sidecars.origin, sidecars.params, sidecars.lit) if c is not None), {})
    said = set(_said(export))
    named = said.union(*(names for table in (HF_DIMS, META_DIMS) for size, names in table.items() if size in said))
    found = [
        ConfigField(name, json.dumps(value), name in named or name.rpartition(".")[2] in named)
        for name, value in _flat(raw)
    ]
    return tuple(sorted(found, key=lambda field: not field.named))


def _said(export: Export) -> Iterator[str]:
    """Yield the sizes and fields that findings speak of, among other words."""
    for finding in (*export.plan.findings, *export.findings):
        yield from _BY_CODE.get(finding.code, ())
        yield from _NAMES.findall(finding.message)
        if finding.code == "config-mismatch":
            yield from _WORDS.findall(finding.message)


def _flat(raw: Mapping[str, Any], above: str = "", depth: int = 1) -> Iterator[tuple[str, Any]]:
    for name, value in raw.items():
        if "." in name:  # can not be named by a path of dots
            continue
        if isinstance(value, Mapping) and value and depth < _DEEPEST:
            yield from _flat(value, f"{above}{name}.", depth + 1)
        else:
            yield f"{above}{name}", value
