"""A fix plan as a JSON file: what was decided, to be done again elsewhere, or on another checkpoint.

It holds decisions and no facts of the checkpoint: those are found anew wherever it is used, and what does not fit there
is told as findings.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ckpt_gui.core.edits import FieldEdit, KeyRule, json_value
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.export import Target
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.policy import Policy

MARK, VERSION = "ckpt_gui_plan", 1
MOST_BYTES = 64 << 20
_SETS = ("skip", "dropped", "kept")
_EDITS = ("config_edits", "metadata_edits")
_TYPES: Mapping[str, tuple[type, ...]] = {
    "family": (str,), "heads": (int,), "kv_heads": (int,), "tie": (str,), "lora_alpha": (int, float),
    "assigned_only": (bool,), "stored": (str,), "layout": (str,), "container": (str,), "dtype": (str,),
    "max_shard_bytes": (int,), "model_parallel": (int,), "base": (str,),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class PlanFile:
    """What a plan file says.

    Attributes:
        policy: How a checkpoint is to be understood.
        target: What is to be written; without the files of a base folder, which have to be read.
        base: That folder; empty for none.
        adapter: What is to be merged; empty for nothing.
        source: The checkpoint that it was made for, as it was named then.
    """

    policy: Policy = field(default_factory=Policy)
    target: Target = field(default_factory=Target)
    base: str = ""
    adapter: str = ""
    source: str = ""


def plan_json(plan: PlanFile) -> str:
    """Return a plan as the text of a file: only what differs from the usual."""
    policy = _changed(plan.policy, Policy())
    target = _changed(dataclasses.replace(plan.target, base=None), Target())
    if plan.base:
        target["base"] = plan.base
    target["layout"] = plan.target.layout
    made: dict[str, Any] = {MARK: VERSION, "source": plan.source, "policy": policy, "target": target}
    if plan.adapter:
        made["adapter"] = plan.adapter
    return json.dumps(made, indent=2, ensure_ascii=False) + "\n"


def write_plan(path: str | os.PathLike[str], plan: PlanFile) -> None:
    """Write a plan; the file is there whole or not at all.

    Raises:
        OSError: It can not be written.
    """
    file = Path(path)
    part = file.with_name(f".{file.name}.partial")
    try:
        part.write_text(plan_json(plan), encoding="utf-8")
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)


def read_plan(path: str | os.PathLike[str]) -> PlanFile:
    """Return what a plan file says.

    Raises:
        CheckpointError: It is none, or not one of this version: `plan-invalid`.
    """
    file = Path(path)
    try:
        if file.stat().st_size > MOST_BYTES:
            raise _wrong("It is too long to be one", path)
        return parse_plan(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise CheckpointError("plan-invalid", f"{error.strerror or error}.", path=str(path)) from error
    except UnicodeDecodeError as error:
        raise _wrong("It is no text", path) from error
    except CheckpointError as error:
        raise CheckpointError(error.code, error.message, fix=error.fix, path=str(path)) from error


def parse_plan(text: str) -> PlanFile:
    """Return what the text of a plan file says.

    Raises:
        CheckpointError: It is no plan, or not one of this version: `plan-invalid`.
    """
    try:
        made = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _wrong("It is no JSON") from error
    if not isinstance(made, dict) or MARK not in made:
        raise _wrong(f"It has no `{MARK}`")
    if made[MARK] != VERSION:
        raise _wrong(f"It is of version {safe_text(str(made[MARK]), 20)}, and this program reads version {VERSION}")
    policy, target = made.get("policy", {}), made.get("target", {})
    if not isinstance(policy, dict) or not isinstance(target, dict):
        raise _wrong("`policy` and `target` have to be objects")
    base = target.pop("base", "")
    texts = {name: made.get(name, "") for name in ("adapter", "source")} | {"base": base}
    if not all(isinstance(value, str) for value in texts.values()):
        raise _wrong("`adapter`, `source` and `base` have to be texts")
    return PlanFile(
        Policy(**{name: _policy_field(name, value) for name, value in policy.items()}),
        Target(**{name: _plain(name, value, Target) for name, value in target.items()}),
        **texts,
    )


def _changed(value: Policy | Target, usual: Policy | Target) -> dict[str, Any]:
    """Return the fields that are not as usual, in the order in which they are declared."""
    now, then = _fields(value), _fields(usual)
    return {name: _as_json(name, each) for name, each in now.items() if each != then[name]}


def _fields(value: Policy | Target) -> dict[str, Any]:
    return {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}


def _as_json(name: str, value: Any) -> Any:
    if name in _SETS:
        return sorted(value)
    if name == "section":
        return list(value)
    if name == "key_rules":
        return [_rule_json(rule) for rule in value]
    if name in _EDITS:
        return [_edit_json(edit, plain=name == "metadata_edits") for edit in value]
    return value


def _rule_json(rule: KeyRule) -> dict[str, Any]:
    made: dict[str, Any] = {"find": rule.find, "to": rule.to}
    return made | ({"regex": True} if rule.regex else {}) | ({} if rule.enabled else {"enabled": False})


def _edit_json(edit: FieldEdit, *, plain: bool) -> dict[str, Any]:
    if edit.value is None:
        return {"name": edit.name, "remove": True}
    return {"name": edit.name, "value": edit.value if plain else json_value(edit)}


def _policy_field(name: str, value: Any) -> Any:
    if name in _SETS or name == "section":
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise _wrong(f"`{name}` has to be a list of texts")
        return tuple(value) if name == "section" else frozenset(value)
    if name == "key_rules":
        return tuple(_rule(each) for each in _objects(name, value))
    if name in _EDITS:
        return tuple(_edit(each, plain=name == "metadata_edits") for each in _objects(name, value))
    return _plain(name, value, Policy)


def _objects(name: str, value: Any) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise _wrong(f"`{name}` has to be a list of objects")
    return value


def _rule(made: Mapping[str, Any]) -> KeyRule:
    find, to = made.get("find", ""), made.get("to", "")
    regex, enabled = made.get("regex", False), made.get("enabled", True)
    if not (isinstance(find, str) and isinstance(to, str) and isinstance(regex, bool) and isinstance(enabled, bool)):
        raise _wrong("A rule has the texts `find` and `to`, and `regex` and `enabled`, which are true or false")
    return KeyRule(find, to, regex, enabled)


def _edit(made: Mapping[str, Any], *, plain: bool) -> FieldEdit:
    name, value = made.get("name"), made.get("value")
    if not isinstance(name, str) or ("value" in made) == (made.get("remove") is True):
        raise _wrong("A change has a `name`, and a `value` or `remove`")
    if made.get("remove") is True:
        return FieldEdit(name, None)
    if plain and not isinstance(value, str):
        raise _wrong(f"The value of `{safe_text(name, 60)}` in the metadata has to be a text")
    return FieldEdit(name, value if plain and isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _plain(name: str, value: Any, kind: type[Policy | Target]) -> Any:
    known = {each.name for each in dataclasses.fields(kind)}
    if name not in known or name not in _TYPES:
        raise _wrong(f"It has the field `{safe_text(name, 60)}`, which this program does not know")
    if not isinstance(value, _TYPES[name]) or (isinstance(value, bool) and bool not in _TYPES[name]):
        raise _wrong(f"`{name}` has a value of another kind")
    return value


def _wrong(reason: str, path: str | os.PathLike[str] | None = None) -> CheckpointError:
    text = f"This is no fix plan. {reason}."
    return CheckpointError("plan-invalid", text, path=str(path) if path is not None else None)
