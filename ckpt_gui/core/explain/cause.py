"""The notation of the table of causes: what a message must hold, what it means, and what to do about it.

A text is matched after its white space has been folded (`message`), so a pattern writes one blank where a terminal
broke the line. No pattern may begin with an unbounded repeat: a paste can be a megabyte long.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from ckpt_gui.dataclasses import dataclass

KINDS: Mapping[str, str] = MappingProxyType({
    "A": "Damaged, cut short, or not a checkpoint",
    "B": "Tied embeddings and the output head",
    "C": "Names or layout of another program",
    "D": "Wrapper prefixes in the names",
    "E": "Parts of a training run, not gathered",
    "F": "Pickle safety, old containers, load options",
    "G": "Writing, and rules of the container",
    "H": "LoRA adapters",
    "I": "Shards and index disagree",
    "J": "Rows of the vocabulary",
    "K": "Values in another order",
    "L": "Element types",
    "M": "Left-overs of quantisation",
    "N": "The weights are one level down",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Step:
    """Something to run or to click.

    Attributes:
        verb: `check`, `diff` or `fix` of the program; `shell` for a command of another.
        words: What follows; for `shell` the whole command.
    """

    verb: str
    words: tuple[str, ...] = ()

    @property
    def layout(self) -> str:
        """The layout that an export goes to; empty where the step says none."""
        return self.words[self.words.index("--to") + 1] if "--to" in self.words else ""

    def command(self, path: str = "") -> tuple[str, ...]:
        """Return the words of the command; `PATH` and `OUT` stand where no path is known."""
        if self.verb == "shell":
            return self.words
        out = ("-o", "OUT") if self.verb == "fix" and "--dry-run" not in self.words else ()
        return ("ckpt-gui", self.verb, path or "PATH", *out, *self.words)


@dataclass(frozen=True, slots=True)
class Cause:
    """One cause of messages.

    All that is given must be there: one of the texts, and a key in each of the lists that have a pattern. The named
    groups of the text fill in the sentences; `{key}` is the first key that matched, if the text has none of its own,
    and `{prefix}` what the names differ by.

    Attributes:
        id: Stable name.
        kind: Letter of the kind; see `KINDS`.
        weight: 5 if the message can mean little else, down to 0 for a guess; the higher one comes first.
        says: What is the matter, in one or two sentences.
        do: What to do about it, in one or two sentences.
        steps: The same as commands.
        texts: Patterns, of which one must be found in the message.
        missing, unexpected, named: Patterns of keys that the loader misses, did not expect, or speaks of at all.
        few: The list that has a pattern holds four keys at most: it is about these keys, not about all names.
        prefix: `extra` if the names of the file have one that the program's lack, `lacking` for the reverse.
        codes: Finding codes of an open checkpoint that confirm it.
    """

    id: str
    kind: str
    weight: int
    says: str
    do: str
    steps: tuple[Step, ...] = ()
    texts: tuple[re.Pattern[str], ...] = ()
    missing: re.Pattern[str] | None = None
    unexpected: re.Pattern[str] | None = None
    named: re.Pattern[str] | None = None
    few: bool = False
    prefix: str = ""
    codes: tuple[str, ...] = ()


def found(*patterns: str) -> tuple[re.Pattern[str], ...]:
    """Return patterns of a message."""
    return tuple(re.compile(pattern) for pattern in patterns)


CHECK = Step("check")
DEEP = Step("check", ("--deep",))
CONFIG = Step("check", ("--config", "CONFIG"))
SALVAGE = Step("fix", ("--salvage",))
PULL = Step("shell", ("git", "lfs", "pull"))


def to(layout: str, *words: str) -> Step:
    """Return the export to a layout."""
    return Step("fix", ("--to", layout, *words))


HF, SAME = to("hf"), to("same")
