"""List the models that are known, the layouts in which each is read and written, and what each was checked against."""

from __future__ import annotations

import argparse
from typing import Any

from ckpt_gui.cli.terminal import OK, show, write_json
from ckpt_gui.core.families.layouts import title_of
from ckpt_gui.core.families.registry import FAMILIES, LAYOUTS
from ckpt_gui.core.families.schema import Family, Oracle
from ckpt_gui.core.text import Line

SCHEMA = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `families`."""
    parser.add_argument("--json", metavar="FILE", help="write the list as JSON; - is standard output")
    parser.add_argument("--markdown", action="store_true", help="print it as a table in Markdown, as the README has it")


def run(args: argparse.Namespace) -> int:
    """Print the table."""
    write_json(args.json, {"schema": SCHEMA, "families": [as_json(family) for family in FAMILIES]})
    if args.markdown and args.json != "-":
        show([Line(line) for line in markdown()])
    elif args.json != "-":
        show(table())
    return OK


def as_json(family: Family) -> dict[str, Any]:
    """Return what is known of a family; every layout that has a table is read, written, and comes back the same."""
    rows = dict(family.row_order)
    layouts = [
        {
            "name": x.name, "title": title_of(x.name), "keys": len(x.rules), "row_order": rows.get(x.name),
            "head_always": x.head_always, "source": x.source, "read": True, "written": True,
            "round_trip": not x.leaves, "leaves_out": [what for _, what in x.leaves],
            "checked": x.oracle.name.lower(), "checked_against": x.oracle.value,
        }
        for x in family.layouts
    ]  # fmt: skip
    return {
        "name": family.name, "title": family.title, "model_types": list(family.model_types),
        "architecture": family.architecture, "tied_by_default": family.tie_default, "layouts": layouts,
    }  # fmt: skip


def _mark(family: Family, name: str, absent: str) -> str:
    layout = family.layout(name)
    return layout.oracle.letter if layout else absent


def legend() -> list[str]:
    """Return what the letters mean, a sentence each."""
    used = {layout.oracle for family in FAMILIES for layout in family.layouts}
    return [f"{oracle.letter}: {oracle.value}" for oracle in Oracle if oracle in used]


def table() -> list[Line]:
    """Return the families with their layouts, a row each."""
    names = {family.name: ", ".join(family.model_types) for family in FAMILIES}
    first = max(len("family"), *(len(name) for name in names)) + 2
    second = max(len("model_type"), *(len(types) for types in names.values())) + 2
    head = f"{'family':<{first}}{'model_type':<{second}}" + "  ".join(LAYOUTS)
    lines = [Line(head, "heading")]
    for family in FAMILIES:
        marks = "  ".join(_mark(family, name, "–").ljust(len(name)) for name in LAYOUTS)
        lines.append(Line(f"{family.name:<{first}}{names[family.name]:<{second}}{marks}".rstrip()))
    lines.append(Line(""))
    lines.append(
        Line("Every layout with a letter is read and written, and comes back byte for byte, but for parts of a")
    )
    lines.append(Line("model that it has no place for, which are told before. Checked against:"))
    return [*lines, *(Line(f"  {line}") for line in legend())]


def markdown() -> list[str]:
    """Return the table in Markdown, a line each."""
    lines = [
        "| family | `model_type` | " + " | ".join(title_of(name) for name in LAYOUTS) + " |",
        "|---|---" + "|:-:" * len(LAYOUTS) + "|",
    ]
    for family in FAMILIES:
        types = " ".join(f"`{name}`" for name in family.model_types)
        marks = " | ".join(_mark(family, name, "") for name in LAYOUTS)
        lines.append(f"| {family.title} | {types} | {marks} |")
    return [*lines, "", "; ".join(f"**{line[0]}**{line[1:]}" for line in legend()) + "."]
