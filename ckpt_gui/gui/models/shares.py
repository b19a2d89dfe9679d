"""The overview of a checkpoint in the words and bars of its page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ckpt_gui.core.file_map import FileUse
from ckpt_gui.core.overview import Load, Overview, Share
from ckpt_gui.core.tensors import TensorRef
from ckpt_gui.core.text import human_bytes, plural
from ckpt_gui.dataclasses import dataclass

MOST_ROLES = 24  # kinds of matrices that are told one by one


@dataclass(frozen=True, slots=True)
class Bar:
    """One row.

    Attributes:
        name: Its name.
        size: What the length of the bar stands for.
        text: The figures at its end.
        tip: What the tool tip and a screen reader say besides.
    """

    name: str
    size: float
    text: str
    tip: str = ""


def number_in(name: str) -> int | None:
    """Return the number of a layer or an expert; None of what is neither.

    >>> number_in("layer 3"), number_in("outside the layers")
    (3, None)
    """
    last = name.rpartition(" ")[2]
    return int(last) if last.isdigit() else None


def share_bars(shares: Iterable[Share], total: int) -> list[Bar]:
    """Return shares as bars of bytes, each with its share of all."""
    return [
        Bar(
            share.name,
            share.nbytes,
            f"{human_bytes(share.nbytes)} · {percent(share.nbytes, total)}",
            f"{plural(share.tensors, 'tensor')}, {share.parameters:,} parameters",
        )
        for share in shares
    ]


def role_bars(overview: Overview) -> list[Bar]:
    """Return the kinds of matrices, the heaviest first; the many light ones of an unknown model are one bar."""
    roles = sorted(overview.by_role, key=lambda share: -share.nbytes)
    kept, rest = roles[:MOST_ROLES], roles[MOST_ROLES:]
    bars = share_bars(kept, overview.nbytes)
    if rest:
        nbytes = sum(share.nbytes for share in rest)
        tensors = sum(share.tensors for share in rest)
        text = f"{human_bytes(nbytes)} · {percent(nbytes, overview.nbytes)}"
        bars.append(Bar(f"{len(rest):,} others", nbytes, text, plural(tensors, "tensor")))
    return bars


def load_bars(loads: Sequence[Load]) -> list[Bar]:
    """Return what loading takes, by type."""
    return [Bar(load.name, load.nbytes, human_bytes(load.nbytes), load.note) for load in loads]


def tensor_bars(refs: Iterable[TensorRef]) -> list[Bar]:
    """Return tensors as bars of their bytes."""
    return [
        Bar(ref.full_key, ref.nbytes, human_bytes(ref.nbytes), f"{ref.dtype}, {' × '.join(map(str, ref.shape))}")
        for ref in refs
    ]


def file_bars(files: Iterable[FileUse]) -> list[Bar]:
    """Return files as bars of their sizes, with what they hold and what they take on the disk."""
    return [Bar(file.name, file.size, human_bytes(file.size), file_words(file)) for file in files]


def file_words(file: FileUse) -> str:
    """Return how a file is filled, in a sentence."""
    words = f"{plural(file.tensors, 'tensor')} of {human_bytes(file.nbytes)}, {percent(file.nbytes, file.size)} of it"
    if file.on_disk is not None and file.on_disk < 0.98 * file.size:
        words += f"; {human_bytes(file.on_disk)} on the disk (holes or compression)"
    return words


def percent(part: int, whole: int) -> str:
    """Return a share of a whole.

    >>> percent(1, 3), percent(1, 1), percent(1, 1_000_000), percent(1, 0)
    ('33.3 %', '100 %', '< 0.1 %', '–')
    """
    if not whole:
        return "–"
    share = 100 * part / whole
    return "< 0.1 %" if 0 < share < 0.1 else f"{share:.3g} %"
