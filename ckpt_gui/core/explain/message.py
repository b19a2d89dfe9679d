"""A pasted message taken apart: its text with the white space folded, and the keys that it lists.

Bounded work whatever is pasted: the text is cut at a megabyte and the lists at 20,000 keys; every pattern is linear.
"""

from __future__ import annotations

import re
from collections import Counter

from ckpt_gui.dataclasses import dataclass

LIMIT = 1 << 20  # characters
MOST_KEYS = 20_000
_COLOURS = re.compile(r"\x1b\[[0-9;]{0,20}m")
_FRAMES = str.maketrans(dict.fromkeys("│┃║╭╮╰╯", " "))  # that rich draws around a traceback
_MISSING = re.compile(r"Missing key\(s\) in state_dict: ?((?:\"[^\"]{1,300}\"[,.]? ?)+)|"
                      r"are newly initialized: \[([^\]]{0,200000})|"
                      r"[Mm]issing (?:keys|tensors): ?\[([^\]]{0,200000})")  # fmt: skip
_UNEXPECTED = re.compile(r"Unexpected key\(s\) in state_dict: ?((?:\"[^\"]{1,300}\"[,.]? ?)+)|"
                         r"were not used when initializing [^:]{1,100}: \[([^\]]{0,200000})|"
                         r"[Uu]nexpected (?:keys|tensors): ?\[([^\]]{0,200000})")  # fmt: skip
_QUOTED = re.compile(r"[\"'`]([\w.\-{}/]{1,300})[\"'`]")
_REPORT = re.compile(r"^[ \t]*([\w.\-{}, ]{1,300}?)[ \t]*\|[ \t]*(MISSING|UNEXPECTED|MISMATCH)", re.MULTILINE)
_PATH = re.compile(r"(?<![\w.\-])(?:/|[A-Za-z]:[\\/])[^\s\"'`<>|:*?,()]{1,400}")
_ENDINGS = (".safetensors", ".pt", ".pth", ".bin", ".ckpt", ".gguf", ".npz", ".index.json")
MOST_PATHS = 20
_SPOKEN = re.compile(
    r"(?:KeyError: |unexpected key: |map tensor |missing tensor |duplicate tensor |tensor name |mismatch keys \{)"
    r"[\"'`]([\w.\-]{1,300})[\"'`]|size mismatch for ([\w.\-]{1,300}):|not contain tensor ([\w.\-]{1,300})"
    r"|not in model: ?([\w.\-]{1,300})"
)


@dataclass(frozen=True, slots=True)
class Message:
    """A message taken apart.

    Attributes:
        text: The text with every run of white space as one blank, without colours and frames.
        cut: True if more was pasted than is read.
        missing: Keys that the loader wanted and did not find.
        unexpected: Keys that it found and did not want.
        named: These, and every key that the message speaks of otherwise.
        extra: What the unexpected keys have before the missing ones; empty if nothing.
        lacking: What the missing keys have before the unexpected ones; empty if nothing.
    """

    text: str
    cut: bool
    missing: tuple[str, ...]
    unexpected: tuple[str, ...]
    named: tuple[str, ...]
    extra: str
    lacking: str


def read_message(pasted: str) -> Message:
    """Take a message apart."""
    raw = _COLOURS.sub("", pasted[:LIMIT]).translate(_FRAMES)
    text = " ".join(raw.split())
    table = [(name.strip(), word) for name, word in _REPORT.findall(raw)[:MOST_KEYS]]
    missing = _unique([*_listed(_MISSING, text), *(name for name, word in table if word == "MISSING")])
    unexpected = _unique([*_listed(_UNEXPECTED, text), *(name for name, word in table if word == "UNEXPECTED")])
    spoken = [next(filter(None, groups)) for groups in _SPOKEN.findall(text)[:MOST_KEYS]]
    return Message(
        text,
        len(pasted) > LIMIT,
        missing,
        unexpected,
        _unique([*missing, *unexpected, *(name for name, _ in table), *spoken]),
        _prefix(unexpected, missing),
        _prefix(missing, unexpected),
    )


def paths_in(pasted: str) -> tuple[str, ...]:
    """Return the absolute paths of checkpoint files that a text names, as they stand there; no disk is asked.

    >>> paths_in("No such file: '/m/model.safetensors' in /usr/lib/torch/serialization.py")
    ('/m/model.safetensors',)
    """
    named = (match[0].rstrip(".") for match in _PATH.finditer(pasted[:LIMIT]))
    return tuple(dict.fromkeys(path for path in named if path.endswith(_ENDINGS)))[:MOST_PATHS]


def _listed(pattern: re.Pattern[str], text: str) -> list[str]:
    """Return the quoted keys of every list that a pattern finds."""
    keys: list[str] = []
    for match in pattern.finditer(text):
        keys += _QUOTED.findall(next(filter(None, match.groups()), ""))
    return keys


def _unique(keys: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(keys[:MOST_KEYS]))


def _prefix(longer: tuple[str, ...], shorter: tuple[str, ...]) -> str:
    """Return what most keys of one list have before a key of the other: whole segments, with the dot."""
    ends, count = set(shorter), Counter[str]()
    for key in longer:
        for dot in re.finditer(r"\.", key):
            if key[dot.end() :] in ends:
                count[key[: dot.end()]] += 1
    most = count.most_common(1)
    return most[0][0] if most and most[0][1] * 2 >= len(longer) else ""
