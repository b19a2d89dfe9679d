"""Show the numbers in tensors, and compare two of them element by element.

A tensor is named as the file has it, with or without its section, or by its Hugging Face name.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterable
from typing import Any

from ckpt_gui.cli.options import add_model_options, policy, protected
from ckpt_gui.cli.terminal import OK, Stop, progress_bar, show, stoppable, width, write_json
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.normalise import normalise
from ckpt_gui.core.plan import Plan
from ckpt_gui.core.tensors import TensorRef
from ckpt_gui.core.text import Line, shown, wrap

SCHEMA = 1
_FIGURES = ("min", "max", "mean", "std", "l2", "abs_max")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `stats`."""
    parser.epilog = "without KEY and --pair: every tensor of the model. Ends with 0, or 2 if something can not be read"
    parser.add_argument("path", metavar="PATH", help="a file, a folder or an index file")
    parser.add_argument("keys", metavar="KEY", nargs="*", help="a tensor")
    parser.add_argument(
        "--pair", metavar="KEY", nargs="*", help="compare two tensors; without names, the embedding and the output head"
    )
    parser.add_argument("--json", metavar="FILE", help="write the numbers as JSON; - is standard output")
    add_model_options(parser)


def run(args: argparse.Namespace) -> int:
    """Read the tensors and print their numbers."""
    if args.pair is not None and len(args.pair) not in (0, 2):
        raise CheckpointError("missing-tensor", "--pair takes two tensors, or none for the embedding and the head.")
    with open_checkpoint(args.path, config=args.config) as source, stoppable() as stopped:
        plan = normalise(source, policy(source, args))
        if args.pair is not None:
            value, lines = _pair(plan, *_two(plan, args.pair), stopped)
        else:
            value, lines = _tensors(plan, _wanted(plan, args.keys), stopped)
        write_json(args.json, {"schema": SCHEMA, "path": args.path} | value, protected(source))
        if args.json != "-":
            show(lines)
    return OK


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


def _wanted(plan: Plan, keys: list[str]) -> list[TensorRef]:
    return [find(plan, key) for key in keys] if keys else [entry.ref for entry in plan.weights]


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


def _tensors(plan: Plan, refs: Iterable[TensorRef], stopped: Stop) -> tuple[dict[str, Any], list[Line]]:
    from ckpt_gui.core.stats import tensor_stats

    with progress_bar() as progress:
        found = [tensor_stats(plan.source, ref, progress=progress, cancelled=stopped) for ref in refs]
    lines = [line for figures in found for line in _one(figures)]
    return {"tensors": [dataclasses.asdict(figures) for figures in found]}, lines


def _pair(plan: Plan, a: TensorRef, b: TensorRef, stopped: Stop) -> tuple[dict[str, Any], list[Line]]:
    from ckpt_gui.core.stats import pair_stats

    with progress_bar() as progress:
        pair = pair_stats(plan.source, a, b, progress=progress, cancelled=stopped)
    style: Any = "warning" if pair.relation == "different" else "good"
    lines = [Line(text, style) for text in wrap(f"{a.key} and {b.key}: {pair.text}.", width())]
    if pair.relation == "different" and pair.max_diff is not None:
        lines += [Line(f"  {text}") for text in _differences(pair)]
    return {"pair": dataclasses.asdict(pair)}, [*lines, *_one(pair.a), *_one(pair.b)]


def _differences(pair: Any) -> list[str]:
    texts = [f"largest difference {_number(pair.max_diff)}"]
    if pair.where is not None:
        texts[0] += f" at row {pair.where[0]:,}, column {pair.where[1]:,}"
    if pair.mean_diff is not None:
        texts.append(f"mean difference {_number(pair.mean_diff)}")
    if pair.cosine is not None:
        texts.append(f"cosine {pair.cosine:.9f}")
    return texts


def _one(figures: Any) -> list[Line]:
    """Return the lines of one tensor: its name, and its figures under it."""
    shape = " × ".join(f"{size:,}" for size in figures.shape) or "a single number"
    lines = [Line(f"{shown(figures.key)}   {figures.dtype}   {shape}", "heading")]
    if figures.reason:
        return [*lines, Line(f"  {shown(figures.reason)}", "quiet")]
    numbers = [(name, getattr(figures, name)) for name in _FIGURES]
    text = "   ".join(f"{name.replace('_', ' ')} {_number(value)}" for name, value in numbers if value is not None)
    lines.append(Line(f"  {text or 'no finite element'}"))
    special = {"zero": figures.zeros, "NaN": figures.nan, "+∞": figures.pos_inf, "−∞": figures.neg_inf}
    counted = ", ".join(f"{count:,} {name}" for name, count in special.items() if count)
    if counted:
        bad = figures.nan or figures.pos_inf or figures.neg_inf
        lines.append(Line(f"  of {figures.count:,} elements: {counted}", "warning" if bad else "quiet"))
    return lines


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"
