"""What `fix` says: before it writes, when it is refused, and of what was written; on the terminal and in its report."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from ckpt_gui.cli.options import protected
from ckpt_gui.cli.terminal import TROUBLE, say, show, width, write_file
from ckpt_gui.core.errors import worst_first
from ckpt_gui.core.export import Export
from ckpt_gui.core.report import (
    Outcome,
    export_json,
    export_page,
    missing_for_use,
    sarif,
    step_texts,
    use_sentences,
    written_sentence,
)
from ckpt_gui.core.report.as_file import report_text
from ckpt_gui.core.text import Line, Section, Style, human_bytes, plain_item, plain_section, plural, shown, wrap

if TYPE_CHECKING:
    from ckpt_gui.core.leftovers import Leftover
    from ckpt_gui.core.writer import WriteResult


def refusal(export: Export) -> str:
    """Return the sentence about an export that findings block."""
    count = len(export.blocked)
    return (
        f"Refused: {'one finding' if count == 1 else f'{count} findings'} must be settled first; nothing was written."
    )


def left_sentence(found: Leftover) -> str:
    """Return the sentence about what a killed export has left."""
    where = f"{shown(str(found.path))} ({human_bytes(found.nbytes)})"
    if found.is_old:
        return f"an export that was killed has left {where}: what stood at {shown(found.target)} before it."
    from ckpt_gui.core.journal import read_journal

    if (going_on := read_journal(found)) is not None and going_on.done:
        files = plural(len(going_on.done), "whole file")
        return f"an export that was killed has left {where}, with {files}: --resume goes on with it, this does not."
    return f"an export that was killed has left {where}; it is no use any more and can be removed."


def announce(export: Export) -> None:
    """Print what will be done and what should be known before it is, on standard error."""
    show(plain_section(Section("Steps", step_texts(export.steps)), width()), sys.stderr)
    at_the_end = (*export.blocked, *missing_for_use(export))
    known = tuple(f for f in worst_first(export.findings) if f not in at_the_end)
    if known:
        show(plain_section(Section("Findings", known), width()), sys.stderr)


def refuse(args: argparse.Namespace, export: Export) -> int:
    """Tell the findings that block an export, and return the status of a refusal."""
    for finding in worst_first(export.blocked):
        show(plain_item(finding, width()), sys.stderr)
    verdict = refusal(export)
    say(verdict)
    write_report(args, export, "refused", verdict, "error")
    return TROUBLE


def tell_written(args: argparse.Namespace, export: Export, result: WriteResult) -> None:
    """Say what was written, what it still lacks, and how it is used."""
    sentence = written_sentence(result.folder, result.verified, result.tensors, result.nbytes, result.seconds)
    lines = [Line(text, "good") for text in wrap(sentence, width())]
    for name in result.files:
        lines.append(Line(f"  {shown(name)}"))
    more = [f.message + (f" {f.fix}" if f.fix else "") for f in missing_for_use(export)]
    if result.resumed:
        more.append(f"{plural(result.resumed, 'file')} of the interrupted export were whole, and kept.")
    if result.shared:
        more.append(f"{human_bytes(result.shared)} take no room of their own: the disk's blocks are the source's, too.")
    if result.overflow:
        more.append(f"{result.overflow:,} finite values became infinite in the cast to {args.dtype}.")
    more += use_sentences(result.report.get("use_with") or {})
    more += [f"Left out: {name}." for name in export.left_out]
    for text in more:
        lines += [Line(line) for line in wrap(text, width())]
    show(lines)
    numbers = {"folder": result.folder, "files": list(result.files), "tensors": result.tensors}
    numbers |= {"verified": result.verified, "bytes": result.nbytes, "overflow": result.overflow}
    write_report(args, export, "written", sentence, "good", result.files, numbers)


def write_report(
    args: argparse.Namespace,
    export: Export,
    outcome: Outcome,
    verdict: str,
    style: Style,
    files: tuple[str, ...] = (),
    result: dict[str, object] | None = None,
) -> None:
    """Write the report that was asked for, if one was.

    Args:
        args: The command line.
        export: What was to be written.
        outcome: What came of it, in one word.
        verdict: The same in a sentence.
        style: How that is to look.
        files: Names of the files that were or would be written.
        result: Figures of what was written.
    """
    if not args.report:
        return
    document = export_page(export, verdict, style, files)
    text = report_text(args.report, document, export_json(export, outcome, result), sarif(args.path, export.findings))
    write_file(args.report, text, protected(export.plan.source))
