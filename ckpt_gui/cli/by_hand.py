"""Options for what is decided by hand: names, config fields, metadata, steps; and whole plans as files."""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any, TypeVar

from ckpt_gui.core.edits import FieldEdit, KeyRule, json_value, matcher
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.export import Target
from ckpt_gui.core.plan_file import PlanFile, read_plan
from ckpt_gui.core.policy import Policy
from ckpt_gui.core.tensors import Source, find_ref
from ckpt_gui.core.text import shown

Decided = TypeVar("Decided", Policy, Target)


def add_hand_options(parser: argparse.ArgumentParser) -> None:
    """Add what changes how a checkpoint is understood."""
    group = parser.add_argument_group("by hand")
    group.add_argument(
        "--rename",
        metavar=("KEY", "NAME"),
        nargs=2,
        dest="rules",
        action=_AddRule,
        const=False,
        default=(),
        help="read a key under another name; {layer} in both stands for a number; may be repeated",
    )
    group.add_argument(
        "--rename-regex",
        metavar=("FIND", "TO"),
        nargs=2,
        dest="rules",
        action=_AddRule,
        const=True,
        default=(),
        help="replace what a regular expression finds in keys; may be repeated",
    )
    group.add_argument(
        "--keep", metavar="KEY", action="append", default=[], help="carry this computed tensor along; may be repeated"
    )
    group.add_argument(
        "--set",
        metavar="FIELD=JSON",
        type=_config_edit,
        action="append",
        default=[],
        help="change a field of the config; a field without = is taken out; may be repeated",
    )


def add_plan_options(parser: argparse.ArgumentParser) -> None:
    """Add what changes how a checkpoint is written, and plans as files."""
    group = parser.add_argument_group("the plan")
    group.add_argument("--plan", metavar="FILE", help="do what a saved plan says; what is given beside it wins")
    group.add_argument("--save-plan", metavar="FILE", help="save the plan, to be used again with --plan")
    group.add_argument(
        "--skip", metavar="STEP", action="append", default=[], help="leave an optional step out, such as buffers"
    )
    group.add_argument(
        "--metadata",
        metavar="KEY=TEXT",
        type=_metadata_edit,
        action="append",
        default=[],
        help="change the metadata of safetensors files; a key without = is taken out; may be repeated",
    )


def hand_policy(source: Source, args: argparse.Namespace) -> dict[str, Any]:
    """Return the fields of a policy that the options give.

    Raises:
        CheckpointError: There is no such key.
    """
    found: dict[str, Any] = {
        "key_rules": tuple(args.rules),
        "kept": frozenset(find_ref(source, key).full_key for key in args.keep),
        "config_edits": tuple(args.set),
    }
    if "metadata" in args:
        found |= {"metadata_edits": tuple(args.metadata), "skip": frozenset(args.skip)}
    return found


def loaded_plan(args: argparse.Namespace) -> PlanFile | None:
    """Return the plan that the options name, and take its folders where none are given.

    Raises:
        CheckpointError: It is none.
    """
    if args.plan is None:
        return None
    plan = read_plan(args.plan)
    args.base, args.adapter = args.base or plan.base or None, args.adapter or plan.adapter or None
    return plan


def over_plan(plan: PlanFile | None, policy: Policy, target: Target) -> tuple[Policy, Target]:
    """Return the decisions of a plan, those given beside it in their place."""
    if plan is None:
        return policy, target
    return _over(plan.policy, policy, Policy()), _over(plan.target, target, Target())


def _over(under: Decided, given: Decided, usual: Decided) -> Decided:
    changed = {
        each.name: getattr(given, each.name)
        for each in dataclasses.fields(given)
        if getattr(given, each.name) != getattr(usual, each.name)
    }
    return dataclasses.replace(under, **changed)


class _AddRule(argparse.Action):
    """Collects the rules of both kinds in the order in which they are given."""

    def __call__(self, parser: argparse.ArgumentParser, args: argparse.Namespace, values: Any, *_: Any) -> None:
        """Add a rule."""
        rule = KeyRule(values[0], values[1], regex=bool(self.const))
        try:
            matcher(rule)
        except CheckpointError as error:
            raise argparse.ArgumentError(self, error.message) from error
        args.rules = (*args.rules, rule)


def _config_edit(text: str) -> FieldEdit:
    name, equals, value = text.partition("=")
    edit = FieldEdit(name, value if equals else None)
    if not name:
        raise argparse.ArgumentTypeError(f"{shown(text)} names no field")
    try:
        json_value(edit)
    except CheckpointError as error:
        raise argparse.ArgumentTypeError(error.message) from error
    return edit


def _metadata_edit(text: str) -> FieldEdit:
    name, equals, value = text.partition("=")
    if not name:
        raise argparse.ArgumentTypeError(f"{shown(text)} names no key")
    return FieldEdit(name, value if equals else None)
