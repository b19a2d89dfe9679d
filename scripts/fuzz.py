#!/usr/bin/env python
"""Mutate good checkpoints and open them: `python scripts/fuzz.py [--count 10000] [--seed 1] [--keep DIR]`.

Each batch runs in a process of its own, so that the death of a native reader is a result and not the end. Anything but
a refusal or the bytes that the reference reads is a failure; the mutant is kept.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.fuzz.mutants import ALLOWED, good_files, judge, mutants  # noqa: E402

BATCH = 500
MAX_GROWTH = 200 << 10  # kilobytes


def main() -> int:
    """Run the mutants; return 1 if one of them failed."""
    options = _options()
    keep = Path(options.keep or tempfile.mkdtemp(prefix="ckpt_gui_fuzz_"))
    keep.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    verdicts: Counter[tuple[str, str]] = Counter()
    failures: list[str] = []
    growth = 0
    for first in range(0, options.count, BATCH):
        seed = options.seed * 1_000_003 + first
        counted, failed, grown = _in_process(seed, min(BATCH, options.count - first), keep)
        verdicts += counted
        failures += failed
        growth = max(growth, grown)
        print(f"\r{first + BATCH:,} of {options.count:,}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    _print(verdicts, failures, growth, time.monotonic() - began)
    return 1 if failures else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", help="folder for mutants that failed; a temporary one by default")
    return parser.parse_args()


def _in_process(seed: int, count: int, keep: Path) -> tuple[Counter[tuple[str, str]], list[str], int]:
    """Run a batch in a child; its death is a failure of the mutant that it was at."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_batch, args=(seed, count, keep, theirs))
    child.start()
    theirs.close()
    verdicts: Counter[tuple[str, str]] = Counter()
    failures: list[str] = []
    growth, at = 0, "the start"
    while True:
        try:
            kind, value = ours.recv()
        except EOFError:
            break
        if kind == "at":
            at = value
        elif kind == "verdict":
            verdicts[value] += 1
        elif kind == "failure":
            failures.append(value)
        else:
            growth = value
    child.join()
    if child.exitcode:
        failures.append(f"the process died ({child.exitcode}) at {at}")
    return verdicts, failures, growth


def _batch(seed: int, count: int, keep: Path, report: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for good in good_files().values():  # the readers are loaded before the memory is measured
            judge(Path(folder) / f"x{good.suffix}", good, good.data)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for number, (kind, good, data) in enumerate(mutants(seed, count)):
            report.send(("at", f"mutant {number} of seed {seed} ({kind})"))
            try:
                report.send(("verdict", (kind, judge(Path(folder) / f"x{good.suffix}", good, data))))
            except Exception as error:  # noqa: BLE001 - whatever comes out is the result
                path = keep / f"{seed}-{number}{good.suffix}"
                path.write_bytes(data)
                report.send(("failure", f"{path}: {type(error).__name__}: {error}"))
    growth = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    if growth > MAX_GROWTH:
        report.send(("failure", f"seed {seed}: memory grew by {growth >> 10:,} MB"))
    report.send(("growth", growth))
    report.close()


def _print(verdicts: Counter[tuple[str, str]], failures: list[str], growth: int, seconds: float) -> None:
    seen = {name for _, name in verdicts}
    names = ("refused", "opened", *(name for name in ALLOWED if name in seen))
    print(f"{'':12}" + "".join(f"{name:>9}" for name in names))
    for kind in dict.fromkeys(kind for kind, _ in sorted(verdicts)):
        print(f"{kind:12}" + "".join(f"{verdicts[kind, name]:9,}" for name in names))
    for name, (verdict, meaning) in ALLOWED.items():
        print(f"{name + ':':5}{verdict:28} {meaning}")
    count = sum(verdicts.values()) + len(failures)
    print(f"{count:,} mutants in {seconds:.0f} s, memory grew by {growth >> 10:,} MB at most, {len(failures)} failures")
    for failure in failures[:20]:
        print(f"FAILED {failure}")


if __name__ == "__main__":
    sys.exit(main())
