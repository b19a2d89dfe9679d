"""What a term of a filter can ask for: words, patterns, names, shapes and ranges, each with its text and its answer."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Collection
from typing import Protocol

from ckpt_gui.core import patterns
from ckpt_gui.core.dtypes import DTYPES
from ckpt_gui.core.filtering.bounds import BYTES, COUNTS, NONE, Bounds, read_bounds
from ckpt_gui.core.filtering.subject import Subject, expert_of, layer_of
from ckpt_gui.core.formats.gguf import DECODED
from ckpt_gui.core.roles import PARTS, part_of
from ckpt_gui.dataclasses import dataclass, field

_RANK = re.compile(r"([0-9]{1,2})d", re.IGNORECASE)
_ANY = ("_", "?", "*")
_UNFINISHED = re.compile(r"[<>]?=?|.*[.-]")  # a range that could go on


class ValueProblem(ValueError):
    """A value that a field can not have: its text says what is expected instead, to go on after `it`.

    Attributes:
        unfinished: True if it could become one by going on.
    """

    def __init__(self, text: str, *, unfinished: bool = False) -> None:
        super().__init__(text)
        self.unfinished = unfinished


class Value(Protocol):
    """One alternative of a term."""

    @property
    def text(self) -> str:
        """How it is written, without quotes."""
        ...

    def fits(self, tensor: Subject) -> bool:
        """Return whether it holds of a tensor."""
        ...


@dataclass(frozen=True, slots=True)
class Word:
    """Text that one of the names has in it, in lower case."""

    text: str

    def fits(self, tensor: Subject) -> bool:
        """Return whether a name has it."""
        return self.text in tensor.text


@dataclass(frozen=True, slots=True)
class Pattern:
    """A regular expression found somewhere in a name, or a glob that fits a whole one."""

    text: str
    compiled: re.Pattern[str] = field(compare=False, repr=False)
    whole: bool = False

    def fits(self, tensor: Subject) -> bool:
        """Return whether a name fits."""
        found = self.compiled.match if self.whole else self.compiled.search
        for name in tensor.names:  # noqa: SIM110 - `any` makes a generator for every tensor
            if len(name) <= patterns.LONGEST_NAME and found(name):
                return True
        return False


@dataclass(frozen=True, slots=True)
class Named:
    """A type, a state or a part of the model, by name."""

    text: str
    names: frozenset[str]
    of: Callable[[Subject], str] = field(repr=False)

    def fits(self, tensor: Subject) -> bool:
        """Return whether it is the tensor's."""
        return self.takes(self.of(tensor))

    def takes(self, name: object) -> bool:
        """Return whether it is one of those that are meant."""
        return name in self.names


@dataclass(frozen=True, slots=True)
class Shard:
    """Part of a file's name, in lower case."""

    text: str

    def fits(self, tensor: Subject) -> bool:
        """Return whether the tensor lies in such a file."""
        return self.text in tensor.file.lower()


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes, of which None may be any; or only how many there are."""

    sizes: tuple[int | None, ...] | None
    rank: int

    @property
    def text(self) -> str:
        """Return it as it is written."""
        if self.sizes is None:
            return f"{self.rank}d"
        return f"({','.join('_' if size is None else str(size) for size in self.sizes)})"

    def fits(self, tensor: Subject) -> bool:
        """Return whether the tensor has it; a size that is not known has none."""
        shape = tensor.shape
        if shape is None or len(shape) != self.rank:
            return False
        return self.sizes is None or all(w is None or w == s for w, s in zip(self.sizes, shape, strict=True))


@dataclass(frozen=True, slots=True)
class Amount:
    """A range of a number of the tensor: its bytes, its elements, its layer or its expert."""

    bounds: Bounds
    units: dict[str, int] = field(compare=False, repr=False, hash=False)
    of: Callable[[Subject], int | None] = field(repr=False)

    @property
    def text(self) -> str:
        """Return it as it is written."""
        return self.bounds.text(self.units)

    def fits(self, tensor: Subject) -> bool:
        """Return whether the tensor has such a number."""
        return self.takes(self.of(tensor))

    def takes(self, number: object) -> bool:
        """Return whether a number is in the range; None is in no range."""
        low, high = self.bounds.low, self.bounds.high
        return isinstance(number, int) and (low is None or number >= low) and (high is None or number <= high)


# ------------------------------------------------------------------------------------------------------------- reading


def read_word(text: str) -> Value:
    """Return a word."""
    return Word(text.lower())


def read_shard(text: str) -> Value:
    """Return a part of a file's name."""
    return Shard(text.lower())


def read_regex(text: str) -> Value:
    """Return a regular expression."""
    try:
        return Pattern(text, patterns.regex(text))
    except patterns.PatternError as error:
        raise ValueProblem(str(error), unfinished=error.unfinished) from error


def read_glob(text: str) -> Value:
    """Return a pattern for whole names."""
    try:
        return Pattern(text, patterns.glob(text), whole=True)
    except patterns.PatternError as error:
        raise ValueProblem(str(error), unfinished=error.unfinished) from error


def read_dtype(text: str) -> Value:
    """Return a type by any of its names, or several by what their names begin with, such as `fp8`."""
    wanted = text.lower()
    for dtype in DTYPES:
        if wanted in _ALIASES[dtype.name]:
            return Named(dtype.name, frozenset({dtype.name}), _dtype_of)
    if wanted in _BLOCK_TYPES:
        return Named(wanted, frozenset({wanted}), _dtype_of)
    group = frozenset(name for name in _TYPES if name.startswith(f"{wanted}_"))
    if not group:
        known = ", ".join(d.name for d in DTYPES[:4])
        begins = any(name.startswith(wanted) for name in (*_TYPES, *itertools.chain(*_ALIASES.values())))
        raise ValueProblem(f"is no type; there is {known}, fp8, q4_k and more", unfinished=begins)
    return Named(wanted, group, _dtype_of)


def read_part(text: str) -> Value:
    """Return a part of the model."""
    return _one_of(text, PARTS, "part of a model", _part_of)


def read_state(text: str, states: Collection[str]) -> Value:
    """Return one of the states that there can be."""
    if not states:
        raise ValueProblem("can not be asked for here, where nothing is compared")
    return _one_of(text, states, "state", _state_of)


def read_shape(text: str) -> Value:
    """Return a shape: `(_,4096)`, `128256x2048`, or how many sizes it has, `2d`."""
    rank = _RANK.fullmatch(text)
    if rank:
        return Shape(None, int(rank[1]))
    bare = text[1:-1] if text[:1] + text[-1:] in ("()", "[]") else text
    words = [word.strip() for word in re.split("[,x×]", bare.removesuffix(","), flags=re.IGNORECASE)] if bare else []
    if not all(word in _ANY or (word.isascii() and word.isdigit() and len(word) < 19) for word in words):
        unfinished = all(c in "0123456789_?*,x×X([" for c in text)
        raise ValueProblem("is no shape; write (_,4096) without spaces, 128256x2048 or 2d", unfinished=unfinished)
    sizes = tuple(None if word in _ANY else int(word) for word in words)
    return Shape(sizes, len(sizes))


def read_size(text: str) -> Value:
    """Return a range of bytes."""
    return _amount(text, BYTES, _bytes_of, "is no size; write >1MiB, <=500KB or 1MiB..1GiB")


def read_params(text: str) -> Value:
    """Return a range of a number of elements."""
    return _amount(text, COUNTS, _params_of, "is no number of parameters; write >1M, <=4096 or 1M..2B")


def read_layer(text: str) -> Value:
    """Return a range of layers."""
    return _amount(text, NONE, _layer_of, "is no layer; write 3, 0-7 or >20")


def read_expert(text: str) -> Value:
    """Return a range of experts."""
    return _amount(text, NONE, _expert_of, "is no expert; write 3, 0-7 or >20")


def _one_of(text: str, known: Collection[str], what: str, of: Callable[[Subject], str]) -> Value:
    name = text.lower()
    if name not in known:
        begins = any(each.startswith(name) for each in known)
        raise ValueProblem(f"is no {what}; there is {', '.join(known)}", unfinished=begins)
    return Named(name, frozenset({name}), of)


def _amount(text: str, units: dict[str, int], of: Callable[[Subject], int | None], problem: str) -> Value:
    bounds = read_bounds(text, units)
    if bounds is None:
        raise ValueProblem(problem, unfinished=_UNFINISHED.fullmatch(text) is not None)
    return Amount(bounds, units, of)


# ------------------------------------------------------------------------------------------- what is asked of a tensor

# Every name of a type, as safetensors, torch and people write it.
_MORE = {"fp16": "half", "fp32": "float", "fp64": "double", "fp8_e4m3": "e4m3", "fp8_e5m2": "e5m2"}
_ALIASES = {
    d.name: frozenset(n.lower() for n in (d.name, d.safetensors, d.torch, _MORE.get(d.name)) if n) for d in DTYPES
}


_BLOCK_TYPES = frozenset(kind.lower() for kind in DECODED)  # of GGUF
_TYPES = (*(d.name for d in DTYPES), *sorted(_BLOCK_TYPES))


def _dtype_of(tensor: Subject) -> str:
    return tensor.dtype


def _state_of(tensor: Subject) -> str:
    return tensor.state


def _part_of(tensor: Subject) -> str:
    return part_of(tensor.names[-1])


def _bytes_of(tensor: Subject) -> int:
    return tensor.nbytes


def _params_of(tensor: Subject) -> int | None:
    known = [size for size in tensor.shape or () if size is not None]
    return math.prod(known) if tensor.shape is not None and len(known) == len(tensor.shape) else None


def _layer_of(tensor: Subject) -> int | None:
    return layer_of(tensor.names[-1])


def _expert_of(tensor: Subject) -> int | None:
    return expert_of(tensor.names[-1])
