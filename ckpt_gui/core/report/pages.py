"""Reports of `check` and `fix` for files: what the terminal shows, and the tree of differences, the plan, pictures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ckpt_gui import dataclasses
from ckpt_gui.core.diffing import diff_expected
from ckpt_gui.core.export import Export, Target
from ckpt_gui.core.plan import Plan
from ckpt_gui.core.report.check_report import check_document, next_export
from ckpt_gui.core.report.expected_tree import expected_tree
from ckpt_gui.core.report.export_report import export_document, plan_sections
from ckpt_gui.core.retarget import retarget
from ckpt_gui.core.text import Document, Figure, Section, Style

if TYPE_CHECKING:
    from ckpt_gui.core.against import Against
    from ckpt_gui.core.scan import Scan


def check_page(
    plan: Plan, beside: Against | None = None, scanned: Scan | None = None, figures: Sequence[Figure] = ()
) -> Document:
    """Return the report of `check` for a file.

    Args:
        plan: The checkpoint.
        beside: What it was compared with.
        scanned: What was found in its values.
        figures: Pictures of its numbers.
    """
    short = check_document(plan, beside, scanned)
    differences = expected_tree(diff_expected(retarget(plan, Target("same")))) if plan.layout is not None else ()
    export = next_export(plan)
    more = [
        Section("Not as expected", differences),
        *(plan_sections(export, "What fix does: ") if export is not None else ()),
        Section("Pictures", tuple(figures)),
    ]
    return dataclasses.replace(short, sections=(*short.sections, *(s for s in more if s.items)))


def export_page(export: Export, verdict: str, style: Style = "", files: Iterable[str] = ()) -> Document:
    """Return the report of `fix` for a file; the arguments are those of `export_document`."""
    short = export_document(export, verdict, style, files)
    tree = Section("Source beside export", expected_tree(diff_expected(export)))
    return dataclasses.replace(short, sections=(*short.sections, tree)) if tree.items else short
