"""Executors of clusters by URL: dask's, MPI's, or some processes of this machine.

The files of an export are independent jobs (see `shards`), so any `concurrent.futures.Executor` can do them, wherever
source and target can be reached under the same paths. This opens the ones that people have, sees that their workers
run this version of the program, and says in a sentence what is wrong with them.

    dask://HOST:PORT          a scheduler of dask.distributed; dask's own port (8786) if none is named
    dask+file:PATH            the scheduler that a scheduler file tells of, as batch systems write it
    mpi:                      the ranks of this MPI job, started by mpiexec with -m mpi4py.futures
    processes:N               N processes here
"""

from __future__ import annotations

import logging
import multiprocessing
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from ckpt_gui.core.engine import CLUSTER_FAILED as CODE
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.text import plural
from ckpt_gui.core.version import version

Tell = Callable[[str], None]
CONNECT_SECONDS = 20
NOISY = ("distributed", "tornado.application", "asyncio")
LOOK = 1.0  # seconds between two looks at which workers are there
POLL = 0.1  # seconds between two looks for a scheduler's file
RETRIES = 3  # times a job is done again whose worker was lost
DASK_PORT = ":8786"  # where `dask scheduler` listens unless told otherwise
_PLACE = re.compile(r"//(\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]+)(:\d{1,5})?/?")
KINDS = "dask://HOST:PORT, dask+file:SCHEDULER.json, mpi: or processes:N"


@contextmanager
def cluster(url: str, tell: Tell | None = None) -> Iterator[Executor]:
    """Open the executor that a URL names, and close it in the end.

    Args:
        url: See the module.
        tell: Called, from another thread, with a sentence when a worker is lost, where the cluster says so (dask).

    Yields:
        The executor; a job whose worker is lost is done again by another.

    Raises:
        CheckpointError: There is no such cluster, a library for it is missing, its workers run another version of this
            program, or too many of them were lost. The code is `cluster-failed`.
    """
    with _named(url, tell) as executor:
        yield executor


def check_address(url: str) -> None:
    """Raise if a URL names no cluster; none is looked for.

    Raises:
        CheckpointError: `cluster-failed`.
    """
    _named(url)


def _named(url: str, tell: Tell | None = None) -> AbstractContextManager[Executor]:
    """Return the cluster that a URL names, not yet opened."""
    kind, _, rest = url.partition(":")
    if kind == "dask" and (place := _PLACE.fullmatch(rest)):
        return _dask(url, {"address": f"tcp://{place[1]}{place[2] or DASK_PORT}"}, tell)
    if kind == "dask+file" and rest:
        return _dask_of_file(url, Path(rest), tell)
    if kind == "mpi" and rest in ("", "//"):
        return _mpi()
    if kind == "processes" and rest.isascii() and rest.isdigit() and int(rest) > 0:
        return _processes(int(rest))
    raise CheckpointError(CODE, f"{safe_text(url, 200)} names no cluster.", fix=f"Give {KINDS}.")


@contextmanager
def _dask_of_file(url: str, path: Path, tell: Tell | None) -> Iterator[Executor]:
    _wait_for_file(path)
    with _dask(url, {"scheduler_file": str(path)}, tell) as executor:
        yield executor


def _wait_for_file(path: Path) -> None:
    """Wait until a scheduler has written its file, which dask itself does for ever.

    Raises:
        CheckpointError: It has not come in time.
    """
    end = time.monotonic() + CONNECT_SECONDS
    while not path.is_file():
        if time.monotonic() > end:
            text = f"There is no scheduler file {safe_text(str(path), 200)}."
            raise CheckpointError(
                CODE, text, fix="Start the scheduler with --scheduler-file, in a folder that both see."
            )
        time.sleep(POLL)


@contextmanager
def _processes(count: int) -> Iterator[Executor]:
    with ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


@contextmanager
def _dask(url: str, where: Mapping[str, Any], tell: Tell | None) -> Iterator[Executor]:
    try:
        import distributed
        from distributed.comm import CommClosedError
        from distributed.scheduler import KilledWorker
    except ImportError as error:
        fix = 'Install it with: pip install "ckpt_gui[cluster]"'
        raise CheckpointError(CODE, "dask.distributed is not installed here.", fix=fix) from error
    for name in NOISY:
        logging.getLogger(name).setLevel(logging.CRITICAL)  # pages of traces; what was lost is said in a sentence
    try:
        client = distributed.Client(**where, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        text = f"No dask scheduler answers at {safe_text(url, 200)}: {safe_text(str(error), 200)}."
        raise CheckpointError(CODE, text, fix="See that it runs and can be reached from here.") from error
    try:
        _check_workers(client)
        executor = client.get_executor(retries=RETRIES, pure=False)
        with _watched(client, tell):
            try:
                yield executor
            finally:  # what was stopped is not waited for: where no worker is left it never ends
                executor.shutdown(wait=False)
    except KilledWorker as error:
        text = "Workers of the cluster were lost again and again while they wrote a file: killed, or out of memory."
        raise CheckpointError(CODE, text, fix="Give them more memory, or write smaller files.") from error
    except CommClosedError as error:
        text = f"The dask scheduler at {safe_text(url, 200)} was lost."
        raise CheckpointError(CODE, text, fix="See that it runs and can be reached from here.") from error
    finally:
        client.close(timeout=CONNECT_SECONDS)


@contextmanager
def _watched(client: Any, tell: Tell | None) -> Iterator[None]:
    """Tell of workers that dask has lost: it waits some seconds until it gives up one that does not answer."""
    if tell is None:
        yield
        return
    ended = threading.Event()
    thread = threading.Thread(target=_watch, args=(client, tell, ended), name="workers")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _watch(client: Any, tell: Tell, ended: threading.Event) -> None:
    known: set[str] = set()
    while not ended.is_set():
        try:
            there = set(client.nthreads())
        except (OSError, TimeoutError, RuntimeError):  # the scheduler is lost: those who wait for it say so
            return
        if known - there:
            tell(_loss(len(known - there), len(there)))
        known = there
        ended.wait(LOOK)


def _loss(lost: int, left: int) -> str:
    """Return a sentence about workers that are lost.

    >>> _loss(1, 2)
    'The cluster has lost 1 worker, 2 are left: what it was writing is written again by another.'
    """
    if not left:
        return f"The cluster has lost {plural(lost, 'worker')} and has none left: the export waits for another."
    whose = "it was" if lost == 1 else "they were"
    rest = "1 is" if left == 1 else f"{left} are"
    return (
        f"The cluster has lost {plural(lost, 'worker')}, {rest} left: what {whose} writing is written again by another."
    )


def _check_workers(client: Any) -> None:
    """See that there are workers and that all of them run this version of the program.

    Raises:
        CheckpointError: They do not.
    """
    found = client.run(version, on_error="return")
    if not found:
        raise CheckpointError(CODE, "The dask scheduler has no workers.", fix="Start some, and run it again.")
    odd = {name: said for name, said in found.items() if said != version()}
    if odd:
        name, said = next(iter(odd.items()))
        lacks = f"can not import ckpt_gui ({safe_text(repr(said), 120)})"
        what = f"runs version {said}" if isinstance(said, str) else lacks
        text = f"The worker {safe_text(str(name), 100)} {what}; here it is version {version()}."
        raise CheckpointError(CODE, text, fix="Install the same version on every worker.")


@contextmanager
def _mpi() -> Iterator[Executor]:
    try:
        from mpi4py import MPI
        from mpi4py.futures import MPIPoolExecutor
    except (ImportError, RuntimeError) as error:
        fix = 'Install an MPI, and: pip install "ckpt_gui[mpi]"'
        text = f"MPI can not be used here: {safe_text(str(error), 200)}."
        raise CheckpointError(CODE, text, fix=fix) from error
    if MPI.COMM_WORLD.Get_size() < 2:
        text = "This MPI job has no ranks beside the first."
        raise CheckpointError(CODE, text, fix="Start it with mpiexec -n 2 or more, and python -m mpi4py.futures.")
    with MPIPoolExecutor() as pool:
        yield pool
