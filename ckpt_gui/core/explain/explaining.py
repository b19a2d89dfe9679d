"""From a pasted message to its explanations, the likeliest first; an open checkpoint confirms or qualifies them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ckpt_gui.core.errors import Finding
from ckpt_gui.core.explain.cause import KINDS, Cause, Step
from ckpt_gui.core.explain.damaged import DAMAGED
from ckpt_gui.core.explain.heads import HEADS
from ckpt_gui.core.explain.loading import LOADING
from ckpt_gui.core.explain.lora import LORA
from ckpt_gui.core.explain.message import Message, read_message
from ckpt_gui.core.explain.names import NAMES
from ckpt_gui.core.explain.parts import PARTS
from ckpt_gui.core.explain.sizes import SIZES
from ckpt_gui.core.explain.writing import WRITING
from ckpt_gui.core.keys import safe_text
from ckpt_gui.dataclasses import dataclass

CAUSES: tuple[Cause, ...] = (
    *DAMAGED, *HEADS, *PARTS, *LORA, *NAMES, *SIZES, *LOADING, *WRITING,
)  # fmt: skip
MOST = 4  # explanations of one message: a fifth helps nobody
FEW = 4
SPREAD = 1  # a cause of less weight than the likeliest is not worth telling beyond this


@dataclass(frozen=True, slots=True)
class Opened:
    """What is known of the checkpoint that is open.

    Attributes:
        path: Where it is.
        keys: Its keys, as they are called in the file.
        findings: What is wrong with it.
    """

    path: str
    keys: frozenset[str]
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a message may mean.

    Attributes:
        id: Name of the cause.
        kind: Letter of the kind of fault.
        title: The kind in words.
        says: What is the matter.
        do: What to do about it.
        steps: The same as commands.
        beside: What the open checkpoint has to say to that; empty if nothing.
        confirmed: True if the open checkpoint has a finding of this cause.
    """

    id: str
    kind: str
    title: str
    says: str
    do: str
    steps: tuple[Step, ...]
    beside: str = ""
    confirmed: bool = False


def explain(pasted: str, opened: Opened | None = None) -> tuple[Explanation, ...]:
    """Return what a traceback or a loader's message may mean, the likeliest first; nothing if it is not known.

    Args:
        pasted: Any text; a megabyte of it is read.
        opened: The checkpoint that is open, if one is.
    """
    message = read_message(pasted)
    fitting = [(cause, groups) for cause in CAUSES if (groups := _fit(cause, message)) is not None]
    made = [(cause.weight, _explanation(cause, groups, opened)) for cause, groups in fitting]
    made.sort(key=lambda pair: (-pair[0], not pair[1].confirmed))
    least = made[0][0] - SPREAD if made else 0
    return _one_a_kind(it for weight, it in made if weight >= least or it.confirmed)


def _one_a_kind(found: Iterable[Explanation]) -> tuple[Explanation, ...]:
    """Return the first explanations, one of each kind of fault: a second says the same in general words."""
    kinds: dict[str, Explanation] = {}
    for it in found:
        kinds.setdefault(it.kind, it)
    return tuple(kinds.values())[:MOST]


def _fit(cause: Cause, message: Message) -> dict[str, str] | None:
    """Return what fills in the sentences of a cause; None if it does not fit."""
    groups: dict[str, str] = {}
    if cause.texts:
        match = next(filter(None, (text.search(message.text) for text in cause.texts)), None)
        if match is None:
            return None
        groups.update((name, value or "") for name, value in match.groupdict().items())
    lists = ((cause.missing, message.missing), (cause.unexpected, message.unexpected), (cause.named, message.named))
    for pattern, keys in lists:
        if pattern is not None:
            key = _first(pattern, keys)
            if not key or (cause.few and len(keys) > FEW):
                return None
            groups.setdefault("key", key)
    if cause.prefix:
        groups["prefix"] = message.extra if cause.prefix == "extra" else message.lacking
        if not groups["prefix"]:
            return None
    return groups


def _first(pattern: re.Pattern[str], keys: Iterable[str]) -> str:
    return next((key for key in keys if pattern.search(key)), "")


def _explanation(cause: Cause, groups: dict[str, str], opened: Opened | None) -> Explanation:
    shown = {name: safe_text(value, 120) for name, value in groups.items()}
    says, do = cause.says.format_map(shown), cause.do.format_map(shown)
    made = Explanation(cause.id, cause.kind, KINDS[cause.kind], says, do, cause.steps)
    if opened is None:
        return made
    finding = next((it for it in opened.findings if it.code in cause.codes), None)
    if finding is not None:
        beside = f"The open checkpoint shows it: {finding.message}"
    else:
        beside = _about_key(groups.get("key", ""), opened.keys)
    return Explanation(made.id, made.kind, made.title, says, do, made.steps, beside, finding is not None)


def _about_key(key: str, keys: frozenset[str]) -> str:
    """Return whether the open checkpoint has a key, or one that ends like it."""
    if not key:
        return ""
    shown = safe_text(key, 120)
    if key in keys:
        return f"The open checkpoint has `{shown}`."
    longer = min((it for it in keys if it.endswith("." + key) or key.endswith("." + it)), default="")
    if longer:
        return f"The open checkpoint has no `{shown}`, but `{safe_text(longer, 120)}`."
    return f"The open checkpoint has no `{shown}`."
