"""List the models that are known and the layouts in which each is read and written."""

from __future__ import annotations

import argparse
from typing import Any

from ckpt_gui.cli.terminal import OK, show, write_json
from ckpt_gui.core.families.registry import FAMILIES, LAYOUTS
from ckpt_gui.core.families.schema import Family
from ckpt_gui.core.text import Line

SCHEMA = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `families`."""
    parser.add_argument("--json", metavar="FILE", help="write the list as JSON; - is standard output")


def run(args: argparse.Namespace) -> int:
    """Print the table."""
    write_json(args.json, {"schema": SCHEMA, "families": [as_json(family) for family in FAMILIES]})
    if args.json != "-":
        show(table())
    return OK


def as_json(family: Family) -> dict[str, Any]:
    """Return what is known of a family."""
    rows = dict(family.row_order)
    layouts = [
        {"name": x.name, "keys": len(x.rules), "row_order": rows.get(x.name), "source": x.source}
        for x in family.layouts
    ]
    return {
        "name": family.name, "title": family.title, "model_types": list(family.model_types),
        "architecture": family.architecture, "tied_by_default": family.tie_default, "layouts": layouts,
    }  # fmt: skip


def table() -> list[Line]:
    """Return the families with their layouts, a row each."""
    names = {family.name: ", ".join(family.model_types) for family in FAMILIES}
    first = max(len("family"), *(len(name) for name in names)) + 2
    second = max(len("model_type"), *(len(types) for types in names.values())) + 2
    head = f"{'family':<{first}}{'model_type':<{second}}" + "  ".join(LAYOUTS)
    lines = [Line(head, "heading")]
    for family in FAMILIES:
        marks = "  ".join(("✓" if family.layout(name) else "–").ljust(len(name)) for name in LAYOUTS)
        lines.append(Line(f"{family.name:<{first}}{names[family.name]:<{second}}{marks}".rstrip()))
    return lines
