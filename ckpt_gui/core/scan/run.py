"""Reading every weight of a model once, on a few threads, with results as they come."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, as_completed

from ckpt_gui.core.cores import WORKERS
from ckpt_gui.core.entry import Entry, carried
from ckpt_gui.core.errors import Cancelled
from ckpt_gui.core.plan import Plan
from ckpt_gui.core.remote.watch import adopt, current
from ckpt_gui.core.roles import role_of
from ckpt_gui.core.scan.judge import judge
from ckpt_gui.core.scan.judge_values import is_zero_weight
from ckpt_gui.core.scan.looks import initial_std
from ckpt_gui.core.scan.result import Scan, TensorScan
from ckpt_gui.core.scan.tensor import Task, Work, scan_one, scan_window
from ckpt_gui.core.scan.zero_tail import zero_tails
from ckpt_gui.core.stats import Asked, Progress, SharedWatch, StatsCache
from ckpt_gui.core.stats.tiny import windows
from ckpt_gui.core.tensors import TensorRef


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
    work = Work(plan, state, cache, initial_std(plan))
    by_place = {task.ref.place: task for task in tasks}
    found: dict[tuple[object, ...], TensorScan] = {}
    with ThreadPoolExecutor(
        max(workers, 1), thread_name_prefix="scan", initializer=adopt, initargs=(current(),)
    ) as pool:
        try:
            for future in as_completed(list(_submitted(pool, work, by_place))):
                try:
                    some = future.result()
                except Cancelled:  # those that wait see it as well; `cancel_futures` would leave us waiting for them
                    continue
                for one in some:
                    found[one.ref.place] = one
                    if on_result is not None:
                        on_result(one)
        except BaseException:
            state.stopped = True
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    tensors = tuple(found[place] for place in by_place if place in found)
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


def _submitted(
    pool: ThreadPoolExecutor, work: Work, tasks: Mapping[tuple[object, ...], Task]
) -> Iterator[Future[tuple[TensorScan, ...]]]:
    """Put all tensors to work, those that are tiny and lie close together at once."""
    alone = dict(tasks)
    for window in windows(work.plan.source, [task.ref for task in tasks.values()]):
        yield pool.submit(scan_window, work, window, [alone.pop(ref.place) for ref in window.refs])
    for task in alone.values():
        yield pool.submit(scan_one, work, task)


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
