"""Reading every weight of a model once, on a few threads, with results as they come."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed

from ckpt_gui.core.cores import WORKERS
from ckpt_gui.core.dtypes import BY_NAME, CASTABLE
from ckpt_gui.core.entry import Entry, carried
from ckpt_gui.core.errors import Cancelled, CheckpointError
from ckpt_gui.core.plan import Plan
from ckpt_gui.core.remote.watch import adopt, current
from ckpt_gui.core.roles import EMBEDDING, HEAD, Role, role_of
from ckpt_gui.core.scan.judge import judge
from ckpt_gui.core.scan.judge_values import is_zero_weight
from ckpt_gui.core.scan.looks import initial_std, large_places, odd_places, untrained_rows, zero_rows
from ckpt_gui.core.scan.result import Place, Rows, Scan, TensorScan
from ckpt_gui.core.scan.zero_tail import zero_tails
from ckpt_gui.core.stats import Asked, Progress, SharedWatch, StatsCache, TensorStats
from ckpt_gui.core.stats.heat import matrix_shape
from ckpt_gui.core.stats.single import read_tally, without_figures
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


def scan(
    plan: Plan,
    *,
    workers: int = WORKERS,
    progress: Progress | None = None,
    cancelled: Asked | None = None,
    cache: StatsCache | None = None,
    on_result: Callable[[TensorScan], None] | None = None,
    like: TensorRef | None = None,
) -> Scan:
    """Read every weight of a model and say what looks wrong.

    Args:
        plan: From `normalise`.
        workers: Threads.
        progress: Called with a label, bytes done and bytes in all.
        cancelled: Asked between blocks; what was read until then is returned, marked as not complete.
        cache: Where counts are kept from one run to the next; None to read in any case.
        on_result: Called with what was found in each tensor, as it comes, on this thread.
        like: Read only the tensors that have the same role as this one.
    """
    tasks = list(_tasks(plan))
    if like is not None:
        roles = {task.role.name for task in tasks if task.ref.place == like.place}
        tasks = [task for task in tasks if task.role.name in roles]
    state = SharedWatch("Reading the weights", sum(task.ref.nbytes for task in tasks), progress, cancelled)
    initial = initial_std(plan)
    found: dict[int, TensorScan] = {}
    with ThreadPoolExecutor(
        max(workers, 1), thread_name_prefix="scan", initializer=adopt, initargs=(current(),)
    ) as pool:
        futures: dict[Future[TensorScan], int] = {
            pool.submit(_one, plan, task, state, cache, initial): number for number, task in enumerate(tasks)
        }
        try:
            for future in as_completed(futures):
                try:
                    found[futures[future]] = future.result()
                except Cancelled:  # those that wait see it as well; `cancel_futures` would leave us waiting for them
                    continue
                if on_result is not None:
                    on_result(found[futures[future]])
        except BaseException:
            state.stopped = True
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    tensors = tuple(found[number] for number in sorted(found))
    tails = zero_tails(plan, tensors)
    explained = {key for finding in tails for key in finding.keys}
    places = {entry.identity: entry.output.numel for entry in plan.weights}
    return Scan(
        tensors,
        (
            *tails,
            *judge(
                plan,
                [tensor for tensor in tensors if tensor.ref.full_key not in explained or not is_zero_weight(tensor)],
            ),
        ),
        len(found) == len(tasks),
        sum(places.values()),
        sum(entry.output.numel for entry in plan.weights),
        state.total,
        state.done,
    )


def _tasks(plan: Plan) -> Iterator[Task]:
    """Yield the stored tensors in file order, each place once."""
    users: dict[tuple[object, ...], list[Entry]] = {}
    for entry in plan.weights:
        for ref in entry.inputs:
            users.setdefault(ref.place, []).append(entry)
    seen = set()
    for ref in plan.source.refs:
        if ref.place in users and ref.place not in seen:
            seen.add(ref.place)
            entries = {entry.identity: entry for entry in users[ref.place]}
            entry = next(iter(entries.values())) if len(entries) == 1 else carried(ref)
            yield Task(ref, entry.key, role_of(plan, entry))


def _one(plan: Plan, task: Task, state: SharedWatch, cache: StatsCache | None, initial: float) -> TensorScan:
    ref, source = task.ref, plan.source
    if reason := without_figures(source, ref):
        return TensorScan(ref, task.key, task.role, _nothing(ref, reason))
    try:
        tally = read_tally(source, ref, state.watch(ref), cache)
        stats = tally.stats(ref)
        odd_count = stats.nan + stats.pos_inf + stats.neg_inf
        odd = odd_places(source, ref, odd_count, state.asked) if odd_count else ()
        saturated = 0
        if ref.dtype == "fp16" and stats.abs_max == FP16_LARGEST:
            spread = tally.distribution()
            saturated = int(spread.counts[abs(spread.values) == FP16_LARGEST].sum())
        none: tuple[tuple[Place, ...], int] = ((), 0)
        large = large_places(source, ref, FP16_LARGEST, state.asked) if _beyond_fp16(ref, stats) else none
        rows = _rows(plan, task, stats, initial, state.asked)
    except CheckpointError as error:
        return TensorScan(ref, task.key, task.role, _nothing(ref, error.message), error=error.message)
    return TensorScan(ref, task.key, task.role, stats, odd, odd_count, saturated, *large, rows)


def _beyond_fp16(ref: TensorRef, stats: TensorStats) -> bool:
    """Return True for a matrix of a wider type with an element that a cast to fp16 would make infinite."""
    wider = ref.dtype in CASTABLE and ref.dtype != "fp16"
    return wider and len(ref.shape) > 1 and stats.abs_max is not None and stats.abs_max > FP16_LARGEST


def _nothing(ref: TensorRef, reason: str) -> TensorStats:
    return TensorStats(ref.key, ref.dtype, ref.shape, ref.numel, reason=reason)


def _rows(plan: Plan, task: Task, stats: TensorStats, initial: float, cancelled: Asked) -> tuple[Rows, ...]:
    """Look at rows: at all of an embedding, and at those of a matrix that has zeros enough for one."""
    ref = task.ref
    rows, columns = matrix_shape(ref.shape)
    if len(ref.shape) < 2 or rows < 2 or BY_NAME[ref.dtype].kind != "float" or BY_NAME[ref.dtype].bits < 8:
        return ()
    if len(ref.shape) == 2 and task.role.part in (EMBEDDING, HEAD) and stats.zeros < stats.count:
        return untrained_rows(plan.source, ref, initial, cancelled)
    if columns <= stats.zeros < stats.count:
        return zero_rows(plan.source, ref, cancelled)
    return ()
