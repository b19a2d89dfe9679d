"""Compare two checkpoints: names, shapes and types, and values where they are asked for.

The two may be stored in different layouts and containers; a config.json or a published model's name stands for names
and shapes. Nothing is written but the reports that are asked for.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ckpt_gui.cli.options import belonging, protected, report_file, size, threads
from ckpt_gui.cli.parser import place
from ckpt_gui.cli.terminal import (
    CANCELLED,
    OK,
    TROUBLE,
    USAGE,
    Progress,
    Stop,
    progress_bar,
    say_error,
    show,
    stoppable,
    width,
    write_file,
    write_json,
)
from ckpt_gui.core.compare import STATES, Comparison, Row, Side, compare, opened_sides, with_ranks
from ckpt_gui.core.compare.choose import fitting, named, passing
from ckpt_gui.core.compare.findings import diff_findings
from ckpt_gui.core.compare.matching import match
from ckpt_gui.core.errors import Cancelled, CheckpointError
from ckpt_gui.core.filtering import Query, read_query
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.report import diff_document, diff_failure_document, diff_failure_json, diff_json, sarif
from ckpt_gui.core.report.as_file import report_text
from ckpt_gui.core.text import Figure, plain

EXIT = {True: OK, False: TROUBLE, None: USAGE}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `diff`."""
    parser.epilog = "exit status: 0 same, 1 different, 2 trouble, 130 stopped (what was compared by then is printed)"
    what = "a checkpoint, a config.json, or a known model such as Llama-3.2-1B"
    parser.add_argument("a", metavar="A", type=place, help=f"the older one, or the base: {what}")
    parser.add_argument("b", metavar="B", type=place, help="the newer one")
    parser.add_argument("--values", action="store_true", help="compare values, too")
    parser.add_argument(
        "--filter", metavar="TEXT", action="append", default=[],
        help="compare only tensors that pass this, such as 'layer:0-7 dtype:bf16 !norm'; several are alternatives",
    )  # fmt: skip
    parser.add_argument(
        "--only", metavar="STATE", action="append", default=[], choices=STATES,
        help=f"show only tensors in this state ({', '.join(STATES)}); by default all that are not the same",
    )  # fmt: skip
    parser.add_argument(
        "--rank", metavar="KEY", action="append", default=[], help="estimate the rank of the change of this tensor"
    )
    parser.add_argument(
        "--rank-of", metavar="GLOB", action="append", default=[], help="the same, such as '*.q_proj.weight'"
    )
    parser.add_argument("--json", metavar="FILE", help="write the result as JSON (schema 1); - is standard output")
    parser.add_argument("--report", metavar="FILE", type=report_file, help="write a report (html, md, json, sarif)")
    parser.add_argument(
        "--budget",
        metavar="BYTES",
        type=size,
        help="read no more than this for values, such as 10GB; what does not fit is left out",
    )
    parser.add_argument("-j", "--jobs", metavar="N", type=threads, default=2, help="threads that compare (2), or all")


def run(args: argparse.Namespace) -> int:
    """Open, compare, say how the two differ."""
    try:
        queries = [read_query(text, STATES) for text in args.filter]
        with stoppable() as stopped, progress_bar() as progress:
            sides = opened_sides(args.a, args.b, values=args.values, progress=progress, cancelled=stopped)
            with sides as (a, b):
                compared = _compare(args, queries, a, b, progress, stopped)
                figures = _pictures(args, compared, progress)
    except CheckpointError as error:
        return _trouble(args, error)
    _report(args, queries, compared, figures)
    return CANCELLED if compared.stopped else EXIT[compared.same]


def _compare(
    args: argparse.Namespace, queries: Sequence[Query], a: Side, b: Side, progress: Progress | None, stopped: Stop
) -> Comparison:
    """Compare what is asked for; when it is stopped, what is compared by then counts."""
    begun = _chosen(match(a, b), queries)
    compared = compare(
        a, b, values=args.values, budget=args.budget, workers=args.jobs, progress=progress, cancelled=stopped,
        begun=begun,
    )  # fmt: skip
    if compared.stopped or not (rows := _for_ranks(compared.rows, args)):
        return compared
    try:
        return with_ranks(compared, rows, progress=progress, cancelled=stopped)
    except Cancelled:
        return compared.replace(stopped=True)


def _chosen(rows: Sequence[Row], queries: Sequence[Query]) -> tuple[Row, ...]:
    """Return the rows that are to be compared: what a filter asks of their states is known only then."""
    chosen = passing(rows, [query.without_states() for query in queries])
    if rows and not chosen:
        texts = " or ".join(query.text for query in queries)
        raise CheckpointError("missing-tensor", f"No tensor passes the filter {safe_text(texts)}.")
    return chosen


def _for_ranks(rows: Sequence[Row], args: argparse.Namespace) -> tuple[Row, ...]:
    """Return the rows whose change is to be looked at: those named, and of those that fit a pattern the matrices."""
    wanted: dict[str, Row] = {}
    for key in args.rank:
        row = named(rows, key)
        if row is None:
            raise CheckpointError("missing-tensor", f"There is no tensor `{safe_text(key)}` on either side.")
        wanted[row.key] = row
    for pattern in args.rank_of:
        found = [r for r in fitting(rows, pattern) if r.a and r.b and r.a.shape == r.b.shape and len(r.a.shape) == 2]
        if not found:
            raise CheckpointError("missing-tensor", f"No matrix of both sides fits {safe_text(pattern)}.")
        wanted |= {row.key: row for row in found}
    return tuple(wanted.values())


def _pictures(args: argparse.Namespace, compared: Comparison, progress: Progress | None) -> tuple[Figure, ...]:
    """Return the pictures of a page: only there can they be seen."""
    if compared.stopped or not (args.report or "").lower().endswith(".html"):
        return ()
    from ckpt_gui.core.report.pictures import changed_picture

    return changed_picture(compared, progress=progress)


def _report(
    args: argparse.Namespace, queries: Sequence[Query], compared: Comparison, figures: tuple[Figure, ...]
) -> None:
    rows = passing(compared.rows, queries)
    listed = [row for row in rows if row.state in args.only] if args.only else list(rows)
    chosen = bool(args.only) or any(query.states for query in queries)
    kept = (*_files(compared.a), *_files(compared.b))
    findings = diff_findings(compared)
    value = diff_json(compared, listed, findings)
    document = diff_document(compared, [r for r in listed if chosen or not r.is_same], findings, figures)
    write_json(args.json, value, kept)
    if args.json != "-":
        show(plain(document, width()))
    if args.report:
        write_file(args.report, report_text(args.report, document, value, sarif(args.a, findings)), kept)


def _files(side: Side) -> tuple[str, ...]:
    """Return the files that no report may overwrite."""
    return protected(side.plan.source) if side.plan is not None else (side.name,)


def _trouble(args: argparse.Namespace, error: CheckpointError) -> int:
    say_error(error)
    value = diff_failure_json(args.a, args.b, error)
    kept = (*belonging(args.a), *belonging(args.b))
    write_json(args.json, value, kept)
    if args.report:
        document = diff_failure_document(args.a, args.b, error)
        text = report_text(args.report, document, value, sarif(args.a, (error.as_finding(),)))
        write_file(args.report, text, kept)
    return USAGE
