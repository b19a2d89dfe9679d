"""What is looked at in one tensor, or in tiny ones that lie close together."""

from __future__ import annotations

from collections.abc import Sequence

from ckpt_gui.core.dtypes import BY_NAME, CASTABLE
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.plan import Plan
from ckpt_gui.core.roles import EMBEDDING, HEAD, Role
from ckpt_gui.core.scan.looks import large_places, odd_places, untrained_rows, zero_rows
from ckpt_gui.core.scan.result import Place, Rows, TensorScan
from ckpt_gui.core.stats import SharedWatch, StatsCache, TensorStats, Watch
from ckpt_gui.core.stats.heat import matrix_shape
from ckpt_gui.core.stats.single import read_tally, without_figures
from ckpt_gui.core.stats.tally_base import Tally
from ckpt_gui.core.stats.tiny import Window, window_stats
from ckpt_gui.core.tensors import TensorRef
from ckpt_gui.dataclasses import dataclass

FP16_LARGEST = 65504.0


@dataclass(frozen=True, slots=True)
class Task:
    """A stored tensor to be scanned.

    Attributes:
        ref: The tensor.
        key: Its hub name, or its own.
        role: What it is for.
    """

    ref: TensorRef
    key: str
    role: Role


@dataclass(frozen=True, slots=True)
class Work:
    """What all looks share.

    Attributes:
        plan: The model.
        state: Counts bytes, and says when to stop.
        cache: Where counts are kept; None to read in any case.
        initial: The deviation with which rows begin.
    """

    plan: Plan
    state: SharedWatch
    cache: StatsCache | None
    initial: float


def scan_window(work: Work, window: Window, tasks: Sequence[Task]) -> tuple[TensorScan, ...]:
    """Look at tiny tensors that lie close together; `tasks` are those of the window, in its order.

    Raises:
        Cancelled: The user asked for it.
    """
    try:
        found = window_stats(window, work.state)
    except CheckpointError:  # which of them it is about shows when each is read
        found = {}
    return tuple(
        _looked_at(work, task, found[task.ref.place]) if task.ref.place in found else _scanned(work, task)
        for task in tasks
    )


def scan_one(work: Work, task: Task) -> tuple[TensorScan, ...]:
    """Look at one tensor.

    Raises:
        Cancelled: The user asked for it.
    """
    return (_scanned(work, task),)


def _scanned(work: Work, task: Task) -> TensorScan:
    ref, source = task.ref, work.plan.source
    if reason := without_figures(source, ref):
        return TensorScan(ref, task.key, task.role, _nothing(ref, reason))
    try:
        tally = read_tally(source, ref, work.state.watch(ref), work.cache)
    except CheckpointError as error:
        return _unread(task, error)
    return _looked_at(work, task, tally.stats(ref), tally)


def _looked_at(work: Work, task: Task, stats: TensorStats, tally: Tally | None = None) -> TensorScan:
    """Look again where the figures of a tensor say that something is there."""
    ref, source, asked = task.ref, work.plan.source, work.state.asked
    odd_count = stats.nan + stats.pos_inf + stats.neg_inf
    none: tuple[tuple[Place, ...], int] = ((), 0)
    try:
        odd = odd_places(source, ref, odd_count, asked) if odd_count else ()
        saturated = _saturated(work, ref, tally) if ref.dtype == "fp16" and stats.abs_max == FP16_LARGEST else 0
        large = large_places(source, ref, FP16_LARGEST, asked) if _beyond_fp16(ref, stats) else none
        rows = _rows(work, task, stats)
    except CheckpointError as error:
        return _unread(task, error)
    return TensorScan(ref, task.key, task.role, stats, odd, odd_count, saturated, *large, rows)


def _saturated(work: Work, ref: TensorRef, tally: Tally | None) -> int:
    """Count the elements at the largest finite value of fp16."""
    if tally is None:
        tally = read_tally(work.plan.source, ref, Watch("", ref.nbytes, None, work.state.asked), work.cache)
    spread = tally.distribution()
    return int(spread.counts[abs(spread.values) == FP16_LARGEST].sum())


def _beyond_fp16(ref: TensorRef, stats: TensorStats) -> bool:
    """Return True for a matrix of a wider type with an element that a cast to fp16 would make infinite."""
    wider = ref.dtype in CASTABLE and ref.dtype != "fp16"
    return wider and len(ref.shape) > 1 and stats.abs_max is not None and stats.abs_max > FP16_LARGEST


def _unread(task: Task, error: CheckpointError) -> TensorScan:
    return TensorScan(task.ref, task.key, task.role, _nothing(task.ref, error.message), error=error.message)


def _nothing(ref: TensorRef, reason: str) -> TensorStats:
    return TensorStats(ref.key, ref.dtype, ref.shape, ref.numel, reason=reason)


def _rows(work: Work, task: Task, stats: TensorStats) -> tuple[Rows, ...]:
    """Look at rows: at all of an embedding, and at those of a matrix that has zeros enough for one."""
    ref = task.ref
    rows, columns = matrix_shape(ref.shape)
    if len(ref.shape) < 2 or rows < 2 or BY_NAME[ref.dtype].kind != "float" or BY_NAME[ref.dtype].bits < 8:
        return ()
    if len(ref.shape) == 2 and task.role.part in (EMBEDDING, HEAD) and stats.zeros < stats.count:
        return untrained_rows(work.plan.source, ref, work.initial, work.state.asked)
    if columns <= stats.zeros < stats.count:
        return zero_rows(work.plan.source, ref, work.state.asked)
    return ()
