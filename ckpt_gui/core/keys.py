"""Keys: their segments, their templates, their natural order, and how foreign text is shown.

A key is split at dots. Whole segments that are numbers, as Python writes them, are indices: `layers.3.wq.weight` has
the template `layers.{}.wq.weight` and the indices `(3,)`; the two together are the key. Family tables name their
indices (`layers.{layer}.wq.weight`); the names are kept beside the template, so that two indices can never be mixed up.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from functools import lru_cache
from operator import itemgetter
from sys import intern

# Not `00` or digits of other scripts, which would fall together with `0`; not numbers that no model counts to (a name
# that says layer 999,999,999 must not make anybody expect as many).
# Searched with a dot put before the key: twice as fast as looking behind, and this is asked for every key many times.
_NUMBER = re.compile(r"\.(0|[1-9][0-9]{0,3})(?![^.])")
FIRST = 4  # segments by which keys are sorted first: up to `model.layers.3.mlp`
Natural = tuple[tuple[int, int, str], ...]
MOST_PARTS = 1 << 15  # halves of keys that are remembered: a model of 500,000 tensors has some 2,000
_NAMED = re.compile(r"\{(\w+)\}")
# Control, format and bidi characters, line and paragraph separators, surrogates and unassigned code points.
_UNSAFE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def template(key: str) -> str:
    """Replace each numeric segment by `{}`; braces that stand in the key itself are doubled.

    >>> template("model.layers.12.mlp.experts.3.w1.weight")
    'model.layers.{}.mlp.experts.{}.w1.weight'
    """
    cut = key.find(".", len(key) >> 1)
    return intern(form(key) if cut < 0 else form(key[:cut]) + form(key[cut:]))  # a few, however many keys there are


def indices(key: str) -> tuple[int, ...]:
    """Return the numeric segments in order.

    >>> indices("model.layers.12.mlp.experts.3.w1.weight")
    (12, 3)
    """
    cut = key.find(".", len(key) >> 1)
    return figures(key) if cut < 0 else figures(key[:cut]) + figures(key[cut:])


@lru_cache(maxsize=MOST_PARTS)
def form(part: str) -> str:
    """Return what a part of a key is in its template; it ends where a segment does, and may begin with a dot.

    There are far fewer halves of keys than keys: they can be remembered where the keys of a large model can not.
    """
    if "{" in part:
        part = part.replace("{", "{{").replace("}", "}}")
    return _NUMBER.sub(".{}", "." + part)[1:]


@lru_cache(maxsize=MOST_PARTS)
def figures(part: str) -> tuple[int, ...]:
    """Return the numeric segments of a part of a key (see `form`)."""
    return tuple(map(int, _NUMBER.findall("." + part)))


@lru_cache(maxsize=4096)
def anonymous(named: str) -> str:
    """Return a table's template with its index names removed.

    >>> anonymous("layers.{layer}.wq.weight")
    'layers.{}.wq.weight'
    """
    return _NAMED.sub("{}", named)


@lru_cache(maxsize=4096)
def index_names(named: str) -> tuple[str, ...]:
    """Return the names of a table template's indices in order.

    >>> index_names("layers.{layer}.experts.{expert}.w1")
    ('layer', 'expert')
    """
    return tuple(_NAMED.findall(named))


def bind(named: str, key: str) -> dict[str, int]:
    """Return the index values of a key that fits a table template.

    >>> bind("layers.{layer}.experts.{expert}.w1", "layers.3.experts.7.w1")
    {'layer': 3, 'expert': 7}
    """
    return dict(zip(index_names(named), indices(key), strict=True))


@lru_cache(maxsize=4096)
def renaming(before: str, after: str) -> Callable[[tuple[int, ...]], str]:
    """Return what makes a key of one table template from the numbers of another's that names the same indices.

    >>> renaming("layers.{layer}.experts.{expert}.w1", "model.{layer}.mlp.{expert}.up")((3, 7))
    'model.3.mlp.7.up'
    """
    names, wanted = index_names(before), index_names(after)
    form = _NAMED.sub("%d", after.replace("%", "%%"))
    if names == wanted:
        return form.__mod__
    chosen = itemgetter(*map(names.index, wanted)) if wanted else lambda _: ()
    return lambda numbers: form % chosen(numbers)


@lru_cache(maxsize=65536)
def natural(key: str) -> Natural:
    """Sort key under which `layers.2` comes before `layers.10`.

    >>> sorted(["a.10", "a.2", "a.b"], key=natural)
    ['a.2', 'a.10', 'a.b']
    """
    return tuple((0, int(s), "") if s.isascii() and s.isdigit() and len(s) < 19 else (1, 0, s) for s in key.split("."))


def in_natural_order(keys: Iterable[str]) -> list[str]:
    """Return keys in natural order, and as they came where they are equal.

    They are sorted by their beginnings, and then by what follows: sorting 500,000 at once takes 350 MB for what they
    are compared by, and keeps all other threads waiting.

    >>> in_natural_order(["h.10.w", "h.9.w.b", "h.9.w", "a"])
    ['a', 'h.9.w', 'h.9.w.b', 'h.10.w']
    """
    parts: dict[Natural, list[str]] = {}
    for key in keys:
        parts.setdefault(natural(".".join(key.split(".", FIRST)[:FIRST])), []).append(key)
    return [key for start in sorted(parts) for key in sorted(parts[start], key=_natural_rest)]


def _natural_rest(key: str) -> Natural:
    """Return the sort key of what follows on the first segments of a key; nothing may follow."""
    segments = key.split(".", FIRST)
    return natural(segments[FIRST]) if len(segments) > FIRST else ()


def safe_text(text: str, limit: int = 200) -> str:
    r"""Return foreign text fit to be shown: control and bidi characters escaped, long text cut in the middle.

    >>> safe_text("a\x1b[31mb")
    'a\\x1b[31mb'
    """
    if len(text) <= limit and text.isascii() and text.isprintable():  # nearly all names, many times over
        return text
    shown = "".join(c if unicodedata.category(c) not in _UNSAFE_CATEGORIES else _escape(c) for c in text[: limit * 4])
    if len(text) <= limit and len(shown) <= limit * 2:
        return shown
    half = limit // 2
    tail = "".join(c if unicodedata.category(c) not in _UNSAFE_CATEGORIES else _escape(c) for c in text[-half:])
    return f"{shown[:half]}…{tail} ({len(text):,} characters)"


def _escape(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
