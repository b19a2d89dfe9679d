"""The matrix of families and layouts: as a table, as JSON, and as it stands in the README."""

from __future__ import annotations

import json
from pathlib import Path

from ckpt_gui.core.families.registry import FAMILIES, LAYOUTS
from scripts.families_table import filled
from tests.cli.conftest import Run

README = Path(__file__).resolve().parents[2] / "README.md"


def test_the_table_in_the_readme_is_up_to_date() -> None:
    """If it is not: python scripts/families_table.py."""
    text = README.read_text(encoding="utf-8")
    assert filled(text) == text


def test_markdown(run: Run) -> None:
    status, out, _ = run("families", "--markdown")
    lines = out.splitlines()
    assert status == 0
    rows = [line for line in lines if line.startswith("| ")]
    assert len(rows) == len(FAMILIES) + 1
    assert {line.count("|") for line in rows} == {len(LAYOUTS) + 3}
    assert "s" in rows[1].split("|")[3]


def test_json_says_what_was_checked(run: Run) -> None:
    _, out, _ = run("families", "--json", "-")
    for family in json.loads(out)["families"]:
        assert [x for x in family["layouts"] if x["name"] == "hf"]
        for layout in family["layouts"]:
            assert layout["read"]
            assert layout["source"]
            assert layout["checked_against"]


def test_text(run: Run) -> None:
    status, out, _ = run("families")
    assert status == 0
    assert "comes back byte for byte" in out
    for family in FAMILIES:
        assert family.name in out
