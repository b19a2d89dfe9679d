"""What the user changes by hand: names of tensors by rules, fields of the config, entries of the metadata.

Rules say what a key should have been called in the file; everything else follows from the new name, as if the file had
it: which tensor of the model it is, and what its values need. They are done in order, each on what the ones before it
have left.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ckpt_gui.core.errors import CheckpointError

_PLACE = re.compile(r"\{([A-Za-z_]\w*)\}")
Match = Callable[[str], str | None]


@dataclass(frozen=True, slots=True)
class KeyRule:
    r"""One rule.

    Attributes:
        find: A key; with places such as `{layer}` each key that has numbers there; or a regular expression.
        to: The new name, with the same places; `\\1` or `\\g<name>` in that of an expression.
        regex: Whether `find` is a regular expression: what it finds is replaced, the rest of the key stays.
        enabled: Whether it is done.
    """

    find: str
    to: str
    regex: bool = False
    enabled: bool = True


@dataclass(frozen=True, slots=True)
class FieldEdit:
    """A field that gets another value.

    Attributes:
        name: The field; a dot leads into a nested one, as `rope_scaling.factor`.
        value: The new value, as JSON for a config and as plain text for metadata; None takes the field out.
    """

    name: str
    value: str | None


@dataclass(frozen=True, slots=True)
class Renamed:
    """Keys after all rules.

    Attributes:
        names: The names, in the order of the keys.
        hits: Of each rule the places of the keys that it changed.
    """

    names: tuple[str, ...]
    hits: tuple[tuple[int, ...], ...]


def matcher(rule: KeyRule) -> Match:
    """Return a function from a key to its new name; None where the rule does not fit.

    >>> matcher(KeyRule("h.{layer}.w", "layers.{layer}.weight"))("h.3.w")
    'layers.3.weight'

    Raises:
        CheckpointError: The rule can not be read: `edit-invalid`.
    """
    if not rule.find:
        raise CheckpointError("edit-invalid", "The rule does not say which keys it is for.")
    if rule.regex:
        return _expression(rule)
    places = _PLACE.findall(rule.find)
    unknown = [name for name in _PLACE.findall(rule.to) if name not in places]
    if unknown:
        raise CheckpointError(
            "edit-invalid", f"The new name has the place {{{unknown[0]}}}, which the old name has not."
        )
    if not rule.to:
        raise CheckpointError("edit-invalid", "The rule gives no new name.")
    if not places:
        return lambda key: rule.to if key == rule.find else None
    pattern = re.compile(_with_places(rule.find))

    def match(key: str) -> str | None:
        found = pattern.fullmatch(key)
        return _PLACE.sub(lambda place: found[place[1]], rule.to) if found else None

    return match


def _expression(rule: KeyRule) -> Match:
    try:
        pattern = re.compile(rule.find)
        pattern.sub(rule.to, "")  # reads the new name, too
    except (re.error, IndexError) as error:
        raise CheckpointError("edit-invalid", f"The expression can not be read: {error}.") from error

    def match(key: str) -> str | None:
        name, count = pattern.subn(rule.to, key)
        return name if count and name else None

    return match


def _with_places(text: str) -> str:
    """Return a template as a regular expression: places are numbers, the same name the same number."""
    parts, at, seen = [], 0, set()
    for place in _PLACE.finditer(text):
        parts.append(re.escape(text[at : place.start()]))
        name = place[1]
        parts.append(f"(?P={name})" if name in seen else f"(?P<{name}>[0-9]+)")
        seen.add(name)
        at = place.end()
    return "".join(parts) + re.escape(text[at:])


def apply_rules(keys: Sequence[str], rules: Sequence[KeyRule]) -> Renamed:
    """Return the names of keys after rules.

    Raises:
        CheckpointError: A rule can not be read: `edit-invalid`.
    """
    names, hits = list(keys), []
    for rule in rules:
        match = matcher(rule)
        changed = []
        for place, name in enumerate(names) if rule.enabled else ():
            new = match(name)
            if new is not None and new != name:
                names[place] = new
                changed.append(place)
        hits.append(tuple(changed))
    return Renamed(tuple(names), tuple(hits))


def edit_config(raw: Mapping[str, Any], edits: Sequence[FieldEdit]) -> dict[str, Any]:
    """Return a config with edits.

    >>> edit_config({"a": {"b": 1}}, [FieldEdit("a.b", "2"), FieldEdit("c", '"x"')])
    {'a': {'b': 2}, 'c': 'x'}

    Raises:
        CheckpointError: A value is no JSON: `edit-invalid`.
    """
    made = dict(raw)
    for edit in edits:
        *above, last = edit.name.split(".") if edit.name not in raw else [edit.name]
        place = made
        for name in above:
            inner = place.get(name)
            place[name] = dict(inner) if isinstance(inner, Mapping) else {}
            place = place[name]
        if edit.value is None:
            place.pop(last, None)
        else:
            place[last] = json_value(edit)
    return made


def json_value(edit: FieldEdit) -> Any:
    """Return the value of an edit of a config; None takes the field out.

    Raises:
        CheckpointError: It is no JSON: `edit-invalid`.
    """
    if edit.value is None:
        return None
    try:
        return json.loads(edit.value)
    except ValueError as error:
        text = f'The value of `{edit.name}` is no JSON. A text stands in quotes, as in "silu".'
        raise CheckpointError("edit-invalid", text) from error


def field_value(raw: Mapping[str, Any], name: str) -> str | None:
    """Return a field of a config as JSON; None where it is not there.

    >>> field_value({"a": {"b": 1}}, "a.b"), field_value({}, "a")
    ('1', None)
    """
    value: Any = raw
    for part in [name] if name in raw else name.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return None
        value = value[part]
    return json.dumps(value, ensure_ascii=False, default=str)


def edit_metadata(metadata: Mapping[str, str], edits: Sequence[FieldEdit]) -> dict[str, str]:
    """Return the metadata of a safetensors file with edits."""
    made = dict(metadata)
    for edit in edits:
        if edit.value is None:
            made.pop(edit.name, None)
        else:
            made[edit.name] = edit.value
    return made


def with_edit(edits: Sequence[FieldEdit], edit: FieldEdit) -> tuple[FieldEdit, ...]:
    """Return edits with one more, which takes the place of an older one of the same field."""
    return (*(each for each in edits if each.name != edit.name), edit)
