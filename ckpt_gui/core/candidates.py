"""Which expected tensor a stored one may be: those of its shape first, then by how much their names differ."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass

from ckpt_gui.core.keys import indices, template
from ckpt_gui.core.passes.check import expected, stored_name
from ckpt_gui.core.plan import Plan
from ckpt_gui.core.tensors import TensorRef

MOST = 12
LONGEST = 120  # characters of a name that are compared


@dataclass(frozen=True, slots=True)
class Candidate:
    """One expected tensor.

    Attributes:
        key: Its name in the file's own layout: what the stored one would be called.
        hub: Its name in the family's hub layout.
        shape: Its shape; None where a size is not known.
        fits: True if the stored tensor has this shape.
        missing: True if nothing in the file is it yet.
        distance: Edits between the two names, with numbers that differ counted more.
    """

    key: str
    hub: str
    shape: tuple[int | None, ...]
    fits: bool
    missing: bool
    distance: int


def candidates(plan: Plan, ref: TensorRef, key: str, most: int = MOST) -> tuple[Candidate, ...]:
    """Return the expected tensors that a stored one may be, the likeliest first.

    Args:
        plan: The checkpoint understood.
        ref: The stored tensor.
        key: Its name without wrappers.
        most: How many are returned at most.
    """
    if plan.layout is None:
        return ()
    return tuple(heapq.nsmallest(most, _all(plan, ref, key), key=_rank))


def _all(plan: Plan, ref: TensorRef, key: str) -> Iterator[Candidate]:
    assert plan.layout is not None
    missing = {spec.key for spec in plan.missing}
    near: dict[str, int] = {}
    for _, hub, shape in expected(plan):
        name = stored_name(plan.layout, hub)
        shape_name = template(name)
        if shape_name not in near:
            near[shape_name] = distance(template(key)[-LONGEST:], shape_name[-LONGEST:])
        apart = near[shape_name] + (0 if indices(key) == indices(name) else 3)
        yield Candidate(name, hub, shape, _fits(shape, ref.shape), hub in missing, apart)


def _fits(wanted: tuple[int | None, ...], shape: tuple[int, ...]) -> bool:
    return len(wanted) == len(shape) and all(w in (None, s) for w, s in zip(wanted, shape, strict=True))


def _rank(each: Candidate) -> tuple[bool, bool, int, str]:
    return (not each.fits, not each.missing, each.distance, each.key)


def distance(one: str, other: str) -> int:
    """Return the number of characters to be put in, taken out or changed to make one text of another.

    >>> distance("wq.weight", "q_proj.weight"), distance("a", "a")
    (6, 0)
    """
    before = list(range(len(other) + 1))
    for place, a in enumerate(one, 1):
        now = [place]
        for at, b in enumerate(other, 1):
            now.append(min(before[at] + 1, now[at - 1] + 1, before[at - 1] + (a != b)))
        before = now
    return before[-1]
