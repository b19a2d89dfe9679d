#!/usr/bin/env python
"""Put the table of numbered cases and their tests into SECURITY.md: `python scripts/cases_table.py`."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.cases import CASES, NOT_RUN, marked_tests  # noqa: E402

BEGIN = "<!-- cases: made by scripts/cases_table.py -->"
END = "<!-- end of cases -->"
SHOWN = 3  # tests named for a case; some have dozens


def table() -> str:
    """Return the table, one row a case."""
    tests = list(marked_tests())
    rows = ["| Case | Promise | What comes in | What must come of it | Tests |", "|--:|--:|---|---|---|"]
    for case in CASES:
        found = [f"`{test.path}::{test.name}`" for test in tests if case.number in test.numbers]
        cell = "<br>".join(found[:SHOWN]) or NOT_RUN.get(case.number, "")
        more = f"<br>and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
        rows.append(f"| {case.number} | {case.promise} | {case.given} | {case.outcome} | {cell}{more} |")
    return "\n".join(rows)


def with_table(text: str) -> str:
    """Return SECURITY.md with the table in its place."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{rest.split(END)[1]}"


def main() -> None:
    """Write the table."""
    path = ROOT / "SECURITY.md"
    path.write_text(with_table(path.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
