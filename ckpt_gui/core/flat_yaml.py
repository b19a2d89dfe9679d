"""The little of YAML that litgpt's `model_config.yaml` has: names and plain values, lists, and a mapping inside.

litgpt writes it with PyYAML's `dump`; a whole YAML reader for one file of thirty lines, from strangers, is more than is
wanted. What is not of this kind (anchors, tags, several documents) is refused with its line.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

MAX_DEPTH = 8
_PAIR = re.compile(r"(?P<key>[\w.-]+|'[^']*'|\"[^\"]*\"):(?:\s+(?P<value>.*))?\Z")
_INTEGER = re.compile(r"[-+]?\d{1,18}\Z", re.ASCII)
_FLOAT = re.compile(r"[-+]?(\d+\.\d*|\.\d+|\d+)([eE][-+]?\d{1,4})?\Z", re.ASCII)
_WORDS: Mapping[str, Any] = {
    **dict.fromkeys(("null", "Null", "NULL", "~", ""), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    ".inf": math.inf,
    "-.inf": -math.inf,
    ".nan": math.nan,
}
_FOREIGN = ("&", "*", "!", "|", ">", "%", "@", "`")
Lines = list[tuple[int, str, int]]  # indent, text, number


def load(text: str) -> dict[str, Any]:
    r"""Return the mapping in a text.

    Raises:
        ValueError: It is no YAML of this kind; the message names the line.

    >>> load("n_layer: 2\nrope_adjustments:\n  factor: 32.0\nrope_indices:\n- 1\n- 0\nbias: false\n")
    {'n_layer': 2, 'rope_adjustments': {'factor': 32.0}, 'rope_indices': [1, 0], 'bias': False}
    """
    lines: Lines = []
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.rstrip()
        if bare and not bare.lstrip().startswith("#") and not (bare == "---" and not lines):
            if "\t" in bare:
                raise ValueError(f"line {number} has a tab")
            lines.append((len(bare) - len(bare.lstrip()), bare.strip(), number))
    made, rest = _mapping(lines, lines[0][0] if lines else 0, 0)
    if rest:
        raise ValueError(f"line {rest[0][2]} does not belong to the mapping above it")
    return made


def _mapping(lines: Lines, indent: int, depth: int) -> tuple[dict[str, Any], Lines]:
    made: dict[str, Any] = {}
    while lines and lines[0][0] == indent and not lines[0][1].startswith("- "):
        _, text, number = lines[0]
        match = _PAIR.match(text)
        if match is None or depth > MAX_DEPTH:
            raise ValueError(f"line {number} is no name and value")
        key = match["key"].strip("'\"")
        if key in made:
            raise ValueError(f"line {number} gives {key} a second time")
        lines = lines[1:]
        if match["value"] is not None:
            made[key] = _value(match["value"], number)
        elif lines and lines[0][0] >= indent and _is_item(lines[0][1]):
            made[key], lines = _items(lines, lines[0][0])
        elif lines and lines[0][0] > indent:
            made[key], lines = _mapping(lines, lines[0][0], depth + 1)
        else:
            made[key] = None
    return made, lines


def _is_item(text: str) -> bool:
    return text == "-" or text.startswith("- ")


def _items(lines: Lines, indent: int) -> tuple[list[Any], Lines]:
    made = []
    while lines and lines[0][0] == indent and _is_item(lines[0][1]):
        made.append(_value(lines[0][1][1:].strip(), lines[0][2]))
        lines = lines[1:]
    return made, lines


def _value(text: str, number: int) -> Any:
    text = text.strip()
    if text[:1] in ("'", '"', "[", "{"):
        return _quoted(text, number)
    text = text.partition(" #")[0].rstrip()
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.match(text):
        return int(text)
    if _FLOAT.match(text):
        return float(text)
    if text.startswith(_FOREIGN):
        raise ValueError(f"line {number} has a kind of value that is not read here")
    return text


def _quoted(text: str, number: int) -> Any:
    if text[0] == "'":
        if len(text) < 2 or text[-1] != "'":
            raise ValueError(f"line {number} has a text without an end")
        return text[1:-1].replace("''", "'")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"line {number} has a kind of value that is not read here") from error


def dump(values: Mapping[str, Any]) -> str:
    r"""Return a mapping as YAML: what stands in it are plain values, lists of them, and mappings of them.

    >>> dump({"name": "Llama", "norm_eps": 1e-05, "rope_adjustments": {"factor": 32.0}, "bias": False})
    'name: "Llama"\nnorm_eps: 1.0e-05\nrope_adjustments: {"factor": 32.0}\nbias: false\n'
    """
    return "".join(f"{name}: {_flow(value)}\n" for name, value in values.items())


def _flow(value: Any) -> str:
    """Return a value as JSON, which is YAML too, but for numbers such as 1e-05: those want a point."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(str(k))}: {_flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_flow, value)) + "]"
    text = json.dumps(value)
    return text.replace("e", ".0e") if isinstance(value, float) and "e" in text and "." not in text else text
