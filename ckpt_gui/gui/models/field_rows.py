"""The rows of the editor of fields: those that findings speak of first, then all others, each with what it was."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ckpt_gui.core.config_fields import editable_fields
from ckpt_gui.core.edits import FieldEdit
from ckpt_gui.core.export import Export
from ckpt_gui.core.meta_config import META_DIMS
from ckpt_gui.core.model_config import HF_DIMS
from ckpt_gui.core.source import Source
from ckpt_gui.dataclasses import dataclass

_KEY = re.compile(r"`[^`]*\.[^`]*`")  # a name of a tensor has dots; what its parts are called says nothing of fields
_WORD = re.compile(r"\w+")


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


def config_rows(export: Export, edited: Sequence[FieldEdit]) -> tuple[FieldRow, ...]:
    """Return a row for each field of the config, nested ones too; those that findings speak of come first."""
    edits = {edit.name: edit.value for edit in edited}
    rows = [
        FieldRow(field.name, _shown(field.value), _shown(edits.pop(field.name, field.value)), field.named)
        for field in editable_fields(export)
    ]
    return (*rows, *(FieldRow(name, None, _shown(value)) for name, value in edits.items()))


def metadata_rows(source: Source, edited: Sequence[FieldEdit]) -> tuple[FieldRow, ...]:
    """Return a row for each text of the metadata."""
    before = {"format": "pt", **source.metadata}
    edits = {edit.name: edit.value for edit in edited}
    return tuple(FieldRow(n, before.get(n), edits.get(n, before.get(n))) for n in dict.fromkeys((*before, *edits)))


def fields_of(export: Export, message: str) -> tuple[str, ...]:
    """Return the fields of the config that findings speak of and that a sentence is about."""
    named = [field.name for field in editable_fields(export) if field.named]
    words = set(_WORD.findall(_KEY.sub("", message)))
    return tuple(name for name in named if name in words or any(_is_size(word, name) for word in words))


def _is_size(word: str, name: str) -> bool:
    """Return True for a size as sentences call it, and the field that states it: `vocab` and `vocab_size`."""
    return any(name in table.get(word, ()) for table in (HF_DIMS, META_DIMS))


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
