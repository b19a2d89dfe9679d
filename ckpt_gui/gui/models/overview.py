"""What the inspector says of many tensors at once: a group of the tree, or the whole checkpoint."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable
from operator import itemgetter

from ckpt_gui.core.diff import Row
from ckpt_gui.core.row_tree import Node, RowTree
from ckpt_gui.core.rows import refs_of, states_of
from ckpt_gui.core.tree import CheckpointIndex
from ckpt_gui.dataclasses import dataclass

LARGEST = 5
MANY = 20_000  # rows of a group that are looked at one by one without a job


@dataclass(frozen=True, slots=True)
class Overview:
    """A group in figures.

    Attributes:
        name: Its name in the tree; empty for the whole checkpoint.
        tensors: Tensors in it, stored or missing.
        nbytes: Bytes of the stored ones.
        states: State → tensors, in the order of attention.
        dtypes: Element type → bytes, the largest share first; empty where there are too many tensors to look at.
        largest: The largest tensors.
    """

    name: str
    tensors: int
    nbytes: int
    states: tuple[tuple[str, int], ...]
    dtypes: tuple[tuple[str, int], ...] = ()
    largest: tuple[Row, ...] = ()


def whole(index: CheckpointIndex) -> Overview:
    """Return the overview of everything. Looks at every row, so it is made with the snapshot, in a job."""
    return _overview(index, index.root, range(len(index.rows)))


def group(tree: RowTree, node: Node) -> Overview:
    """Return the overview of a node; of a very large one without what takes a look at every row."""
    return _overview(tree, node, tree.numbers_of(node) if node.size <= MANY else ())


def _overview(index: RowTree, node: Node, numbers: Iterable[int]) -> Overview:
    rows, refs, states = index.rows, refs_of(index.rows), states_of(index.rows)
    dtypes: Counter[str] = Counter()
    largest: list[tuple[int, int]] = []  # bytes, and the number of the row
    for number in numbers:  # of which there may be 500,000: no row is made but of the largest
        ref = refs[number] if number < len(refs) else None
        if ref is None or states[number] == "aside":
            continue
        nbytes = ref.nbytes
        dtypes[ref.dtype] += nbytes
        if len(largest) < LARGEST or nbytes > largest[-1][0]:
            largest = heapq.nlargest(LARGEST, [*largest, (nbytes, number)], key=itemgetter(0))
    name = index.title(node) if node.parent is not None else ""
    return Overview(
        name, node.size, index.nbytes(node), tuple(index.counts(node).items()), tuple(dtypes.most_common()),
        tuple(rows[number] for _, number in largest),
    )  # fmt: skip
