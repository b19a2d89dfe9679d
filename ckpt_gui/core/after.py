"""The tensors as an export will write them, row by row: what a plan leads to, before anything is written.

Read off the export and its diff, so that what is promised and what is written can not differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ckpt_gui.core.diff import Diff, Row
from ckpt_gui.core.entry import Entry
from ckpt_gui.core.export import Export
from ckpt_gui.core.keys import safe_text

_STAYING = ("error", "shape")  # states of a stored tensor that what is written of it has too
_SAME_NOTE = "as it is in the file"


def after_summary(export: Export, diff: Diff) -> str:
    """Return one line: how many of the tensors that will be written match, and what is missing or too much."""
    missing, extra, shape, clash = diff.counts.get("missing", 0), len(export.plan.unmapped), 0, 0
    if any(diff.counts.get(state) for state in _STAYING):
        counts = Counter(row.state for _, row in _written(export, diff))
        extra, shape, clash = counts["extra"], counts["shape"], counts["error"]
    parts = [f"{len(export.entries) - extra - shape - clash:,} match", f"{missing:,} missing", f"{extra:,} extra"]
    parts += [f"{shape:,} wrong shape"] if shape else []
    parts += [f"{clash:,} under one name"] if clash else []
    return " · ".join(parts)


def diff_after(export: Export, diff: Diff) -> Diff:
    """Return a row for every tensor that will be written, under its new name, and for each that is still missing.

    Args:
        export: What will be written.
        diff: The file beside the layout of that export.
    """
    carried = {id(d.ref) for d in export.beside}
    rows = [row for _, row in _written(export, diff)]
    rows += [row for row in diff.rows if row.ref is None or id(row.ref) in carried]
    return Diff(tuple(rows), Counter(row.state for row in rows))


def _written(export: Export, diff: Diff) -> Iterator[tuple[Entry, Row]]:
    """Yield each entry with the row that it will be."""
    loose = {id(e.ref) for e in export.plan.unmapped}
    wrong = {id(row.ref): row for row in diff.rows if row.state in _STAYING}
    for entry in export.entries:
        ref, spec = entry.ref, entry.output
        was = next((wrong[id(each)] for each in entry.inputs if id(each) in wrong), None) if wrong else None
        if was is not None:
            state, expected, note = was.state, was.expected_shape, was.note
        else:
            state, expected, note = "extra" if id(ref) in loose else "same", None, _origin(entry)
        name = "" if state == "extra" else spec.key
        yield entry, Row(state, spec.key, name, spec.shape, expected, spec.dtype, spec.nbytes, ref, note)


def _origin(entry: Entry) -> str:
    """Say what an entry is made of."""
    inputs = entry.inputs
    if len(inputs) > 1:
        return f"made of {len(inputs)} tensors: {', '.join(safe_text(ref.key, 60) for ref in inputs[:4])}"
    ops = "; ".join(op.describe({}) for op in entry.ops)
    name = f"from {safe_text(inputs[0].key, 200)}" if inputs[0].key != entry.key else _SAME_NOTE
    return f"{name}: {ops}" if ops else name
