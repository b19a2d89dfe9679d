"""Compare the values of matched tensors: two workers, bounded memory, whatever is done when it is stopped.

Each pair is read up to its first difference; only then is it tried whether its values are in another order, and
measured how far apart the two are. At the end tensors that have changed places are looked for.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from ckpt_gui.core.compare.blocks import Asked, Watch, in_one_type, in_types, same, to_measure
from ckpt_gui.core.compare.measure import measure
from ckpt_gui.core.compare.orders import corners_agree, orders
from ckpt_gui.core.compare.pairing import Sides, rotary
from ckpt_gui.core.compare.places import SAME_BYTES, find_places
from ckpt_gui.core.compare.result import BUDGET, HEADS, STOPPED, Row, Side
from ckpt_gui.core.cores import WORKERS
from ckpt_gui.core.dtypes import num_bytes
from ckpt_gui.core.errors import Cancelled, CheckpointError
from ckpt_gui.core.keys import template
from ckpt_gui.core.remote.watch import adopt, current
from ckpt_gui.dataclasses import dataclass, field

COMPARED = ("fits", "dtype", "renamed", "vocab", "untied", "tied")  # states that values can tell more of
Progress = Callable[[str, int, int], None]
Found = Callable[[int, Row], None]


@dataclass(frozen=True, slots=True)
class Wanted:
    """How values are compared.

    Attributes:
        measured: True to measure how far apart different tensors are.
        budget: Bytes that may be read at most; None for all.
        workers: Threads.
        progress: Called with a label, bytes done and bytes in all.
        cancelled: Asked before each block.
        found: Called with a row's number and the row as soon as it is known, by one thread at a time.
    """

    measured: bool = True
    budget: int | None = None
    workers: int = WORKERS
    progress: Progress | None = None
    cancelled: Asked | None = None
    found: Found | None = None


def compare_values(a: Side, b: Side, rows: Sequence[Row], wanted: Wanted) -> tuple[tuple[Row, ...], bool]:
    """Return the rows with what their values tell, and whether it was stopped before the end."""
    work = _Work(a, b, rows, wanted)
    with ThreadPoolExecutor(
        max(wanted.workers, 1), thread_name_prefix="compare", initializer=adopt, initargs=(current(),)
    ) as pool:
        for _ in pool.map(work.take, work.waiting):
            pass
    if not work.stopped.is_set():
        try:
            return find_places(work.sides, work.rows, work.is_stopped), False
        except Cancelled:
            return tuple(work.rows), True
    return tuple(work.rows), True


@dataclass(slots=True)
class _Meter:
    """Counts the bytes of all workers."""

    total: int
    progress: Progress | None
    done: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, count: int) -> None:
        with self.lock:
            self.done += count
            if self.progress:
                self.progress("Comparing values", min(self.done, self.total), self.total)


class _Work:
    """One comparison under way."""

    def __init__(self, a: Side, b: Side, rows: Sequence[Row], wanted: Wanted) -> None:
        self.sides, self.wanted = Sides(a, b), wanted
        self.rotary = rotary(a.family or b.family)
        self.rows = list(rows)
        self.stopped = threading.Event()
        self.lock = threading.Lock()
        self.waiting: list[int] = []
        total = 0
        for i, row in enumerate(rows):
            if row.state not in COMPARED or (row.state == "tied" and a.tied and b.tied):  # known to be a copy
                continue
            cost = 2 * _size(row)
            if wanted.budget is not None and total + cost > wanted.budget:
                self.rows[i] = row.replace(state="unread", note=BUDGET)
            else:
                total += cost
                self.waiting.append(i)
        self.meter = _Meter(sum(_size(rows[i]) for i in self.waiting), wanted.progress)

    def take(self, number: int) -> None:
        """Judge one row; a row that can not be read says why."""
        row = self.rows[number]
        watch = Watch(self.meter.add, self.is_stopped)
        try:
            row = self._judge(row, watch)
            watch.reach(_size(row))
        except KeyError:
            row = row.replace(state="unread", note=HEADS)
        except Cancelled:
            self.stopped.set()
            row = row.replace(state="unread", note=STOPPED)
        except CheckpointError as error:
            row = row.replace(state="unread", note=error.message)
        with self.lock:
            self.rows[number] = row
            if self.wanted.found:
                self.wanted.found(number, row)

    def is_stopped(self) -> bool:
        """Return True once the work is to end."""
        return self.stopped.is_set() or bool(self.wanted.cancelled and self.wanted.cancelled())

    def _judge(self, row: Row, watch: Watch) -> Row:
        pair = self.sides.pair(row)
        left, right = to_measure(*pair)
        if left.dtype != right.dtype:
            return row.replace(state="dtype", note=f"{left.dtype} and {right.dtype} are not compared in values")
        count = _common(row)
        if any(same(*both, watch, count) for both in in_types(*pair)):
            return _equal(row)
        if row.state == "vocab":
            text = "the rows that both have differ"
        elif row.state == "untied":
            text = row.note
        elif turned := self._reordered(row, watch):
            return turned
        else:
            text = row.note if row.how != "name" else ""
            row = row.replace(state="untied" if row.state == "tied" else "differs")
        delta = measure(left, right, watch, count) if self.wanted.measured else None
        return row.replace(delta=delta, note=text)

    def _reordered(self, row: Row, watch: Watch) -> Row | None:
        """Return the row if A's tensor is B's with its values in another order."""
        assert row.a is not None
        for order in orders(row.key, row.a.shape, row.a.symbols, self.rotary.get(template(row.key))):
            try:
                if order.kind == "transposed" and not corners_agree(*self.sides.both(row)):
                    continue
                made = in_one_type(self.sides.made(0, row.a, order.made), self.sides.one(1, row.b))
                if same(*made, watch):
                    return row.replace(state="permuted", order=order.kind, note=order.note)
            except (CheckpointError, KeyError):  # no whole heads, or head counts are not known: not in this order
                continue
        return None


def _common(row: Row) -> int:
    """Return the elements that both have, from the first on: of a longer vocabulary its first rows."""
    assert row.a is not None
    assert row.b is not None
    return math.prod(min(x or 0, y or 0) for x, y in zip(row.a.shape, row.b.shape, strict=True))


def _size(row: Row) -> int:
    """Return the bytes that are compared of each side, in the narrower type."""
    assert row.a is not None
    assert row.b is not None
    return min(num_bytes(dtype, _common(row)) for dtype in (row.a.dtype, row.b.dtype))


def _equal(row: Row) -> Row:
    """Return the row of two tensors that are equal in one type."""
    assert row.a is not None
    assert row.b is not None
    if row.state == "vocab":
        return row.replace(note="the rows that both have are equal")
    if row.state in ("tied", "untied"):
        return row.replace(state="tied", note="one side leaves the head out; the other stores a copy of the embedding")
    if row.state == "renamed":
        return row.replace(note=SAME_BYTES, how="bytes")
    return row.replace(state="equal" if row.a.dtype == row.b.dtype else "cast")
