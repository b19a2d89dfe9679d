"""The results of every run, in a file under the version that was measured, so that a regression shows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ckpt_gui.core.version import version
from tests.bench.measure import Row

NAME = "results.jsonl"
WORSE = 1.25  # times the ratio of the last run: the machine alone makes for less, as a rule
MORE = 8.0  # MiB of peak memory


def record(folder: Path, size: str, runs: int, table: Sequence[Row]) -> list[str]:
    """Add this run to the file; return a line for each row that is worse than in the last run of that size."""
    file = folder / NAME
    before = last_run(file, size)
    now = {"version": version(), "size": size, "runs": runs, "ratios": {r.title: round(r.ratio(), 3) for r in table},
           "peaks": {r.title: round(r.peak()) for r in table}}  # fmt: skip
    with file.open("a", encoding="utf-8") as out:
        out.write(json.dumps(now, ensure_ascii=False) + "\n")
    return list(_worse(before, now))


def last_run(file: Path, size: str) -> dict[str, Any]:
    """Return the last run of that size; nothing if there is none."""
    if not file.exists():
        return {}
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return next((row for row in reversed(rows) if row["size"] == size), {})


def _worse(before: dict[str, Any], now: dict[str, Any]) -> Iterator[str]:
    since = f"version {before.get('version', '?')}"
    for title, ratio in now["ratios"].items():
        old = before.get("ratios", {}).get(title)
        if old and ratio > old * WORSE:
            yield f"SLOWER than {since}: {title}: {old} → {ratio}"
    for title, peak in now["peaks"].items():
        old = before.get("peaks", {}).get(title)
        if old and peak > old + MORE:
            yield f"MORE MEMORY than {since}: {title}: {old} → {peak} MiB"
