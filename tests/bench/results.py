"""The results of every run, kept in a file under the version that was measured, so that a regression shows.

A line of `results.jsonl` is a run: the version with its commit, the machine, and the rows that were picked. A row is
held against the newest one of another version that was measured at the same size.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ckpt_gui.core.version import version
from tests.bench.lines import Line, Spread
from tests.bench.process import ROOT

NAME = "results.jsonl"
TOLERANCE = 1.25  # times what it was before: the machine alone makes for less, as a rule
MORE = 8.0  # MiB of peak memory
FORM = 2  # of a line; older ones are not read

Record = dict[str, Any]


def this_version() -> str:
    """Return the version, and where it is known the commit that is measured, marked where files were changed since."""
    words = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--exclude", "*"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except OSError:  # there is no git
        return version()
    return f"{version()} {done.stdout.strip()}".strip()


def this_machine() -> str:
    """Return what the figures depend on beside the version."""
    from ckpt_gui.core.native import Compiled, kernels

    loops = "compiled kernels" if isinstance(kernels(), Compiled) else "no compiled kernels (scripts/native_build.py)"
    system = f"{platform.system()} {platform.machine()}, {os.cpu_count()} processors"
    return f"{system}, Python {platform.python_version()}, {loops}"


def keep(folder: Path, size: str, table: Sequence[Line], now: str) -> None:
    """Add a run of some rows to the file."""
    record = {
        "form": FORM, "version": now, "size": size, "date": time.strftime("%Y-%m-%d %H:%M:%S"),
        "machine": this_machine(),
        "rows": {line.name: asdict(line) for line in table},
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / NAME).open("a", encoding="utf-8") as out:
        out.write(json.dumps(record, ensure_ascii=False) + "\n")


def records(folder: Path, size: str) -> list[Record]:
    """Return the runs that were kept at a size, oldest first."""
    return [record for record in _all(folder) if record["size"] == size]


def sizes(folder: Path) -> list[str]:
    """Return the sizes at which runs were kept."""
    return sorted({record["size"] for record in _all(folder)})


def _all(folder: Path) -> list[Record]:
    file = folder / NAME
    if not file.exists():
        return []
    found = [json.loads(text) for text in file.read_text(encoding="utf-8").splitlines()]
    return [record for record in found if record.get("form") == FORM]


def about(record: Record) -> str:
    """Return when and where a run was measured, and what."""
    return f"Version {record['version']}, size {record['size']}, {record['date']}, {record['machine']}."


def kept(found: Sequence[Record]) -> list[Line]:
    """Return the newest lines of the newest version, in the order in which their rows were first measured."""
    rows: dict[str, Record] = {}
    for record in found:
        if record["version"] == found[-1]["version"]:
            rows |= record["rows"]
    return [_line(row) for row in rows.values()]


def _line(row: Mapping[str, Any]) -> Line:
    spread = row["judged"]
    both = {name: tuple(row[name]) for name in ("cpu", "peaks")}
    return Line(**{**row, **both, "judged": None if spread is None else Spread(**spread)})


def compared(found: Sequence[Record], table: Sequence[Line], tolerance: float = TOLERANCE) -> Iterator[str]:
    """Yield a sentence for each line of the newest version that differs from another version's by more than noise does.

    A figure is worse if its median is that many times the old one, and none of its rounds reached the old one.
    """
    others = [record for record in found if record["version"] != found[-1]["version"]]
    for line in table:
        before = next((r for r in reversed(others) if r["rows"].get(line.name, {}).get("judged")), None)
        if before is None or line.judged is None:
            continue
        old, then = _line(before["rows"][line.name]), before["version"]
        assert old.judged is not None
        was = f"{line.name}: was {old.judged.median:.3g} ({then}), now {line.judged.median:.3g}"
        if line.judged.median > _worst(old, tolerance) and line.judged.least > old.judged.median:
            yield f"{was}: {'more' if line.unit == 'MiB' else 'slower'}"
        elif old.judged.median > _worst(line, tolerance) and line.judged.most < old.judged.median:
            yield f"{was}: {'less' if line.unit == 'MiB' else 'faster'}"
        peak, peak_then = line.peaks[0], old.peaks[0]
        if line.unit != "MiB" and peak and peak_then and peak > peak_then + MORE and peak > peak_then * 1.1:
            yield f"{line.name}: held {peak_then:.0f} MiB ({then}), now {peak:.0f}: more memory"


def _worst(line: Line, tolerance: float) -> float:
    """Return the figure from which another is worse."""
    assert line.judged is not None
    return line.judged.median + MORE if line.compared == "more" else line.judged.median * tolerance
