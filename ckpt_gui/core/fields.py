"""Edits of fields: a config is read, and a safetensors file written, as if its fields had the values the user gave.

The source stays as it is. A number can not become a text, as no program would read it: what a field holds now says of
which kind it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ckpt_gui.core.edits import FieldEdit
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.keys import safe_text

LONGEST_VALUE = 1 << 20  # characters
_KINDS: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (bool, "true or false"), ((int, float), "a number"), (str, "a text"), (list, "a list"), (dict, "an object"),
)  # fmt: skip


def with_fields(raw: Mapping[str, Any], edits: Sequence[FieldEdit], origin: str = "config.json") -> dict[str, Any]:
    """Return a config with fields set or taken out; the given one stays as it is.

    Raises:
        CheckpointError: A value is no JSON, or of another kind than what the field holds.

    >>> with_fields({"vocab_size": 7, "rope": {"a": 1}}, [FieldEdit("vocab_size", "8"), FieldEdit("rope.a", None)])
    {'vocab_size': 8, 'rope': {}}
    """
    made = dict(raw)
    for edit in edits:
        *above, last = edit.name.split(".")
        place = made
        for name in above:
            inner = place.get(name)
            if edit.value is None and not isinstance(inner, dict):
                break
            place[name] = dict(inner) if isinstance(inner, dict) else {}
            place = place[name]
        else:
            if edit.value is None:
                place.pop(last, None)
            else:
                place[last] = _value(edit, place.get(last), origin)
    return made


def field_of(raw: Mapping[str, Any], name: str) -> str | None:
    """Return the value of a field as JSON text; None if there is none.

    >>> field_of({"rope": {"a": 1.5}}, "rope.a"), field_of({}, "rope.a")
    ('1.5', None)
    """
    place: Any = raw
    for part in name.split("."):
        if not isinstance(place, Mapping) or part not in place:
            return None
        place = place[part]
    return json.dumps(place)


def with_texts(metadata: Mapping[str, str], edits: Iterable[FieldEdit]) -> dict[str, str]:
    """Return the metadata of a safetensors file, which are texts by name, with some set or taken out."""
    made = dict(metadata)
    for edit in edits:
        if edit.value is None:
            made.pop(edit.name, None)
        else:
            made[edit.name] = edit.value
    return made


def as_value(text: str) -> str:
    """Return what a person types for a value as JSON: what is no JSON is a text.

    >>> as_value("8"), as_value("true"), as_value("llama"), as_value('"8"')
    ('8', 'true', '"llama"', '"8"')
    """
    try:
        json.loads(text, parse_constant=_no_constant)
    except ValueError:
        return json.dumps(text)
    return text


def _value(edit: FieldEdit, before: Any, origin: str) -> Any:
    text = edit.value or ""
    if len(text) > LONGEST_VALUE:
        raise _refused(edit, f"is longer than {LONGEST_VALUE:,} characters")
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise _refused(edit, "is no JSON value") from error
    if before is not None and value is not None and _kind(before) != _kind(value):
        raise _refused(edit, f"is {_kind(value)}, and {origin} has {_kind(before)} there")
    return value


def _kind(value: Any) -> str:
    return next((word for kind, word in _KINDS if isinstance(value, kind)), "nothing")


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


def _refused(edit: FieldEdit, why: str) -> CheckpointError:
    text = f"The value {safe_text(edit.value or '', 60)} for `{safe_text(edit.name, 80)}` {why}."
    return CheckpointError("bad-edit", text, fix="Correct it, or leave the edit out.")
