"""What a filter looks at: the same few facts of a tensor, whether it is a row of a diff, of a comparison or a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple, TypeVar, cast

# Segments after which a layer's or an expert's number stands; without one the first number of a key is the layer's.
_LAYERS = frozenset({"layers", "layer", "h", "blk", "block", "blocks", "resblocks"})
_EXPERTS = frozenset({"experts", "expert", "local_experts", "shared_experts"})
T = TypeVar("T")


class Subject(NamedTuple):  # no dataclass: 100,000 of them are made before the first key stroke has its answer
    """A tensor as a filter sees it.

    Attributes:
        text: The names in lower case, with line breaks between them.
        names: Its names; the last is the one that says best where it belongs.
        state: How it compares; empty where nothing is compared.
        dtype: Short name of the element type, or of the blocks of a quantised tensor: `q4_k`.
        shape: Sizes, None for one that is not known; None if no size is known.
        nbytes: Bytes in the file.
        file: Name of the file that holds it.
    """

    text: str
    names: tuple[str, ...]
    state: str = ""
    dtype: str = ""
    shape: Sequence[int | None] | None = None
    nbytes: int = 0
    file: str = ""


def subject(
    names: tuple[str, ...], state: str = "", dtype: str = "", shape: Sequence[int | None] | None = None,
    nbytes: int = 0, file: str = "",
) -> Subject:  # fmt: skip
    """Return a tensor as a filter sees it (see `Subject`)."""
    return Subject(text_of(names), names, state, dtype, shape, nbytes, file)


def text_of(names: Sequence[str]) -> str:
    """Return names as words are looked for in them; what is in lower case already takes no room of its own."""
    text = names[0] if len(names) == 1 else "\n".join(names)
    lower = text.lower()
    return text if lower == text else lower


class Subjects:
    """Many tensors as a filter sees them: their names at once, all else when a term asks for it.

    Most filters are words. 500,000 texts are made in a fifth of a second, and share what the tensors' own names take;
    so many subjects take seconds and 200 MB.

    Args:
        texts: The names of each in lower case, with line breaks between them.
        make: Makes the tensors.

    Attributes:
        texts: As given.
    """

    __slots__ = ("_asked", "_made", "_make", "texts")

    def __init__(self, texts: Sequence[str], make: Callable[[], Sequence[Subject]]) -> None:
        self.texts = texts
        self._make = make
        self._made: Sequence[Subject] | None = None
        self._asked: dict[Callable[[Subject], object], Sequence[object]] = {}

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.texts)

    def whole(self) -> Sequence[Subject]:
        """Return them with all that can be asked of them; made on the first call."""
        if self._made is None:
            self._made = self._make()
        return self._made

    def answers(self, of: Callable[[Subject], T]) -> Sequence[T]:
        """Return what a function says of each; asked once, and remembered for the next key stroke."""
        known = self._asked.get(of)
        if known is None:
            known = self._asked[of] = [of(each) for each in self.whole()]
        return cast(Sequence[T], known)


@lru_cache(maxsize=1 << 17)  # asked again with every key stroke
def layer_of(key: str) -> int | None:
    """Return the number of the layer that a name speaks of.

    >>> layer_of("model.layers.3.mlp.experts.7.w1.weight"), layer_of("norm.weight")
    (3, None)
    """
    first = None
    segments = key.split(".")
    for before, segment in zip(["", *segments], segments, strict=False):
        if _is_number(segment) and before not in _EXPERTS:
            if before in _LAYERS:
                return int(segment)
            first = int(segment) if first is None else first
    return first


@lru_cache(maxsize=1 << 17)
def expert_of(key: str) -> int | None:
    """Return the number of the expert that a name speaks of.

    >>> expert_of("model.layers.3.mlp.experts.7.w1.weight"), expert_of("model.layers.3.mlp.gate.weight")
    (7, None)
    """
    segments = key.split(".")
    return next(
        (int(number) for before, number in pairwise(segments) if before in _EXPERTS and _is_number(number)), None
    )


def _is_number(segment: str) -> bool:
    return segment.isdigit() and segment.isascii() and len(segment) < 5
