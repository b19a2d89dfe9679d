"""Show the numbers in tensors: figures, values, pairs, layers, casts, and what weighs what.

A tensor is named as the file has it, with or without its section, or by its Hugging Face name.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ckpt_gui.cli.edit_options import decide
from ckpt_gui.cli.options import add_model_options, plot_file, policy, protected, threads
from ckpt_gui.cli.parser import place
from ckpt_gui.cli.stats_view import View, Work
from ckpt_gui.cli.terminal import OK, progress_bar, refuse_protected, show, stoppable, write_json, write_text
from ckpt_gui.core.entry import Entry
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.filtering import Query, Subject, read_query, subject
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.normalise import normalise
from ckpt_gui.core.plan import Plan
from ckpt_gui.core.tensors import TensorRef

if TYPE_CHECKING:
    from ckpt_gui.core.stats import StatsCache

SCHEMA = 1
BINS = 128


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `stats`."""
    parser.epilog = "without KEY and --pair: every tensor of the model. Ends with 0, or 2 if something can not be read"
    parser.add_argument("path", metavar="PATH", type=place, help="a file, a folder or an index file; or its address")
    parser.add_argument("keys", metavar="KEY", nargs="*", help="a tensor")
    what = parser.add_argument_group("what is shown, in place of figures").add_mutually_exclusive_group()
    what.add_argument(
        "--pair", metavar="KEY", nargs="*", help="compare two tensors; without names, the embedding and the output head"
    )
    what.add_argument("--overview", action="store_true", help="what weighs what; reads headers only")
    what.add_argument("--heat", action="store_true", help="a picture of one tensor, block by block")
    what.add_argument("--layers", action="store_true", help="the same matrix of all layers, for one tensor")
    what.add_argument("--cast", metavar="TYPE", help="what a cast of one tensor to bf16, fp16, fp32 or fp64 would do")
    parser.add_argument(
        "--filter", metavar="TEXT", help="of every tensor that passes this, such as 'part:attention layer:0-7 !norm'"
    )
    parser.add_argument("--values", metavar="INDEX", help="values of one tensor, such as '[0:4, :8]' or '[..., 5]'")
    parser.add_argument(
        "--token",
        metavar="TOKEN",
        help="values of a row of the embedding, by its number or the token's text; a token of digits as '\"5\"'",
    )
    out = parser.add_argument_group("where it goes")
    out.add_argument("--json", metavar="FILE", help="write the numbers as JSON; - is standard output")
    out.add_argument(
        "--csv", metavar="FILE", help="write the numbers as CSV (of one tensor, its histogram); - is standard output"
    )
    out.add_argument("--plot", metavar="FILE", type=plot_file, help="draw them, as .svg, .png or .pdf")
    out.add_argument("--dark", action="store_true", help="draw on a dark ground")
    parser.add_argument(
        "-j", "--jobs", dest="workers", metavar="N", type=threads, default=2, help="threads (2), or all"
    )
    parser.add_argument("--no-cache", action="store_true", help="read all bytes again, whatever is known of the file")
    add_model_options(parser)


def run(args: argparse.Namespace) -> int:
    """Read the tensors and print their numbers."""
    if args.pair is not None and len(args.pair) not in (0, 2):
        raise CheckpointError("missing-tensor", "--pair takes two tensors, or none for the embedding and the head.")
    query = _query(args)
    with open_checkpoint(args.path, config=args.config, take=args.take) as source:
        plan = normalise(source, policy(source, args, decide(args)))
        with stoppable() as stopped, progress_bar() as progress:
            view = _view(plan, args, query, Work(progress, stopped, _cache(args), args.workers))
        kept = protected(source)
        write_json(args.json, {"schema": SCHEMA, "path": args.path} | view.value, kept)
        if args.csv:
            from ckpt_gui.core.tables import csv_text

            write_text(args.csv, csv_text(view.table()), kept)
        if args.plot:
            _draw(view, args, kept)
        if "-" not in (args.json, args.csv):
            show(view.lines)
    return OK


def _cache(args: argparse.Namespace) -> StatsCache | None:
    if args.no_cache:
        return None
    from ckpt_gui.core.stats import StatsCache

    return StatsCache()


def _view(plan: Plan, args: argparse.Namespace, query: Query, work: Work) -> View:
    from ckpt_gui.cli import stats_figures, stats_views

    if args.overview:
        return stats_views.overview(plan)
    if args.pair is not None:
        return stats_figures.pair(plan, *_two(plan, args.pair), work)
    if args.token is not None:
        ref, row = stats_views.token_row(plan, args.token)
        inner = (args.values or "").strip().removeprefix("[").removesuffix("]")
        return stats_views.values(plan, ref, f"[{row}, {inner}]" if inner else f"[{row}]")
    if args.values is not None:
        return stats_views.values(plan, _only(plan, args.keys, "--values"), args.values)
    if args.heat:
        return stats_views.heat(plan, _only(plan, args.keys, "--heat"), work)
    if args.layers:
        return stats_views.layers(plan, _only(plan, args.keys, "--layers"), work)
    if args.cast:
        return stats_views.cast(plan, _only(plan, args.keys, "--cast"), args.cast, work)
    refs = [find(plan, key) for key in args.keys] or _passing(plan, query)
    drawn = len(args.keys) == 1 and (args.plot or args.csv)
    return stats_figures.tensors(plan, refs, work, bins=BINS if drawn else 0)


def _query(args: argparse.Namespace) -> Query:
    """Read the filter before anything is opened."""
    others = (args.overview, args.pair is not None, args.heat, args.layers, args.cast, args.values, args.token)
    if args.filter is not None and (args.keys or any(others)):
        raise CheckpointError("bad-filter", "--filter takes the place of KEY, and goes with figures only.")
    return read_query(args.filter or "")


def _passing(plan: Plan, query: Query) -> list[TensorRef]:
    entries = [entry for entry in plan.weights if query.matches(_subject(plan, entry))]
    if plan.weights and not entries:
        raise CheckpointError("missing-tensor", f"No tensor passes the filter {safe_text(query.text)}.")
    return [entry.ref for entry in entries]


def _subject(plan: Plan, entry: Entry) -> Subject:
    ref = entry.ref
    blocks = plan.source.blocks.get(ref.key)
    dtype = blocks.kind.lower() if blocks else ref.dtype
    return subject((ref.key, entry.key), "", dtype, ref.shape, ref.nbytes, ref.file)


def _draw(view: View, args: argparse.Namespace, kept: tuple[str, ...]) -> None:
    from ckpt_gui.plots import DARK, LIGHT, save_figure

    if view.draw is None:
        text = "There is a plot of one tensor, a pair, --heat, --layers or --cast."
        raise CheckpointError("target-refused", text, fix="Name one tensor.")
    refuse_protected(args.plot, kept)
    save_figure(view.draw(DARK if args.dark else LIGHT), Path(args.plot))


def _only(plan: Plan, keys: list[str], option: str) -> TensorRef:
    if len(keys) != 1:
        raise CheckpointError("missing-tensor", f"{option} takes one tensor, and {len(keys)} are named.")
    return find(plan, keys[0])


def find(plan: Plan, key: str) -> TensorRef:
    """Return the tensor that a key names: as stored, with its section, or by its hub name.

    Raises:
        CheckpointError: There is none.
    """
    weights = [entry.ref for entry in plan.weights]
    for ref in (*weights, *plan.source.refs):
        if key in (ref.key, ref.full_key):
            return ref
    for entry in plan.weights:
        if key == entry.key:
            return entry.ref
    raise CheckpointError(
        "missing-tensor", f"There is no tensor `{safe_text(key)}` here.{_nearest(plan, key)}", key=key
    )


def _nearest(plan: Plan, key: str) -> str:
    import difflib

    known = {ref.key: None for ref in plan.source.refs[:5000]}
    close = difflib.get_close_matches(key, known, n=2, cutoff=0.6)
    return f" Did you mean {' or '.join(f'`{safe_text(name)}`' for name in close)}?" if close else ""


def _two(plan: Plan, keys: list[str]) -> tuple[TensorRef, TensorRef]:
    if keys:
        return find(plan, keys[0]), find(plan, keys[1])
    if plan.tie.embedding is None or plan.tie.head is None:
        raise CheckpointError(
            "missing-tensor",
            "An embedding and an output head are not both stored here.",
            fix="Name two tensors with --pair A B.",
        )
    return plan.tie.embedding, plan.tie.head
