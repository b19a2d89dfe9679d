"""The rows of the editor of fields: those that findings speak of first, then all others, each with what it was."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ckpt_gui.core.edits import FieldEdit
from ckpt_gui.core.errors import Finding
from ckpt_gui.core.fields import field_of
from ckpt_gui.core.tensors import Source

_WORD = re.compile(r"[a-z][a-z0-9_]*")
# Sizes as findings call them → the fields that state them, in the config of Hugging Face and in Meta's.
_SIZES: Mapping[str, tuple[str, ...]] = {
    "vocab": ("vocab_size",), "hidden": ("hidden_size", "dim"), "ffn": ("intermediate_size", "hidden_dim"),
    "heads": ("num_attention_heads", "n_heads"), "kv_heads": ("num_key_value_heads", "n_kv_heads"),
    "layers": ("num_hidden_layers", "n_layers"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class FieldRow:
    """A field.

    Attributes:
        name: Its name, nested ones with dots.
        before: What it is in the file, as text; None where it is not there.
        after: What it shall be; None where it shall not be there.
        told: Whether a finding speaks of it.
    """

    name: str
    before: str | None
    after: str | None
    told: bool = False


def named_fields(finding: Finding, raw: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the fields of a config that a finding speaks of.

    >>> found = Finding("config-mismatch", "warning", "config.json says: vocab 9, tensors 40.")
    >>> named_fields(found, {"vocab_size": 9, "hidden_size": 8})
    ('vocab_size',)
    """
    words = dict.fromkeys(_WORD.findall(finding.message))
    sizes = (_SIZES.get(word, ()) if finding.code == "config-mismatch" else () for word in words)
    told = [word for word in words if "_" in word]
    return tuple(dict.fromkeys(name for name in (*told, *(n for names in sizes for n in names)) if name in raw))


def config_of(source: Source) -> tuple[str, Mapping[str, Any]]:
    """Return what says what the model is, by the name of its file, as it is there."""
    sidecars = source.sidecars
    for name, raw in (
        ("config.json", sidecars.config),
        ("EXPORT_REPORT.json", sidecars.origin),
        ("params.json", sidecars.params),
        ("model_config.yaml", sidecars.lit),
    ):
        if raw is not None:
            return name, raw
    return "", {}


def config_rows(
    raw: Mapping[str, Any], edited: Sequence[FieldEdit], findings: Iterable[Finding]
) -> tuple[FieldRow, ...]:
    """Return a row for each field of a config, nested ones too; those that findings name come first."""
    told = {name for finding in findings for name in named_fields(finding, raw)}
    edits = {edit.name: edit.value for edit in edited}
    names = [*dict.fromkeys((*_leaves(raw), *edits))]
    rows = [FieldRow(n, _shown(field_of(raw, n)), _shown(edits.get(n, field_of(raw, n))), n in told) for n in names]
    return tuple(sorted(rows, key=lambda row: not row.told))


def metadata_rows(source: Source, edited: Sequence[FieldEdit]) -> tuple[FieldRow, ...]:
    """Return a row for each text of the metadata."""
    before = {"format": "pt", **source.metadata}
    edits = {edit.name: edit.value for edit in edited}
    return tuple(FieldRow(n, before.get(n), edits.get(n, before.get(n))) for n in dict.fromkeys((*before, *edits)))


def _leaves(raw: Mapping[str, Any], above: str = "") -> list[str]:
    found: list[str] = []
    for name, value in raw.items():
        if isinstance(value, Mapping) and value and not above:
            found += _leaves(value, f"{name}.")
        else:
            found.append(above + name)
    return found


def _shown(value: str | None) -> str | None:
    """Return a JSON value as it is typed: a text without its quotes, unless it would be read as something else."""
    if value is None or not value.startswith('"'):
        return value
    text = json.loads(value)
    try:
        json.loads(text)
    except ValueError:
        return str(text)
    return value
