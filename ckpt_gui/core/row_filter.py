"""The filter over the rows of a diff: what its text asks for, and what it has found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Filter:
    """What the filter text asks for. Several states or types are alternatives; everything else must hold together.

    Attributes:
        words: Texts that the key or the expected key contains, in lower case.
        without: Texts that they do not contain.
        states: States wanted; empty for all.
        no_states: States not wanted.
        dtypes: Types wanted; empty for all.
        no_dtypes: Types not wanted.
    """

    words: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    states: frozenset[str] = frozenset()
    no_states: frozenset[str] = frozenset()
    dtypes: frozenset[str] = frozenset()
    no_dtypes: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        """Return False if it lets everything pass."""
        return any((self.words, self.without, self.states, self.no_states, self.dtypes, self.no_dtypes))


@dataclass(frozen=True, slots=True)
class Hits:
    """What a filter found.

    Attributes:
        rows: Numbers of the rows, in the diff's order.
        counts: Rows of each state that the rest of the filter lets pass, whichever states it asks for.
    """

    rows: Sequence[int]
    counts: Mapping[str, int] = field(default_factory=dict)


def parse_filter(text: str) -> Filter:
    """Read the filter box.

    Words must all be in the key. `state:` and `dtype:` take a name, or several with commas. `!` negates a term.

    >>> parse_filter("wq !layers.0 state:missing,extra dtype:BF16").words
    ('wq',)
    """
    words: list[str] = []
    without: list[str] = []
    sets: dict[tuple[str, bool], set[str]] = {}
    for term in text.lower().split():
        negated = term.startswith("!")
        name, colon, value = term.lstrip("!").partition(":")
        if colon and name in ("state", "dtype"):
            sets.setdefault((name, negated), set()).update(v for v in value.split(",") if v)
        elif term.lstrip("!"):
            (without if negated else words).append(term.lstrip("!"))
    named = (frozenset(sets.get((n, neg), ())) for n in ("state", "dtype") for neg in (False, True))
    return Filter(tuple(words), tuple(without), *named)


def with_states(text: str, states: Iterable[str]) -> str:
    """Return a filter text with its wanted states replaced.

    >>> with_states("wq state:same", ["missing", "extra"])
    'wq state:missing,extra'
    """
    kept = [term for term in text.split() if not term.lower().startswith("state:")]
    names = ",".join(states)
    return " ".join([*kept, f"state:{names}"] if names else kept)
