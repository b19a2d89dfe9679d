"""Names that differ in their numbers only, folded into one: `model.layers.0-11.mlp.up_proj.weight`."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from ckpt_gui.core.keys import indices, natural, template

MOST_RANGES = 6  # of one index; more are counted and not listed
Numbers = tuple[int, ...]


def fold_names(named: Iterable[tuple[str, Hashable]]) -> list[tuple[tuple[str, ...], list[int]]]:
    """Fold names of one pattern and one kind, in natural order.

    Args:
        named: A name, and what all of a fold must have in common. Names of one kind are unlike.

    Returns:
        Of each fold the ranges that stand for the name's numbers, and the places of its members in `named`.

    >>> fold_names([("a.0.w", 1), ("a.1.w", 1), ("a.2.w", 2)])
    [(('0-1',), [0, 1]), (('2',), [2])]
    """
    names: list[str] = []
    groups: dict[object, dict[Numbers, int]] = {}
    for place, (name, kind) in enumerate(named):
        names.append(name)
        groups.setdefault((template(name), kind), {})[indices(name)] = place
    folds = []
    for by_numbers in groups.values():
        for texts, members in _ranges(sorted(by_numbers)):
            folds.append((texts, [by_numbers[numbers] for numbers in members]))
    return sorted(folds, key=lambda made: natural(names[made[1][0]]))


def folded(name: str, texts: Sequence[str]) -> str:
    """Put ranges in the place of a name's numbers, if it has as many.

    >>> folded("a.0.w", ["0-1"])
    'a.0-1.w'
    """
    return template(name).format(*texts) if len(indices(name)) == len(texts) else name


def _ranges(numbers: Sequence[Numbers]) -> list[tuple[tuple[str, ...], list[Numbers]]]:
    """Return ranges, one a position, that together stand for exactly these numbers, and the numbers of each."""
    if not numbers or not numbers[0]:
        return [((), list(numbers))] if numbers else []
    rests: dict[int, list[Numbers]] = {}
    for first, *rest in numbers:
        rests.setdefault(first, []).append(tuple(rest))
    alike: dict[tuple[Numbers, ...], list[int]] = {}
    for first, tails in rests.items():
        alike.setdefault(tuple(tails), []).append(first)
    return [
        ((ranges(firsts), *texts), [(first, *tail) for first in firsts for tail in members])
        for tails_alike, firsts in alike.items()
        for texts, members in _ranges(tails_alike)
    ]


def ranges(numbers: Sequence[int]) -> str:
    """Return rising numbers as ranges.

    >>> ranges([0, 1, 2, 3]), ranges([0, 1, 2, 5]), ranges([7])
    ('0-3', '{0-2,5}', '7')
    """
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    texts = [str(low) if low == high else f"{low}-{high}" for low, high in runs]
    if len(texts) == 1:
        return texts[0]
    more = [f"… {len(numbers)} in all"] if len(texts) > MOST_RANGES else []
    return "{" + ",".join([*texts[:MOST_RANGES], *more]) + "}"
