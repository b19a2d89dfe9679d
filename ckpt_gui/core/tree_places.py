"""Where the rows of a diff stand in the tree of a file: one that is missing stands among its siblings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ckpt_gui.core.diff import Row
from ckpt_gui.core.export import Export
from ckpt_gui.core.passes.expectation import stored_name
from ckpt_gui.core.plan import Plan
from ckpt_gui.core.rows import paths_of


def tree_places(export: Export, rows: Sequence[Row]) -> list[str]:
    """Return where each row of an export's diff belongs in the tree of the file.

    A missing tensor stands among its siblings, under the name that the file would have given it, wrappers included,
    whatever it is called in the layout that the diff compares with.
    """
    plan = export.plan
    if plan.layout is None or not plan.missing:
        return paths_of(rows)
    written = export.layout or plan.layout
    names = {stored_name(written, spec.key): stored_name(plan.layout, spec.key) for spec in plan.missing}
    before = _wrapping(plan)
    return [row.path if row.ref is not None else before + names.get(row.expected, row.expected) for row in rows]


def _wrapping(plan: Plan) -> str:
    """Return what most keys of the file have before the layout's own names, such as `_orig_mod.`."""
    assert plan.layout is not None
    found: Counter[str] = Counter()
    for entry in plan.entries[:1000]:
        name = stored_name(plan.layout, entry.key)
        if entry.ref.key.endswith(name):
            found[entry.ref.key.removesuffix(name)] += 1
    return found.most_common(1)[0][0] if found else ""
