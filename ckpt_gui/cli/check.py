"""Say what a checkpoint is and what is wrong with it.

Reads headers, and the bytes of the embedding and the output head, which decide whether the two are one; with --deep
every byte. Writes nothing.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from ckpt_gui import dataclasses
from ckpt_gui.cli import many
from ckpt_gui.cli.edit_options import decide
from ckpt_gui.cli.options import add_model_options, belonging, policy, protected, report_file, size, threads
from ckpt_gui.cli.parser import place
from ckpt_gui.cli.terminal import (
    OK,
    TROUBLE,
    USAGE,
    Progress,
    progress_bar,
    show,
    stoppable,
    width,
    write_file,
    write_json,
)
from ckpt_gui.core.against import Against, against
from ckpt_gui.core.errors import Cancelled, CheckpointError
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.formats.published import read_pointer, verify_pointer
from ckpt_gui.core.formats.verify import verify_checksums
from ckpt_gui.core.normalise import normalise, unasked, understand
from ckpt_gui.core.plan import Plan
from ckpt_gui.core.report import check_document, check_json, check_page, failure_document, failure_json, sarif
from ckpt_gui.core.report import status as plan_status
from ckpt_gui.core.report.as_file import report_text
from ckpt_gui.core.report.as_json import SCHEMA
from ckpt_gui.core.source import Source
from ckpt_gui.core.text import Document, Figure, plain

if TYPE_CHECKING:
    from ckpt_gui.core.scan import Scan

MEANT = {OK: "clean", TROUBLE: "not clean", USAGE: "unreadable"}
EXIT = {"clean": OK, "fixable": TROUBLE, "blocked": TROUBLE, "unreadable": USAGE}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `check`."""
    parser.epilog = "exit status: 0 clean, 1 fixable or blocked, 2 unreadable"
    parser.add_argument(
        "path",
        metavar="PATH",
        nargs="+",
        type=place,
        help="a file, a folder, an index file; its address; or several",
    )
    parser.add_argument(
        "--against",
        metavar="REF",
        type=place,
        help="compare with a checkpoint, a config.json, a known model such as Llama-3.2-1B, or a Git LFS pointer",
    )
    parser.add_argument("--json", metavar="FILE", help="write the result as JSON (schema 1); - is standard output")
    parser.add_argument("--report", metavar="FILE", type=report_file, help="write a report (html, md, json, sarif)")
    parser.add_argument(
        "--budget", metavar="BYTES", type=size, help="compare values only if it takes no more, such as 1GB"
    )
    parser.add_argument(
        "--deep", action="store_true", help="read every byte: compare checksums, and judge the values of each weight"
    )
    parser.add_argument(
        "-j", "--jobs", dest="workers", metavar="N", type=threads, default=2, help="threads of --deep (2), or all"
    )
    add_model_options(parser)


def run(args: argparse.Namespace) -> int:
    """Check each path and print what was found."""
    if len(args.path) == 1:
        return _run(argparse.Namespace(**(vars(args) | {"path": args.path[0], "found": None})))
    if many.refused(args, "check", ("--report", "--take")):
        return USAGE
    args.found = []
    status = many.each(args, MEANT, _run)
    if args.json:
        kept = tuple(name for path in args.path for name in belonging(path))
        write_json(args.json, {"schema": SCHEMA, "checkpoints": args.found}, kept)
    return status


def _run(args: argparse.Namespace) -> int:
    """Check one path; of several, its result is kept for the JSON of all."""
    try:
        with progress_bar() as progress:
            source = open_checkpoint(args.path, config=args.config, take=args.take, progress=progress)
    except CheckpointError as error:
        return _unreadable(args, error)
    with source:
        with progress_bar() as progress:
            plan = _understand(source, args, progress)
        numbers = _deep(plan, args) if args.deep else None
        if numbers is not None:
            plan = plan.found(*numbers.findings)
        if args.against is None:
            return _report(args, plan, numbers=numbers)
        pointer = read_pointer(args.against)
        try:
            with progress_bar() as progress:
                if pointer is not None:
                    plan = plan.found(*verify_pointer(source, args.against, pointer, progress))
                    return _report(args, plan, numbers=numbers)
                found = against(plan, args.against, budget=args.budget, progress=progress)
        except CheckpointError as error:
            return _unreadable(args, error)
        return _report(args, plan.found(*found.findings), found, numbers)


def _deep(plan: Plan, args: argparse.Namespace) -> Scan:
    """Read everything: what has a checksum, and every weight.

    Raises:
        Cancelled: The user asked for it.
    """
    from ckpt_gui.core.scan import scan

    with stoppable() as stopped, progress_bar() as progress:
        broken = verify_checksums(plan.source, progress, stopped)
        numbers = scan(plan, workers=args.workers, progress=progress, cancelled=stopped)
    if not numbers.complete:
        raise Cancelled
    return dataclasses.replace(numbers, findings=(*broken, *numbers.findings))


def _understand(source: Source, args: argparse.Namespace, progress: Progress | None) -> Plan:
    """Return the plan; bytes that can not be read become a finding that blocks."""
    wanted = policy(source, args, decide(args))
    try:
        return understand(source, wanted, budget=unasked(source, args.budget), progress=progress)
    except CheckpointError as error:
        return normalise(source, wanted).found(error.as_finding().replace(blocking=True))


def _unreadable(args: argparse.Namespace, error: CheckpointError) -> int:
    document, finding = failure_document(args.path, error), error.as_finding()
    value, kept = failure_json(args.path, error), belonging(args.path)
    _print(args, lambda: value, lambda: document, kept)
    if args.report:
        write_file(args.report, report_text(args.report, document, value, sarif(args.path, (finding,))), kept)
    return USAGE


def _report(args: argparse.Namespace, plan: Plan, beside: Against | None = None, numbers: Scan | None = None) -> int:
    kept = protected(plan.source)
    _print(args, lambda: check_json(plan, beside, numbers), lambda: check_document(plan, beside, numbers), kept)
    if args.report:
        page = check_page(plan, beside, numbers, _pictures(args, plan, numbers))
        log = sarif(args.path, plan.findings)
        write_file(args.report, report_text(args.report, page, check_json(plan, beside, numbers), log), kept)
    return EXIT[plan_status(plan)]


def _pictures(args: argparse.Namespace, plan: Plan, numbers: Scan | None) -> tuple[Figure, ...]:
    """Return the pictures of a page: only there can they be seen."""
    if not args.report.lower().endswith(".html"):
        return ()
    from ckpt_gui.core.report.pictures import layer_pictures, tied_picture

    with progress_bar() as progress:
        tied = tied_picture(plan, budget=args.budget, progress=progress)
    return (*tied, *(layer_pictures(numbers) if numbers is not None else ()))


def _print(
    args: argparse.Namespace,
    value: Callable[[], dict[str, object]],
    document: Callable[[], Document],
    kept: tuple[str, ...],
) -> None:
    if args.json and args.found is not None:
        args.found.append(value())
    elif args.json:
        write_json(args.json, value(), kept)
    if args.json != "-":
        show(plain(document(), width()))
