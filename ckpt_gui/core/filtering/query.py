"""A filter text once it is read: terms that must all hold, each with alternatives, and sentences for what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from difflib import get_close_matches

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.filtering import values
from ckpt_gui.core.filtering.lexer import Token, quoted, tokens
from ckpt_gui.core.filtering.subject import Subject, Subjects
from ckpt_gui.core.filtering.values import Amount, Named, Value, ValueProblem, Word
from ckpt_gui.core.keys import safe_text
from ckpt_gui.dataclasses import dataclass

LONGEST = 2000  # characters of a filter text


class FilterError(CheckpointError):
    """A filter text that can not be read.

    Attributes:
        start: Its first character that is wrong.
        length: How many are.
        unfinished: True if what is wrong could become right by going on writing at its end.
    """

    def __init__(self, message: str, start: int, length: int, *, unfinished: bool = False) -> None:
        """Keep the place."""
        super().__init__("bad-filter", message)
        self.start, self.length, self.unfinished = start, length, unfinished


@dataclass(frozen=True, slots=True)
class Field:
    """What can be asked for.

    Attributes:
        name: What stands before the colon; empty for a bare word.
        example: A term.
        meaning: What it asks for, in a few words.
        read: Reads a value; None for states, which depend on what is compared.
        commas: True if alternatives may also stand between commas.
        whole: True if bars are part of the value.
    """

    name: str
    example: str
    meaning: str
    read: Callable[[str], Value] | None
    commas: bool = False
    whole: bool = False


FIELDS: tuple[Field, ...] = (
    Field("", "q_proj", "has this in its name", values.read_word),
    Field("glob", "glob:*.q_proj.weight", "a whole name; * is anything, ? one character", values.read_glob),
    Field("re", r"re:layers\.\d+\.w[qk]", "a regular expression in its name", values.read_regex, whole=True),
    Field("dtype", "dtype:bf16|fp32", "its type, by any name; also fp8, q4_k", values.read_dtype, commas=True),
    Field("shape", "shape:(_,4096)", "its shape; also 128256x2048, or 2d for matrices", values.read_shape),
    Field("size", "size:>1MiB", "its bytes; also <, <=, >=, 1MiB..1GiB", values.read_size),
    Field("params", "params:>1M", "its number of elements", values.read_params),
    Field("layer", "layer:0-7", "its layer", values.read_layer, commas=True),
    Field("expert", "expert:3", "its expert", values.read_expert, commas=True),
    Field("part", "part:attention", "embedding, head, experts, attention, feed-forward, norms, other",
          values.read_part, commas=True),
    Field("shard", "shard:00002", "has this in its file's name", values.read_shard),
    Field("state", "state:missing|extra", "how it compares", None, commas=True),
)  # fmt: skip
_BY_NAME = {known.name: known for known in FIELDS}


@dataclass(frozen=True, slots=True)
class Term:
    """One condition.

    Attributes:
        field: Name of its field; empty for a bare word.
        values: The alternatives.
        negated: True if none of them may hold.
    """

    field: str
    values: tuple[Value, ...]
    negated: bool = False

    @property
    def text(self) -> str:
        """How it is written."""
        written = "|".join(quoted(value.text) for value in self.values)
        return f"{'!' * self.negated}{self.field}{':' * bool(self.field)}{written}"

    def matches(self, tensor: Subject) -> bool:
        """Return whether it holds of a tensor."""
        for value in self.values:  # a loop: `any` makes a generator for every tensor
            if value.fits(tensor):
                return not self.negated
        return self.negated

    def select(self, tensors: Subjects, numbers: Sequence[int]) -> Sequence[int]:
        """Return those of the numbers of whose tensors it holds, in order."""
        words = [value.text for value in self.values if isinstance(value, Word)]
        if len(words) < len(self.values):
            return self._select(tensors, numbers)
        texts, negated = tensors.texts, self.negated
        if len(words) == 1:  # a call for each of 500,000 tensors would take five times as long
            [word] = words
            return [n for n in numbers if (word in texts[n]) is not negated]
        return [n for n in numbers if any(word in texts[n] for word in words) is not negated]

    def _select(self, tensors: Subjects, numbers: Sequence[int]) -> Sequence[int]:
        asked = [value for value in self.values if isinstance(value, Amount | Named)]
        if len(asked) < len(self.values):
            whole, passes = tensors.whole(), self.matches
            return [n for n in numbers if passes(whole[n])]
        answers = tensors.answers(asked[0].of)  # a field asks the same of every alternative
        verdicts = {answer: any(value.takes(answer) for value in asked) is not self.negated for answer in set(answers)}
        return [n for n in numbers if verdicts[answers[n]]]


@dataclass(frozen=True, slots=True)
class Query:
    """What a filter text asks for: all terms must hold. One without terms lets everything pass."""

    terms: tuple[Term, ...] = ()

    def __bool__(self) -> bool:
        """Return False if it lets everything pass."""
        return bool(self.terms)

    @property
    def text(self) -> str:
        """Its text in the one form that each query has: reading it gives an equal query."""
        return " ".join(term.text for term in self.terms)

    @property
    def states(self) -> frozenset[str]:
        """The states that it names and wants."""
        wanted = (t for t in self.terms if t.field == "state" and not t.negated)
        return frozenset(value.text for term in wanted for value in term.values)

    def of_states(self) -> Query:
        """Return only what it asks of the state."""
        return Query(tuple(term for term in self.terms if term.field == "state"))

    def without_states(self) -> Query:
        """Return what it asks besides of the state."""
        return Query(tuple(term for term in self.terms if term.field != "state"))

    def matches(self, tensor: Subject) -> bool:
        """Return whether it lets a tensor pass."""
        return all(term.matches(tensor) for term in self.terms)

    def matches_pair(self, sides: Sequence[Subject]) -> bool:
        """Return whether it lets a tensor of several sides pass: a term holds if it does of one, with `!` of all."""
        return all((all if term.negated else any)(map(term.matches, sides)) for term in self.terms)

    def select(self, tensors: Subjects, numbers: Sequence[int]) -> Sequence[int]:
        """Return those of the numbers whose tensors pass, in order; found term by term."""
        for term in self.terms:
            numbers = term.select(tensors, numbers)
        return numbers


def read_query(text: str, states: Collection[str] = ()) -> Query:
    """Read a filter text.

    Args:
        text: Terms with spaces between them (see `FIELDS`); `!` before one negates it, `|` stands between
            alternatives, and quotes around what has spaces or is not to be taken for a field.
        states: The states that there can be; empty where nothing is compared.

    Raises:
        FilterError: A term is not right; the sentence names it and its place.

    >>> read_query('WQ !layer:0..3 dtype:BF16,half size:>1048576').text
    'wq !layer:0..3 dtype:bf16|fp16 size:>1MiB'
    """
    if len(text) > LONGEST:
        raise FilterError(f"The filter is longer than {LONGEST:,} characters.", LONGEST, len(text) - LONGEST)
    found = tokens(text)
    try:
        return Query(tuple(_term(token, states) for token in found))
    except FilterError as error:
        error.unfinished &= error.start + error.length == len(text)
        raise


def _term(token: Token, states: Collection[str]) -> Term:
    field = _BY_NAME.get(token.field)
    if field is None:
        raise _error(token, f"there is no {token.field}:{_meant(token.field)} Put a name with a colon in quotes")
    if token.is_open:
        raise _error(token, "its quote is not closed", unfinished=True)
    parts = (token.whole,) if field.whole else token.parts
    if field.commas:
        parts = tuple(piece for part in parts for piece in part.split(","))
    if not all(parts):
        empty = "an alternative is empty; write them without spaces, as in wq|wk"
        problem = empty if "|" in token.value else "nothing stands after it"
        raise _error(token, problem, unfinished=not parts[-1])
    return Term(field.name, tuple(dict.fromkeys(_value(field, token, part, states) for part in parts)), token.negated)


def _value(field: Field, token: Token, part: str, states: Collection[str]) -> Value:
    try:
        return field.read(part) if field.read else values.read_state(part, states)
    except ValueProblem as problem:
        subject = "a state" if field.read is None and not states else safe_text(part, 40)
        is_last = token.raw.endswith(part)
        raise _error(token, f"{subject} {problem}", unfinished=problem.unfinished and is_last) from problem


def _meant(name: str) -> str:
    close = get_close_matches(name, [known for known in _BY_NAME if known], 1)
    return f"; did you mean {close[0]}:?" if close else "."


def _error(token: Token, problem: str, *, unfinished: bool = False) -> FilterError:
    place = f"`{safe_text(token.raw, 60)}` at character {token.start + 1} of the filter"
    return FilterError(f"{place}: {problem}.", token.start, len(token.raw), unfinished=unfinished)
