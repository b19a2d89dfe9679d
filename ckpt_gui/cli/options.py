"""Options that several commands share, and the words they are given in."""

from __future__ import annotations

import argparse
import os

from ckpt_gui import dataclasses
from ckpt_gui.cli.edit_options import add_edit_options
from ckpt_gui.cli.parser import place
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.policy import Policy
from ckpt_gui.core.source import Source, find_ref
from ckpt_gui.core.text import shown
from ckpt_gui.core.text.words import read_bytes


def size(text: str) -> int:
    """Read a number of bytes, such as `5GB`, `500MB`, `5GiB` or `1000000`.

    >>> size("5GB"), size("1.5 GiB"), size("4096")
    (5000000000, 1610612736, 4096)
    """
    try:
        return read_bytes(text)
    except CheckpointError as error:
        raise argparse.ArgumentTypeError(error.message.removesuffix(".")) from error


def count(text: str) -> int:
    """Read a whole number of one or more."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{shown(text)} is no whole number above 0")
    return int(text)


def threads(text: str) -> int:
    """Read how many threads are wanted: a number, or `all` for as many as there are cores."""
    if text.lower() != "all":
        try:
            return count(text)
        except argparse.ArgumentTypeError as error:
            raise argparse.ArgumentTypeError(f"{error}, and not `all`") from error
    from ckpt_gui.core.cores import every_core

    return every_core()


def alpha(text: str) -> float:
    """Read a number above 0.

    >>> alpha("16")
    16.0
    """
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{shown(text)} is no number above 0")
    return value


def layout(text: str) -> str:
    """Read the name of a layout that is written."""
    from ckpt_gui.core.families.registry import LAYOUTS

    if text not in (*LAYOUTS, "same"):
        raise argparse.ArgumentTypeError(f"{shown(text)} is no layout; choose {', '.join(LAYOUTS)} or same")
    return text


def family(text: str) -> str:
    """Read the name of a family that has a table."""
    from ckpt_gui.core.families.registry import BY_NAME

    if text not in BY_NAME:
        known = ", ".join(BY_NAME)
        raise argparse.ArgumentTypeError(f"{shown(text)} is no family that is known here; there is {known}")
    return text


def out_folder(text: str) -> str:
    """Read the folder to write, which is one of this machine."""
    from ckpt_gui.core.target_folder import refuse_url  # with all that writing needs

    refuse_url(text)
    return text


def plot_file(text: str) -> str:
    """Read the name of a picture, whose ending says what kind it is."""
    if not text.lower().endswith((".svg", ".png", ".pdf")):
        raise argparse.ArgumentTypeError(f"{shown(text)} must end in .svg, .png or .pdf")
    return text


def report_file(text: str) -> str:
    """Read the name of a report, whose ending says what kind it is."""
    if not text.lower().endswith((".html", ".md", ".json", ".sarif")):
        raise argparse.ArgumentTypeError(f"{shown(text)} must end in .html, .md, .json or .sarif")
    return text


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Add what tells a model where its file does not."""
    group = parser.add_argument_group("where the file does not tell")
    group.add_argument("--config", metavar="FILE", type=place, help="the model's config.json or params.json")
    group.add_argument("--section", metavar="NAME", help="the nested dict that holds the weights, such as model_ema")
    group.add_argument("--family", metavar="NAME", type=family, help="the architecture, such as llama")
    group.add_argument(
        "--from",
        dest="stored",
        metavar="LAYOUT",
        type=layout,
        help="how it is stored, where two ways have the same names",
    )
    group.add_argument("--heads", metavar="N", type=count, help="number of query heads")
    group.add_argument("--kv-heads", metavar="N", type=count, help="number of key/value heads")
    group.add_argument(
        "--drop", metavar="KEY", action="append", default=[], help="leave this tensor out; may be repeated"
    )
    group.add_argument(
        "--keep", metavar="KEY", action="append", default=[], help="carry this computed tensor along; may be repeated"
    )
    group.add_argument("--take", metavar="FILE", help="of several models in a folder, the one with this file")
    group.add_argument(
        "--assigned-only", action="store_true", help="take only what the index names, from the shard that it names"
    )
    group.add_argument("--lora-alpha", metavar="N", type=alpha, help="alpha of a LoRA adapter, as it was in training")
    add_edit_options(parser)


def policy(source: Source, args: argparse.Namespace, decided: Policy, tie: str | None = None) -> Policy:
    """Return the user's decisions: those of a plan (see `decide`), and before them those of the command line."""
    dropped = decided.dropped | {find_ref(source, key).full_key for key in args.drop}
    kept = decided.kept | {find_ref(source, key).full_key for key in args.keep}
    given = {
        "section": section(source, args.section), "family": args.family, "heads": args.heads, "tie": tie,
        "kv_heads": args.kv_heads, "lora_alpha": args.lora_alpha, "stored": args.stored,
        "assigned_only": args.assigned_only or None,
    }  # fmt: skip
    said = {name: value for name, value in given.items() if value is not None}
    return dataclasses.replace(decided, dropped=dropped, kept=kept, **said)


def section(source: Source, name: str | None) -> tuple[str, ...] | None:
    """Return the path of nested dicts that a name stands for: split at dots where such dicts exist, else as it is."""
    if name is None:
        return None
    parts = tuple(name.split("."))
    nested = any(ref.section[: len(parts)] == parts for ref in source.refs)
    return parts if nested else (name,) if name else ()


def protected(source: Source) -> tuple[str, ...]:
    """Return the files that no report may overwrite: the checkpoint's own and those beside it that say what it is."""
    folder = source.sidecars.folder
    beside = ("config.json", "params.json", "model_config.yaml", "EXPORT_REPORT.json", *source.sidecars.carried)
    names = [f"{folder}/{name}" for name in beside] if folder is not None else []
    return (source.path, *(file.path for file in source.files), *names)


def belonging(path: str) -> tuple[str, ...]:
    """Return the files that no report may overwrite where a checkpoint could not be read: the path, all in a folder."""
    try:
        return (path, *(entry.path for entry in os.scandir(path)))
    except (OSError, ValueError):  # a file, or nothing
        return (path,)
