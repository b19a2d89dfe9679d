"""Write a checkpoint, mended and verified, into a new folder.

The source is never changed. Everything that will be done is printed before the first byte is written, and a run that is
refused, fails or is stopped leaves nothing behind.
"""

from __future__ import annotations

import argparse
from concurrent.futures import Executor
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from ckpt_gui import dataclasses
from ckpt_gui.cli import many
from ckpt_gui.cli.edit_options import add_metadata_option, decide
from ckpt_gui.cli.fix_output import announce, left_sentence, refusal, refuse, tell_written, write_report
from ckpt_gui.cli.options import (
    add_model_options,
    belonging,
    count,
    layout,
    out_folder,
    policy,
    protected,
    report_file,
    size,
    threads,
)
from ckpt_gui.cli.parser import place
from ckpt_gui.cli.terminal import (
    CANCELLED,
    OK,
    TROUBLE,
    USAGE,
    Stop,
    progress_bar,
    say,
    say_error,
    show,
    stoppable,
    width,
    write_file,
)
from ckpt_gui.core.api import merged, open_adapter, read_base
from ckpt_gui.core.beside import Sidecars
from ckpt_gui.core.errors import CheckpointError, Finding
from ckpt_gui.core.export import Export, Target
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.normalise import understand
from ckpt_gui.core.plan_file import plan_text
from ckpt_gui.core.policy import TIE_CHOICES, Policy
from ckpt_gui.core.report import export_document, failure_document, failure_json, sarif
from ckpt_gui.core.report.as_file import report_text
from ckpt_gui.core.retarget import retarget
from ckpt_gui.core.source import Source
from ckpt_gui.core.text import Style, plain

MEANT = {OK: "written and verified", TROUBLE: "refused or failed", USAGE: "unreadable", CANCELLED: "stopped"}
ONE_ONLY = ("--report", "--take", "--adapter", "--overwrite")
LOSSES = ("truncated", "damaged", "missing-tensor", "shard-missing")  # what salvaging goes on in spite of

SALVAGED = "With --salvage the export goes on without them: it holds what is left, and is no whole model."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `fix`."""
    parser.epilog = "exit status: 0 written and verified, 1 refused or failed, 2 unreadable, 130 stopped"
    parser.add_argument(
        "path",
        metavar="PATH",
        nargs="+",
        type=place,
        help="file, folder, index file, or its address; of several, each gets a folder in OUT",
    )
    parser.add_argument("-o", "--out", metavar="OUT", type=out_folder, help="the folder to write; absent or empty")
    parser.add_argument(
        "--to",
        metavar="LAYOUT",
        type=layout,
        help="hf, meta, torchtune, litgpt, gpt-fast, torchtitan, …, or same (the default)",
    )
    parser.add_argument(
        "--format", choices=("safetensors", "torch"), help="container; by default the layout's usual one"
    )
    parser.add_argument("--dtype", choices=("keep", "bf16", "fp16", "fp32"), help="element type; kept by default")
    parser.add_argument("--max-shard-size", metavar="SIZE", type=size, help="such as 500MB; 5GB by default")
    parser.add_argument(
        "--tie",
        choices=TIE_CHOICES,
        help="the output head: as the target wants it, keep a stored one, drop an equal one, always write one, or none "
        "for a model that has none",
    )
    parser.add_argument(
        "--model-parallel", metavar="N", type=count, help="cut Meta's files for N tensor-parallel ranks (--to meta)"
    )
    parser.add_argument(
        "--adapter", metavar="DIR", type=place, help="a LoRA adapter (folder or file) to merge into PATH"
    )
    parser.add_argument(
        "--base", metavar="DIR", type=place, help="folder with config, tokenizer and generation files to carry"
    )
    parser.add_argument("--dry-run", action="store_true", help="print every old and new name and write nothing")
    parser.add_argument(
        "--salvage", action="store_true", help="write what is whole of a damaged file, into a folder named -partial"
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="replace a folder of files; one that holds folders is kept"
    )
    parser.add_argument(
        "--resume", action="store_true", help="go on with an interrupted export to OUT: files that are whole are kept"
    )
    parser.add_argument(
        "--nice",
        action="store_true",
        help="leave the machine to others: one thread, pauses, low priority (takes longer)",
    )
    parser.add_argument("--sha256", action="store_true", help="put the SHA-256 of each file into EXPORT_REPORT.json")
    parser.add_argument("--report", metavar="FILE", type=report_file, help="write a report (html, md, json, sarif)")
    parser.add_argument(
        "-j", "--jobs", metavar="N", type=threads, default=2, help="threads that read and write (2), or all"
    )
    parser.add_argument(
        "--cluster",
        metavar="URL",
        help="write the files on a cluster: dask://HOST:PORT, dask+file:FILE, mpi: or processes:N",
    )
    add_metadata_option(parser)
    add_model_options(parser)


def run(args: argparse.Namespace) -> int:
    """Write each path; of several, each into a folder of its own below OUT."""
    if len(args.path) == 1:
        return _run(argparse.Namespace(**(vars(args) | {"path": args.path[0]})))
    if many.refused(args, "fix", ONE_ONLY):
        return USAGE
    if args.out is None:
        return many.each(args, MEANT, _run)
    return many.each(args, MEANT, _run, out=many.folders(args))


def _run(args: argparse.Namespace) -> int:
    """Open, understand, show the steps, write."""
    if args.out is None and not args.dry_run:
        say("fix: name the folder to write with -o OUT, or look first with --dry-run.")
        return USAGE
    if args.salvage and args.out is not None:
        args.out = partial_name(args.out)
    try:
        if args.cluster is not None:
            from ckpt_gui.core.clusters import check_address

            check_address(args.cluster)  # before the steps are shown, and minutes are spent on a comparison
        decided = decide(args)
        base = read_base(args.base)
        with progress_bar() as progress:
            source = open_checkpoint(
                args.path, config=args.config, salvage=args.salvage, take=args.take, progress=progress
            )
        adapter = None if args.adapter is None else open_adapter(args.adapter)
    except CheckpointError as error:
        return _unreadable(args, error)
    with source, adapter or nullcontext(), stoppable() as stopped:
        try:
            export = plan_export(source, args, decided, base, stopped, adapter)
        except CheckpointError as error:
            if adapter is None:
                raise
            say_error(error)
            return TROUBLE
        return _dry_run(args, export) if args.dry_run else _write(args, export, stopped)


def plan_export(
    source: Source,
    args: argparse.Namespace,
    decided: Policy,
    base: Sidecars | None,
    stopped: Stop,
    adapter: Source | None = None,
) -> Export:
    """Return the export that is asked for, the pair compared to its end and an adapter merged.

    Raises:
        CheckpointError: The adapter does not fit.
    """
    with progress_bar() as progress:
        plan = understand(source, policy(source, args, decided, args.tie), progress=progress, cancelled=stopped)
    metadata = tuple(args.set_metadata)
    target = Target(args.to, args.format, args.dtype, args.max_shard_size, base, args.model_parallel, metadata)
    if args.save_plan:
        write_file(args.save_plan, plan_text(plan.policy, target, args.adapter), protected(source))
    if adapter is not None:
        plan = merged(plan, adapter, base, args.lora_alpha)
    export = retarget(plan, target)
    return salvaged(export) if args.salvage else export


def salvaged(export: Export) -> Export:
    """Let an export go on without the tensors that a damaged file has lost; its findings still tell of them."""
    return dataclasses.replace(export, findings=tuple(_gone_on(finding) for finding in export.findings))


def _gone_on(finding: Finding) -> Finding:
    """Return what is said of a loss that salvaging goes on in spite of; any other finding as it is."""
    if not finding.blocking or finding.code not in LOSSES:
        return finding
    fix = SALVAGED if finding.code == "missing-tensor" else finding.fix
    return finding.replace(blocking=False, fix=fix)


def partial_name(folder: str) -> str:
    """Return a folder's name that says that it holds a part of a model.

    >>> partial_name("out/model"), partial_name("model-partial")
    ('out/model-partial', 'model-partial')
    """
    whole = folder.rstrip("/\\")
    return whole if whole.endswith("-partial") else f"{whole}-partial"


def _unreadable(args: argparse.Namespace, error: CheckpointError) -> int:
    say_error(error)
    if args.report:
        document, value = failure_document(args.path, error), failure_json(args.path, error)
        log = sarif(args.path, (error.as_finding(),))
        write_file(args.report, report_text(args.report, document, value, log), belonging(args.path))
    return USAGE


# ------------------------------------------------------------------------------------------------------------ dry run


def _dry_run(args: argparse.Namespace, export: Export) -> int:
    """Print everything that would happen; the status says whether it could."""
    names, refused = _could_write(args, export)
    verdict = "Nothing was written: this is a dry run. The export can be made." if refused is None else refused
    style: Style = "good" if refused is None else "error"
    show(plain(export_document(export, verdict, style, names), width()))
    write_report(args, export, "possible" if refused is None else "refused", verdict, style, names)
    return OK if refused is None else TROUBLE


def _could_write(args: argparse.Namespace, export: Export) -> tuple[tuple[str, ...], str | None]:
    """Return the files of weights, and why the export would be refused."""
    if export.blocked:
        return (), refusal(export)
    from ckpt_gui.core.out_files import plan_files
    from ckpt_gui.core.room import room_for
    from ckpt_gui.core.target_folder import check_target

    try:
        files, texts = plan_files(export)
        if args.out is not None:
            target, source = Path(args.out), export.plan.source
            check_target(target, source, overwrite=args.overwrite, nbytes=room_for(files, source, target))
    except CheckpointError as error:
        return (), f"Refused: {error.message}" + (f" {error.fix}" if error.fix else "")
    return (*(file.name for file in files), *texts), None


# -------------------------------------------------------------------------------------------------------------- write


def _write(args: argparse.Namespace, export: Export, stopped: Stop) -> int:
    """Show the steps, write, and say what came of it."""
    announce(export)
    if export.blocked:
        return refuse(args, export)
    from ckpt_gui.core.journal import interrupted
    from ckpt_gui.core.leftovers import abandoned
    from ckpt_gui.core.niceness import lower_priority
    from ckpt_gui.core.writer import write_export

    going_on = interrupted(Path(args.out).absolute()) if args.resume else None
    for found in abandoned(Path(args.out)):
        if going_on is None or found.path != going_on.leftover.path:
            say(left_sentence(found))
    if args.nice:
        lower_priority()
    try:
        with _executor(args) as executor, progress_bar() as progress:
            result = write_export(
                export,
                args.out,
                overwrite=args.overwrite,
                workers=1 if args.nice else args.jobs,
                progress=progress,
                cancelled=stopped,
                sha256=args.sha256,
                resume=args.resume,
                nice=args.nice,
                executor=executor,
            )
    except CheckpointError as error:
        say_error(error)
        write_report(args, export, "failed", f"Failed: {error.message}", "error")
        return TROUBLE
    tell_written(args, export, result)
    if args.resume and going_on is None:
        say("There was nothing to go on with: all of it was written anew.")
    return OK


def _executor(args: argparse.Namespace) -> AbstractContextManager[Executor | None]:
    """Return the cluster that is asked for; without one the files are written here."""
    if args.cluster is None:
        return nullcontext()
    from ckpt_gui.core.clusters import cluster

    return cluster(args.cluster, say)
