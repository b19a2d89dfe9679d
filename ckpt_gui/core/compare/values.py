"""Compare the values of matched tensors: two workers, bounded memory, whatever is done when it is stopped.

Each pair is read up to its first difference; only then is it tried whether its rows are in the other rotary order, and
measured how far apart the two are. At the end tensors that have changed places are looked for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from ckpt_gui.core.compare.blocks import Asked, Watch, in_one_type, prefix, same, stream
from ckpt_gui.core.compare.measure import measure
from ckpt_gui.core.compare.result import Row, Side, Stored
from ckpt_gui.core.dtypes import num_bytes
from ckpt_gui.core.errors import Cancelled, CheckpointError
from ckpt_gui.core.exprs import Made
from ckpt_gui.core.families.schema import Family
from ckpt_gui.core.keys import anonymous, indices, template
from ckpt_gui.core.ops import RopePermute, Stream

COMPARED = ("fits", "dtype", "renamed", "vocab", "untied", "tied")  # states that values can tell more of
STOPPED = "the comparison was stopped"
BUDGET = "more than the budget allows"
HEADS = "the head counts of one of the two are not known"
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
    workers: int = 2
    progress: Progress | None = None
    cancelled: Asked | None = None
    found: Found | None = None


def compare_values(a: Side, b: Side, rows: Sequence[Row], wanted: Wanted) -> tuple[tuple[Row, ...], bool]:
    """Return the rows with what their values tell, and whether it was stopped before the end."""
    work = _Work(a, b, rows, wanted)
    with ThreadPoolExecutor(max(wanted.workers, 1), thread_name_prefix="compare") as pool:
        for _ in pool.map(work.take, work.waiting):
            pass
    if not work.stopped.is_set():
        try:
            work.find_places()
        except Cancelled:
            work.stopped.set()
    return tuple(work.rows), work.stopped.is_set()


class Sides:
    """Streams of the tensors of both sides; head counts of one serve the other."""

    def __init__(self, a: Side, b: Side) -> None:
        """Read from the plans of two checkpoints."""
        assert a.plan is not None
        assert b.plan is not None
        self.sources = (a.plan.source, b.plan.source)
        self.dims: tuple[Mapping[str, int], Mapping[str, int]] = (
            {**b.plan.dims, **a.plan.dims},
            {**a.plan.dims, **b.plan.dims},
        )

    def one(self, which: int, stored: Stored | None) -> Stream:
        """Return a tensor of A (0) or B (1)."""
        assert stored is not None
        assert stored.entry is not None
        return stream(self.sources[which], stored.entry.expr, self.dims[which])

    def both(self, row: Row) -> tuple[Stream, Stream]:
        """Return both tensors of a row, in one type and in the same order of rows, which may be that of the files."""
        assert row.a is not None
        assert row.b is not None
        assert row.a.entry is not None
        assert row.b.entry is not None
        one, two = row.a.entry.expr, row.b.entry.expr
        while isinstance(one, Made) and isinstance(two, Made) and one.op == two.op and one.op.name == "permute":
            one, two = one.parts[0], two.parts[0]  # both files have the other order: no head counts are needed
        return in_one_type(
            stream(self.sources[0], one, self.dims[0]),
            stream(self.sources[1], two, self.dims[1]),
        )


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
            total += 2 * _size(row)
            if wanted.budget is not None and total > wanted.budget:
                self.rows[i] = row.replace(state="unread", note=BUDGET)
            else:
                self.waiting.append(i)
        self.meter = _Meter(sum(_size(rows[i]) for i in self.waiting), wanted.progress)

    def take(self, number: int) -> None:
        """Judge one row; a row that can not be read says why."""
        row = self.rows[number]
        watch = Watch(self.meter.add, self._is_stopped)
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

    def _is_stopped(self) -> bool:
        return self.stopped.is_set() or bool(self.wanted.cancelled and self.wanted.cancelled())

    def _judge(self, row: Row, watch: Watch) -> Row:
        left, right = self.sides.both(row)
        total = _size(row) if row.state == "vocab" else None
        if same(left, right, watch, total):
            return _equal(row)
        if row.state == "vocab":
            text = "the rows that both have differ"
        elif row.state == "untied":
            text = row.note
        elif turned := self._turned(row.key, left, right, watch):
            return row.replace(state="permuted", note=turned)
        else:
            text = row.note if row.how != "name" else ""
            row = row.replace(state="untied" if row.state == "tied" else "differs")
        delta = measure(left, right, watch, total) if self.wanted.measured else None
        return row.replace(delta=delta, note=text)

    def _turned(self, key: str, left: Stream, right: Stream, watch: Watch) -> str:
        """Say how the rows of A lie if they are those of B in the other rotary order."""
        heads = self.rotary.get(template(key))
        if heads is None or heads not in self.sides.dims[0]:
            return ""
        for to, here, there in (("halves", "neighbouring pairs", "halves"), ("pairs", "halves", "neighbouring pairs")):
            try:
                turned = RopePermute(heads, to).apply([left], self.sides.dims[0])
            except CheckpointError:  # no whole heads: not these rows in any order
                return ""
            if same(turned, right, watch):
                return f"the rows of a head lie as {here} in A and as {there} in B"
        return ""

    # ---------------------------------------------------------------------------------- tensors in each other's place

    def find_places(self) -> None:
        """Find tensors that have the bytes of another: exchanged within a layer, or under a name of their own."""
        groups: dict[object, list[int]] = {}
        for i, row in enumerate(self.rows):
            if row.state == "differs" and row.a and row.b and row.how == "name":
                groups.setdefault((indices(row.key), row.a.shape), []).append(i)
        for group in groups.values():
            if len(group) > 1:
                self._exchanged(group)
        self._renamed()

    def _exchanged(self, group: Sequence[int]) -> None:
        streams = {i: self.sides.both(self.rows[i]) for i in group}
        theirs = {prefix(right): i for i, (_, right) in streams.items()}
        found = {}
        for i, (left, _) in streams.items():
            j = theirs.get(prefix(left))
            if j is not None and j != i and same(left, streams[j][1], self._watch()):
                found[i] = j
        for i, j in found.items():
            if found.get(j) == i:
                self._swapped(i, f"has changed places with `{_key(self.rows[j].a)}`")
            else:
                self._swapped(i, f"has in A the values of `{_key(self.rows[j].b)}` in B")
                self._swapped(j, f"has in B the values of `{_key(self.rows[i].a)}` in A")

    def _swapped(self, number: int, note: str) -> None:
        row = self.rows[number]
        note = f"{row.note}; {note}" if row.state == "swapped" else note
        self._set(number, row.replace(state="swapped", note=note, delta=None))

    def _renamed(self) -> None:
        """Put together what is on one side only and has the same bytes under another name, if nothing else has."""
        left, right = self._prefixes("only-a"), self._prefixes("only-b")
        gone = set()
        for kind, ours in left.items():
            theirs = right.get(kind, [])
            if len(ours) != 1 or len(theirs) != 1:
                continue
            one, two = self.rows[ours[0]], self.rows[theirs[0]]
            row = one.replace(state="renamed", b=two.b, how="bytes", note="equal byte for byte under another name")
            if same(*self.sides.both(row), self._watch()):
                self._set(ours[0], row)
                gone.add(theirs[0])
        self.rows = [row for i, row in enumerate(self.rows) if i not in gone]

    def _prefixes(self, state: str) -> dict[bytes, list[int]]:
        found: dict[bytes, list[int]] = {}
        which = 0 if state == "only-a" else 1
        for i, tensor in self._streams(state, which):
            found.setdefault(prefix(tensor), []).append(i)
        return found

    def _streams(self, state: str, which: int) -> Iterator[tuple[int, Stream]]:
        for i, row in enumerate(self.rows):
            if row.state == state:
                try:
                    yield i, self.sides.one(which, row.a or row.b)
                except KeyError:  # head counts are not known: it stays alone
                    continue

    def _watch(self) -> Watch:
        return Watch(None, self._is_stopped)

    def _set(self, number: int, row: Row) -> None:
        self.rows[number] = row
        if self.wanted.found:
            self.wanted.found(number, row)


def _size(row: Row) -> int:
    """Return the bytes that are compared of each side, in the narrower type."""
    assert row.a is not None
    assert row.b is not None
    shape = [min(x or 0, y or 0) for x, y in zip(row.a.shape, row.b.shape, strict=True)]
    count = 1
    for size in shape:
        count *= size
    return min(num_bytes(dtype, count) for dtype in (row.a.dtype, row.b.dtype))


def _equal(row: Row) -> Row:
    """Return the row of two tensors that are equal in one type."""
    assert row.a is not None
    assert row.b is not None
    if row.state == "vocab":
        return row.replace(note="the rows that both have are equal")
    if row.state in ("tied", "untied"):
        return row.replace(state="tied", note="one side leaves the head out; the other stores a copy of the embedding")
    if row.state == "renamed":
        return row.replace(note="equal byte for byte under another name", how="bytes")
    return row.replace(state="equal" if row.a.dtype == row.b.dtype else "cast")


def _key(stored: Stored | None) -> str:
    return stored.key if stored else ""


def rotary(family: Family | None) -> dict[str, str]:
    """Return the hub tensors whose rows some layout has in another rotary order, and the dim that counts heads."""
    found = {}
    for rule in (rule for layout in (family.layouts if family else ()) for rule in layout.rules):
        for i, hub in enumerate(rule.hubs):
            for op in (*rule.ops, *(rule.each[i] if rule.each else ())):
                if isinstance(op, RopePermute):
                    found[anonymous(hub)] = op.heads
    return found
