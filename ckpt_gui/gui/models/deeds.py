"""What the steps of an explanation are in the window: buttons, each with an action or with what an export shall be.

Every step that has a command of this program has a button as well; a new flag is a line of the table here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from ckpt_gui.core.explain import Step
from ckpt_gui.core.families.layouts import title_of
from ckpt_gui.core.text import human_bytes
from ckpt_gui.core.text.words import read_bytes
from ckpt_gui.dataclasses import dataclass

_ONE_FILE = 1 << 40  # shards as large as this are one file in words
Changes = tuple[tuple[str, object], ...]


@dataclass(frozen=True, slots=True)
class Deed:
    """A button of a step.

    Attributes:
        text: What it says.
        action: The window's action that it triggers; see `gui.actions`. `export` after changes, if there are any.
        target: What the export shall be: fields of a `Target` and their values.
        policy: What is decided about the checkpoint: fields of a `Policy` and their values.
    """

    text: str
    action: str
    target: Changes = ()
    policy: Changes = ()


@dataclass(frozen=True, slots=True)
class _Flag:
    """What a flag of `fix` decides: a field of the target or the policy, what its word means, and how it is said."""

    part: str
    name: str
    read: Callable[[str], object]
    says: Callable[[str], str]


_TIES = {"keep": "with its own head", "drop": "without the head", "copy": "with a copy of the embedding as head"}
_FLAGS: Mapping[str, _Flag] = MappingProxyType({
    "--to": _Flag("target", "layout", str, lambda word: _layout_words(word)),
    "--dtype": _Flag("target", "dtype", str, lambda word: f"as {word}"),
    "--format": _Flag("target", "container", str, lambda word: f"as {word}"),
    "--max-shard-size": _Flag("target", "max_shard_bytes", read_bytes, lambda word: _size_words(word)),
    "--model-parallel": _Flag("target", "model_parallel", int, lambda word: "as one file" if word == "1"
                              else f"for {word} ranks"),
    "--tie": _Flag("policy", "tie", str, lambda word: _TIES.get(word, word)),
})  # fmt: skip
# flag → what is clicked in place of the command: text and action
_ACTIONS: Mapping[str, tuple[str, str]] = MappingProxyType({
    "--adapter": ("Merge an adapter…", "merge-adapter"),
    "--config": ("Choose a config…", "choose-config"),
    "--deep": ("Check all values", "check-values"),
    "--section": ("Choose the section", "findings"),
    "--lora-alpha": ("Give alpha…", "export"),
    "--take": ("Take one of the models…", "take-model"),
    "--salvage": ("Open what is whole…", "salvage"),
})  # fmt: skip
_WITHOUT_FILE = frozenset({"salvage"})  # these ask for a file themselves


def deed(step: Step, *, is_open: bool) -> Deed | None:
    """Return the button of a step; None for the command of another program."""
    if step.verb == "shell":
        return None
    chosen = next((_ACTIONS[word] for word in step.words if word in _ACTIONS), None)
    if chosen is not None and (is_open or chosen[1] in _WITHOUT_FILE):
        return Deed(*chosen)
    if not is_open:
        return Deed("Open the file…", "open-file")
    return _export(step) if step.verb == "fix" else Deed("Show the findings", "findings")


def _export(step: Step) -> Deed:
    changes: dict[str, list[tuple[str, object]]] = {"target": [], "policy": []}
    said, words = [], iter(step.words)
    for word in words:
        if word == "--assigned-only":
            changes["policy"].append(("assigned_only", True))
            said.append("with only what the index assigns")
        else:
            flag, value = _FLAGS[word], next(words)
            changes[flag.part].append((flag.name, flag.read(value)))
            said.append(flag.says(value))
    return Deed(f"Export {' '.join(said)}…", "export", tuple(changes["target"]), tuple(changes["policy"]))


def _layout_words(layout: str) -> str:
    return "in the same layout" if layout == "same" else f"to {title_of(layout)}"


def _size_words(word: str) -> str:
    size = read_bytes(word)
    return "as one file" if size >= _ONE_FILE else f"in files of at most {human_bytes(size)}"
