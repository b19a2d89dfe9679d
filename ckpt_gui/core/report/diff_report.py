"""The report of `diff` in words: the two, the tree of differences, what has changed by role and layer."""

from __future__ import annotations

from collections.abc import Sequence

from ckpt_gui.core.compare import STATES, WORDS, Change, Comparison, Row, Side, by_layer, by_role
from ckpt_gui.core.errors import CheckpointError, Finding
from ckpt_gui.core.report.diff_tree import difference_tree, digits
from ckpt_gui.core.report.figures import bars
from ckpt_gui.core.report.opening import opening
from ckpt_gui.core.text import Document, Figure, Section, Style, Table, Text, plural

TOLD = (
    "rope-permuted",
    "values-reordered",
    "tensors-swapped",
    "values-unchecked",
)  # findings that say more than the tree does
CHANGED = "‖Δ‖/‖W‖"


def diff_document(
    compared: Comparison,
    rows: Sequence[Row],
    findings: Sequence[Finding] = (),
    figures: Sequence[Figure] = (),
) -> Document:
    """Return the report of `diff`.

    Args:
        compared: The comparison.
        rows: The rows to be shown in the tree.
        findings: What the comparison has found.
        figures: Pictures beside those that are made here.
    """
    told = tuple(f for f in findings if f.code in TOLD)
    sections = [
        Section("", tuple(Text(sentence) for sentence in sentences(compared))),
        Section("Tensors", difference_tree(rows)),
        Section("Findings", told),
        Section("What has changed, by role", _changes(compared, "role")),
        Section("What has changed, by layer", _changes(compared, "layer")),
        Section("Rank of the change", _ranks(compared)),
        Section("Configs (for information)", _configs(compared)),
        Section("Pictures", tuple(figures)),
    ]
    title = f"{compared.a.name} → {compared.b.name}"
    return Document(title, tuple(s for s in sections if s.items), *verdict(compared))


def diff_failure_document(a: str, b: str, error: CheckpointError) -> Document:
    """Return the report of a comparison that could not be made."""
    sections = (Section("", (error.as_finding(),)),)
    return Document(f"{a} → {b}", sections, "Not compared: one of the two can not be used as it is.", "error")


def sentences(compared: Comparison) -> tuple[str, ...]:
    """Say what the two are, and how their tensors compare."""
    counts = compared.counts
    told = [f"{counts[state]:,} {WORDS[state]}" for state in reversed(STATES) if counts.get(state)]
    total = plural(len(compared.rows), "tensor")
    summary = f"Of {total}: {', '.join(told)}." if told else "There is nothing to compare."
    return (f"A: {_side(compared.a)}", f"B: {_side(compared.b)}", summary)


def _side(side: Side) -> str:
    if side.plan is not None:
        return " ".join(opening(side.plan))
    family = f" ({side.family.title})" if side.family else ""
    what = "the published sizes of" if side.kind == "known" else "what its config tells,"
    return f"{what} `{side.name}`{family}, {plural(len(side.tensors), 'tensor')}."


def verdict(compared: Comparison) -> tuple[str, Style]:
    """Say in one sentence whether the two are the same, and in which respects."""
    counts = compared.counts
    if compared.same is True:
        return _same(compared), "good"
    if compared.same is None:
        unread = counts.get("unread", 0)
        stopped = "Stopped: " if compared.stopped else ""
        text = f"{stopped}no difference was found so far, but {plural(unread, 'tensor')} could not be compared."
        return text[:1].upper() + text[1:], "warning"
    number = sum(1 for row in compared.rows if not row.is_same and row.state != "unread")
    more = "" if compared.values else " Values were not compared."
    more = f" Stopped: {counts.get('unread', 0):,} were not compared." if compared.stopped else more
    return f"Different: {number:,} of {plural(len(compared.rows), 'tensor')}.{more}", "warning"


def _same(compared: Comparison) -> str:
    if compared.values:
        return "Same: names, shapes, dtypes and values."
    if compared.a.kind != "checkpoint" or compared.b.kind != "checkpoint":
        return "Same: names and shapes; a config or a published size does not tell dtypes or values."
    return "Same: names, shapes and dtypes; values not compared."


def _changes(compared: Comparison, what: str) -> tuple[Table | Figure, ...]:
    if not compared.values or compared.same is True:
        return ()
    changes = by_role(compared.rows) if what == "role" else by_layer(compared.rows)
    # What is missing stands in the tree. A NaN that has come or gone has a share, and no length.
    changed = [c for c in changes if c.relative and (c.relative[-1] > 0 or c.share)]
    if not changed:
        return ()
    columns = (what, "different", f"{CHANGED} least", "median", "most", "elements changed")
    table = Table(columns, tuple(_change(c) for c in changed))
    measured = [c for c in changes if c.relative]
    names = [c.name if what == "role" else c.name.rpartition(".")[2] for c in measured]
    caption = f"Largest {CHANGED} by {what}"
    picture = bars(caption, names, [c.relative[4] for c in measured]) if what == "layer" else None
    return (table,) if picture is None else (table, picture)


def _change(change: Change) -> tuple[str, ...]:
    least, median, most = (digits(change.relative[i]) if change.relative else "" for i in (0, 2, 4))
    share = "" if change.share is None else "< 0.1%" if 0 < change.share < 0.001 else f"{change.share:.1%}"
    return (change.name, f"{change.different:,} of {change.tensors:,}", least, median, most, share)


def _ranks(compared: Comparison) -> tuple[Table | Text, ...]:
    if not compared.ranks:
        return ()
    rows = tuple(
        (
            r.key,
            " × ".join(f"{s:,}" for s in r.shape),
            f"{r.rank:,} or more" if r.at_least else f"{r.rank:,}",
            f"{r.energy:.1%}" if r.rank else "",
            digits(r.singular[0]) if r.singular else "",
            digits(r.tolerance),
        )
        for r in compared.ranks
    )
    table = Table(("tensor", "shape", "rank of ΔW", "of ‖ΔW‖²", "largest σ", "counted above"), rows)
    methods = dict.fromkeys(r.method for r in compared.ranks)
    text = (
        f"Method: {'; '.join(methods)}. A singular value counts above what rounding to the stored type can make; a "
        "change smaller than the rounding is not seen."
    )
    return (table, Text(text, "quiet"))


def _configs(compared: Comparison) -> tuple[Table, ...]:
    rows = tuple((c.name, c.a, c.b) for c in compared.config)
    return (Table(("", "A", "B"), rows),) if rows else ()
