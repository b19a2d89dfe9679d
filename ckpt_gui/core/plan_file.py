"""The decisions of a user as a JSON file: a plan to be repeated, or applied to another checkpoint.

Schema 1: `{"schema": 1, "tool": …, "policy": {…}, "target": {…}, "adapter": …}`; what is as usual is left out. A file
may come from anybody, so every value is looked at: nothing is guessed, and an unknown field is refused, as it may be a
wish.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ckpt_gui import dataclasses
from ckpt_gui.core.edits import RENAME_KINDS, FieldEdit, Rename
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.export import Target
from ckpt_gui.core.families.layouts import KINDS
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.policy import TIE_CHOICES, Policy
from ckpt_gui.core.renames import check_rule

SCHEMA = 1
LARGEST = 64 << 20  # bytes of a file
MOST = 1_000_000  # values in a list
LARGEST_COUNT = 1 << 63
Reader = Callable[[Any], Any]


@dataclasses.dataclass(frozen=True, slots=True)
class SavedPlan:
    """What a plan file says.

    Attributes:
        policy: How a checkpoint is to be understood.
        target: What is to be written.
        base: Folder whose config, tokenizer and generation files stand in; None for none.
        adapter: A LoRA adapter, file or folder, that is merged; None for none.
    """

    policy: Policy = dataclasses.field(default_factory=Policy)
    target: Target = dataclasses.field(default_factory=Target)
    base: str | None = None
    adapter: str | None = None


def plan_text(policy: Policy, target: Target, adapter: str | None = None) -> str:
    """Return decisions, and the path of an adapter that is merged, as the text of a plan file."""
    base = target.base.folder if target.base is not None else None
    value = {
        "schema": SCHEMA,
        "tool": "ckpt_gui",
        "policy": _changed(policy, Policy()),
        "target": _changed(dataclasses.replace(target, base=None), Target()) | ({"base": base} if base else {}),
    } | ({"adapter": adapter} if adapter else {})
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def read_plan(path: str | Path) -> SavedPlan:
    """Return the decisions in a plan file.

    Raises:
        CheckpointError: It can not be read, or says something that is not known.
    """
    name = safe_text(str(path), 300)
    try:
        with open(path, "rb") as file:
            raw = file.read(LARGEST + 1)
    except OSError as error:
        text = f"The plan {name} can not be read: {error.strerror or error}."
        raise CheckpointError("bad-plan", text, fix="Name a file that --save-plan wrote.") from error
    if len(raw) > LARGEST:
        raise _refused(name, f"is larger than {LARGEST:,} bytes")
    return parse_plan(raw, name)


def parse_plan(raw: bytes, name: str = "the text") -> SavedPlan:
    """Return the decisions that the bytes of a plan file hold.

    Raises:
        CheckpointError: They are no plan.
    """
    try:
        value = json.loads(raw.decode("utf-8"), object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise _refused(name, f"is no JSON: {safe_text(str(error), 120)}") from error
    if not isinstance(value, dict) or type(value.get("schema")) is not int or value["schema"] != SCHEMA:
        raise _refused(name, f"has no schema that is known here; this program reads schema {SCHEMA}")
    _known(value, {"schema", "tool", "policy", "target", "adapter"}, name, "")
    target = dict(_object(value.get("target", {}), name, "target"))
    base = target.pop("base", None)
    if base is not None and not isinstance(base, str):
        raise _refused(name, "has a value in target.base that is no text")
    adapter = value.get("adapter")
    if adapter is not None and not isinstance(adapter, str):
        raise _refused(name, "has an adapter that is no text")
    policy = Policy(**_fields(_object(value.get("policy", {}), name, "policy"), _POLICY, name, "policy"))
    for rule in policy.renames:
        try:
            check_rule(rule)
        except CheckpointError as error:
            why = error.message.removesuffix(".")
            raise _refused(name, f"has in policy.renames what can not be used: {why}") from error
    return SavedPlan(policy, Target(**_fields(target, _TARGET, name, "target")), base, adapter)


# ------------------------------------------------------------------------------------------------- values of the fields


def _text(value: Any) -> str:
    """Return a text; half a surrogate pair, which JSON can spell and no file can hold, is none."""
    if isinstance(value, str) and not any("\ud800" <= letter <= "\udfff" for letter in value):
        return value
    raise _Wrong("a text")


def _count(value: Any) -> int:
    return value if type(value) is int and 0 < value < LARGEST_COUNT else _wrong("a whole number above 0")


def _number(value: Any) -> float:
    return float(value) if type(value) in (int, float) and 0 < value < LARGEST_COUNT else _wrong("a number above 0")


def _truth(value: Any) -> bool:
    return value if isinstance(value, bool) else _wrong("true or false")


def _one_of(*words: str) -> Reader:
    return lambda value: value if value in words else _wrong(" or ".join(words))


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > MOST:
        _wrong("a list of texts")
    return tuple(_text(one) for one in value)


def _rules(value: Any) -> tuple[Rename, ...]:
    if not isinstance(value, list) or len(value) > MOST:
        _wrong("a list of rules")
    kind = _one_of(*RENAME_KINDS)
    return tuple(
        Rename(_text(one["old"]), _text(one["new"]), kind(one.get("kind", "key")))
        if isinstance(one, dict) and {"old", "new"} <= one.keys() <= {"old", "new", "kind"}
        else _wrong("rules with old, new and kind")
        for one in value
    )


def _edits(value: Any) -> tuple[FieldEdit, ...]:
    if not isinstance(value, dict) or len(value) > MOST:
        _wrong("an object of fields")
    return tuple(FieldEdit(_text(name), None if text is None else _text(text)) for name, text in value.items())


_POLICY: Mapping[str, Reader] = {
    "section": _texts, "family": _text, "heads": _count, "kv_heads": _count, "tie": _one_of(*TIE_CHOICES),
    "skip": lambda value: frozenset(_texts(value)), "dropped": lambda value: frozenset(_texts(value)),
    "kept": lambda value: frozenset(_texts(value)),
    "lora_alpha": _number, "assigned_only": _truth, "stored": _one_of(*KINDS, "same"), "renames": _rules,
    "config": _edits,
}  # fmt: skip
_TARGET: Mapping[str, Reader] = {
    "layout": _one_of(*KINDS, "same"), "container": _one_of("safetensors", "torch"),
    "dtype": _one_of("keep", "bf16", "fp16", "fp32"), "max_shard_bytes": _count, "model_parallel": _count,
    "metadata": _edits,
}  # fmt: skip


def _fields(value: Mapping[str, Any], readers: Mapping[str, Reader], name: str, where: str) -> dict[str, Any]:
    _known(value, readers.keys(), name, f"{where}.")
    made = {}
    for field, given in value.items():
        try:
            made[field] = readers[field](given)
        except _Wrong as error:
            raise _refused(name, f"has a value in {where}.{field} that is not {error}") from error
    return made


class _Wrong(ValueError):
    """A value that is not what the text says."""


def _wrong(what: str) -> Any:
    raise _Wrong(what)


def _known(value: Mapping[str, Any], names: Any, name: str, where: str) -> None:
    odd = next((field for field in value if field not in names), None)
    if odd is not None:
        raise _refused(name, f"has a field {where}{safe_text(odd, 60)}, which is not known here")


def _object(value: Any, name: str, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise _refused(name, f"has a value in {where} that is no object")
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a field stands there twice")
    return made


def _changed(value: Policy | Target, usual: Policy | Target) -> dict[str, Any]:
    """Return the fields that are not as usual, as JSON values."""
    found = {}
    for field in dataclasses.fields(value):
        now = getattr(value, field.name)
        if now != getattr(usual, field.name):
            found[field.name] = _as_json(now)
    return found


def _as_json(value: Any) -> Any:
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, tuple) and value and isinstance(value[0], Rename):
        return [dataclasses.asdict(rule) for rule in value]
    if isinstance(value, tuple) and value and isinstance(value[0], FieldEdit):
        return {edit.name: edit.value for edit in value}
    return list(value) if isinstance(value, tuple) else value


def _refused(name: str, why: str) -> CheckpointError:
    return CheckpointError("bad-plan", f"The plan {name} {why}.", fix="Save it anew, or correct the file.")
