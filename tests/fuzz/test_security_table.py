"""Every test that SECURITY.md names is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_tests_that_hold_the_promises_are_there():
    text = (ROOT / "SECURITY.md").read_text("utf-8")
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text)
    assert len(named) > 40
    for path, name in named:
        assert re.search(rf"^def {name}\(", (ROOT / path).read_text("utf-8"), re.MULTILINE), f"{path}::{name}"
    promises = {int(number) for number in re.findall(r"^(\d+)\. \*\*", text, re.MULTILINE)}
    assert promises == {int(number) for number in re.findall(r"^\| (\d+) ·", text, re.MULTILINE)}
