"""Several paths in one command: `check A B C`, and `fix A B C -o FOLDER`, which makes a folder for each in FOLDER.

Each path is what the command would do with it alone; the worst exit status is that of the whole.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ckpt_gui.cli.terminal import CANCELLED, USAGE, say
from ckpt_gui.core.batch_names import distinct, target_folders
from ckpt_gui.core.text import plural

Run = Callable[[argparse.Namespace], int]


def refused(args: argparse.Namespace, command: str, flags: Sequence[str]) -> bool:
    """Say which of the options given belongs to one checkpoint only; return True if there is one."""
    given = [flag for flag in flags if getattr(args, flag.lstrip("-").replace("-", "_"))]
    if given:
        say(f"{command}: {given[0]} belongs to one checkpoint, and {len(args.path)} are named; leave it out.")
    return bool(given)


def each(args: argparse.Namespace, words: Mapping[int, str], run: Run, **changes: Mapping[str, Any]) -> int:
    """Run a command on each path; say in the end how many ended in which way, and return the worst status.

    Args:
        args: The arguments, with all paths.
        words: What an exit status means.
        run: Runs the command on one path.
        changes: Arguments that each path has of its own, by path.
    """
    statuses: list[int] = []
    for path in named(args):
        own = {name: values[path] for name, values in changes.items()}
        statuses.append(run(argparse.Namespace(**(vars(args) | {"path": path} | own))))
        if statuses[-1] == CANCELLED:
            return CANCELLED
    counts = {status: statuses.count(status) for status in sorted(set(statuses))}
    parts = ", ".join(f"{count} {words[status]}" for status, count in counts.items())
    say(f"{plural(len(statuses), 'checkpoint')}: {parts}.")
    return max(statuses, default=USAGE)


def folders(args: argparse.Namespace) -> dict[str, str]:
    """Return a new folder in the one that is named for each path."""
    return target_folders(named(args), args.to, os.path.abspath(args.out))


def named(args: argparse.Namespace) -> list[str]:
    """Return each path once, as it was named; the shards of one model stand as its folder."""
    given = {os.path.abspath(path): path for path in reversed(args.path)}
    return [given.get(path, path) for path in distinct(args.path)]
