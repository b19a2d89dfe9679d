"""Options for what a user changes by hand, and for plans that were saved."""

from __future__ import annotations

import argparse

from ckpt_gui import dataclasses
from ckpt_gui.core.edits import FieldEdit, Rename
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.export import GB
from ckpt_gui.core.fields import as_value
from ckpt_gui.core.policy import Policy
from ckpt_gui.core.renames import as_rule, check_rule
from ckpt_gui.core.text import shown

# Options of `fix` that a plan may say, and what they are where neither it nor the command line says anything.
USUAL = {"to": "same", "format": None, "dtype": "keep", "max_shard_size": 5 * GB, "model_parallel": None, "base": None}
_OF_TARGET = {
    "to": "layout", "format": "container", "dtype": "dtype", "max_shard_size": "max_shard_bytes",
    "model_parallel": "model_parallel",
}  # fmt: skip


def add_edit_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for names and fields, and for a saved plan."""
    group = parser.add_argument_group("what you change by hand")
    group.add_argument(
        "--rename", metavar="OLD=NEW", type=rename, action="append", default=[], dest="renames",
        help="give a tensor another name before its layout is told; with {layer} in both, one of every layer; may be "
        "repeated",
    )  # fmt: skip
    group.add_argument(
        "--rename-re", metavar="PATTERN=NEW", type=rename_re, action="append", dest="renames",
        help="the same by a regular expression, with \\1 for its first group",
    )  # fmt: skip
    group.add_argument(
        "--set-config", metavar="FIELD[=VALUE]", type=config_edit, action="append", default=[],
        help="read config.json as if a field had this value; without a value it is taken out",
    )  # fmt: skip
    group.add_argument("--plan", metavar="FILE", help="decide as in this plan; other options come before it")


def add_metadata_option(parser: argparse.ArgumentParser) -> None:
    """Add what only an export has."""
    parser.add_argument(
        "--set-metadata", metavar="NAME[=TEXT]", type=metadata_edit, action="append", default=[],
        help="write this into the metadata of safetensors files; without a text it is taken out",
    )  # fmt: skip
    parser.add_argument("--save-plan", metavar="FILE", help="write what was decided into a plan for --plan")


def rename(text: str) -> Rename:
    """Read a rule such as `a.weight=b.weight` or `layers.{layer}.q=layers.{layer}.wq`."""
    old, _, new = text.partition("=")
    return _checked(as_rule(old, new))


def rename_re(text: str) -> Rename:
    """Read a rule by a regular expression; the last `=` parts the two, as a pattern may have one."""
    old, _, new = text.rpartition("=")
    return _checked(Rename(old, new, "regex"))


def config_edit(text: str) -> FieldEdit:
    """Read a field and its value: JSON, or a text."""
    name, equals, value = text.partition("=")
    return _named(name, as_value(value) if equals else None)


def metadata_edit(text: str) -> FieldEdit:
    """Read a name and its text."""
    name, equals, value = text.partition("=")
    return _named(name, value if equals else None)


def decide(args: argparse.Namespace) -> Policy:
    """Return the policy of the plan that is named, or the usual one; fill in what else it says of an export.

    Raises:
        CheckpointError: The plan can not be read.
    """
    saved = Policy()
    if args.plan is not None:
        from ckpt_gui.core.plan_file import read_plan

        plan = read_plan(args.plan)
        saved = plan.policy
        for name, field in _OF_TARGET.items():
            if getattr(args, name, ...) is None:
                setattr(args, name, getattr(plan.target, field))
        if getattr(args, "base", ...) is None:
            args.base = plan.base
        if getattr(args, "adapter", ...) is None:
            args.adapter = plan.adapter
        if hasattr(args, "set_metadata"):
            args.set_metadata = [*plan.target.metadata, *args.set_metadata]
    for name, usual in USUAL.items():
        if getattr(args, name, ...) is None:
            setattr(args, name, usual)
    renames, config = (*saved.renames, *(args.renames or ())), (*saved.config, *args.set_config)
    return dataclasses.replace(saved, renames=renames, config=config)


def _checked(rule: Rename) -> Rename:
    try:
        check_rule(rule)
    except CheckpointError as error:
        raise argparse.ArgumentTypeError(error.message.removesuffix(".")) from error
    return rule


def _named(name: str, value: str | None) -> FieldEdit:
    if not name:
        raise argparse.ArgumentTypeError(f"{shown('=' + (value or ''))} names no field")
    return FieldEdit(name, value)
