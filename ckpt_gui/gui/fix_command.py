"""The exact `ckpt-gui fix …` of what the window shows, to be run again elsewhere."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import PurePath

from ckpt_gui.core.batch_names import target_folders
from ckpt_gui.core.edits import FieldEdit
from ckpt_gui.core.export import GB, Target
from ckpt_gui.core.passes.by_hand import STEP
from ckpt_gui.core.policy import Policy
from ckpt_gui.core.remote.address import is_url
from ckpt_gui.desktop.resources import SAMPLE, resource
from ckpt_gui.gui.session import Session
from ckpt_gui.gui.snapshot import Snapshot

_USUAL_SHARD = Target().max_shard_bytes


def fix_command(snapshot: Snapshot, folder: str | None = None) -> str:
    """Return the command, quoted for the shell of this system.

    Args:
        snapshot: The decisions taken.
        folder: Where the export goes; None for a name made from the source's.
    """
    policy, target = snapshot.decisions.policy, snapshot.decisions.target
    path = snapshot.source.path
    words = ["ckpt-gui", "fix", path, "-o", folder or PurePath(default_folder(path, target.layout)).name]
    adapter = snapshot.decisions.adapter
    words += ["--adapter", adapter.path] if adapter is not None else []
    words += ["--to", target.layout, *_target_words(target), *_policy_words(policy), *_model_words(snapshot)]
    words += ["--salvage"] if snapshot.decisions.salvage else []
    return joined(words)


def repeat_command(session: Session) -> str:
    """Return the command that does what a session does now; empty where nothing is open."""
    if session.snapshot is not None:
        return fix_command(session.snapshot)
    return joined(["ckpt-gui", "check", session.path]) if session.path else ""


def check_command(snapshot: Snapshot, reference: str) -> str:
    """Return the command that compares a checkpoint with a reference."""
    words = ["ckpt-gui", "check", snapshot.source.path, "--against", reference, *_model_words(snapshot)]
    return joined(words)


def unsayable(snapshot: Snapshot) -> int:
    """Return how many decisions the command can not express: steps that were ticked off by hand."""
    return sum(1 for step in snapshot.decisions.policy.skip if step != "tie" and not step.startswith(f"{STEP}:"))


def default_folder(path: str, layout: str) -> str:
    """Return a new folder that does not exist yet: beside the source, or at home for the sample of the program.

    >>> default_folder("/m/last.pt", "hf").replace(os.sep, "/")
    '/m/last-hf'
    """
    beside = PurePath(target_folders([path], layout)[path])
    bundled = PurePath(resource(SAMPLE)).parent
    if not is_url(path) and bundled not in PurePath(os.path.abspath(path)).parents:
        return str(beside)
    return target_folders([path], layout, os.path.expanduser("~"))[path]


def joined(words: Sequence[str]) -> str:
    """Return the words of a command as one line, quoted for the shell of this system."""
    return subprocess.list2cmdline(words) if os.name == "nt" else shlex.join(words)


def _target_words(target: Target) -> list[str]:
    words = []
    if target.container:
        words += ["--format", target.container]
    if target.dtype != "keep":
        words += ["--dtype", target.dtype]
    if target.max_shard_bytes != _USUAL_SHARD:
        size = target.max_shard_bytes
        words += ["--max-shard-size", f"{size // GB}GB" if size % GB == 0 else str(size)]
    if target.model_parallel is not None:
        words += ["--model-parallel", str(target.model_parallel)]
    if target.base and target.base.folder:
        words += ["--base", target.base.folder]
    return words + [word for edit in target.metadata for word in ("--set-metadata", _field(edit))]


def _policy_words(policy: Policy) -> list[str]:
    tie = "keep" if policy.tie == "auto" and "tie" in policy.skip else policy.tie
    words = ["--tie", tie] if tie != "auto" else []
    for number, rule in enumerate(policy.renames):
        if f"{STEP}:{number}" not in policy.skip:
            words += ["--rename-re" if rule.kind == "regex" else "--rename", f"{rule.old}={rule.new}"]
    return words + [word for edit in policy.config for word in ("--set-config", _field(edit))]


def _field(edit: FieldEdit) -> str:
    return edit.name if edit.value is None else f"{edit.name}={edit.value}"


def _model_words(snapshot: Snapshot) -> list[str]:
    """Return what the user said where the file does not tell."""
    policy, words = snapshot.decisions.policy, []
    if snapshot.decisions.config:
        words += ["--config", snapshot.decisions.config]
    if policy.stored:
        words += ["--from", policy.stored]
    if policy.section:
        words += ["--section", ".".join(policy.section)]
    if policy.family:
        words += ["--family", policy.family]
    for flag, number in (("--heads", policy.heads), ("--kv-heads", policy.kv_heads)):
        words += [flag, str(number)] if number else []
    words += ["--take", snapshot.decisions.take] if snapshot.decisions.take else []
    words += ["--assigned-only"] if policy.assigned_only else []
    if policy.lora_alpha is not None:
        words += ["--lora-alpha", f"{policy.lora_alpha:g}"]
    for flag, keys in (("--drop", policy.dropped), ("--keep", policy.kept)):
        for key in sorted(keys):
            words += [flag, key]
    return words
