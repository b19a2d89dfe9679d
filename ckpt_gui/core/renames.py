r"""Rules that give tensors other names: what they match, what it becomes, and why one can not be used.

A name is matched as the tree shows it: inside its section, without wrappers. A rule for one tensor may also name it as
the file does. Rules are applied in their order, each to what the one before made.

>>> names = ["layers.0.attn.q.weight", "layers.1.attn.q.weight", "norm.weight"]
>>> rule = Rename("layers.{layer}.attn.q.weight", "layers.{layer}.attention.wq.weight", "template")
>>> changes(rule, names)
{'layers.0.attn.q.weight': 'layers.0.attention.wq.weight', 'layers.1.attn.q.weight': 'layers.1.attention.wq.weight'}
>>> changes(Rename(r"\.attn\.(\w)\.", r".attention.w\1.", "regex"), names)["layers.1.attn.q.weight"]
'layers.1.attention.wq.weight'
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from ckpt_gui.core.edits import RENAME_KINDS, Rename
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.patterns import LONGEST_NAME, PatternError, regex

LONGEST_KEY = 4096  # characters of a new name
_PLACE = re.compile(r"\{(\w+)\}")


def changes(rule: Rename, names: Iterable[str]) -> dict[str, str]:
    """Return what a rule makes of names: old → new, in their order; only names that it changes.

    Raises:
        CheckpointError: The rule can not be used.
    """
    if rule.kind == "key":
        check_rule(rule)
        return {name: rule.new for name in names if name == rule.old and rule.new != name}
    pattern, new = _compiled(rule)
    made = {}
    for name in names:
        if len(name) > LONGEST_NAME:  # a pattern could take too long on it
            continue
        if rule.kind == "template":
            match = pattern.fullmatch(name)
            became = new.format(*match.groups()) if match else name
        else:
            became = pattern.sub(new, name)
        if became != name:
            made[name] = became
    return made


def check_rule(rule: Rename) -> None:
    """Refuse a rule that can not be used.

    Raises:
        CheckpointError: It has no name, is no pattern, or uses what it does not match.
    """
    if rule.kind not in RENAME_KINDS:
        raise _refused(rule, f"is of no kind that is known; there is {', '.join(RENAME_KINDS)}")
    if not rule.old:
        raise _refused(rule, "says nothing of which tensors it is about")
    if len(rule.new) > LONGEST_KEY:
        raise _refused(rule, f"makes names of more than {LONGEST_KEY:,} characters")
    if rule.kind != "regex" and not rule.new:
        raise _refused(rule, "has no new name")
    if rule.kind != "key":
        _compiled(rule)


def as_rule(old: str, new: str) -> Rename:
    """Return the rule that two names stand for: one for many tensors if the first has placeholders.

    >>> as_rule("layers.{n}.q", "layers.{n}.wq").kind, as_rule("a.weight", "b.weight").kind
    ('template', 'key')
    """
    return Rename(old, new, "template" if _PLACE.search(old) else "key")


@lru_cache(maxsize=64)
def _compiled(rule: Rename) -> tuple[re.Pattern[str], str]:
    if rule.kind == "template":
        return _template(rule)
    try:
        pattern = regex(rule.old, flags=0)
    except PatternError as error:
        raise _refused(rule, str(error)) from error
    try:
        _check_groups(rule, pattern)
    except (re.error, IndexError) as error:
        raise _refused(rule, f"can not be filled in: {error}") from error
    return pattern, rule.new


def _check_groups(rule: Rename, pattern: re.Pattern[str]) -> None:
    r"""See that `\1` and the like name groups that there are: `sub` says so only where something matches.

    Raises:
        re.error: A group is named that is not there.
    """
    probe = re.compile("|".join(["", *[f"(x{n})" for n in range(1, pattern.groups + 1)]]))
    probe.sub(rule.new, "y")


def _template(rule: Rename) -> tuple[re.Pattern[str], str]:
    seen: list[str] = []

    def place(word: str) -> str:
        if word in seen:
            return f"(?:\\{seen.index(word) + 1})"
        seen.append(word)
        return r"(0|[1-9][0-9]{0,8})"

    parts = _PLACE.split(rule.old)  # literal, word, literal, …
    text = "".join(re.escape(part) if n % 2 == 0 else place(part) for n, part in enumerate(parts))
    unknown = [word for word in _PLACE.findall(rule.new) if word not in seen]
    if unknown:
        raise _refused(rule, f"puts {{{unknown[0]}}} into the new name, which is not in the old one")
    new = _PLACE.split(rule.new)  # filled by `format`, which is several times as quick as `Match.expand`
    filled = "".join(
        part.replace("{", "{{").replace("}", "}}") if n % 2 == 0 else f"{{{seen.index(part)}}}"
        for n, part in enumerate(new)
    )
    return re.compile(text), filled


def _refused(rule: Rename, why: str) -> CheckpointError:
    text = f"The rule `{safe_text(rule.old, 80)}` → `{safe_text(rule.new, 80)}` {why}."
    return CheckpointError("bad-edit", text, fix="Correct it, or leave it out.")
