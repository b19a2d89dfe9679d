"""Every numbered case has a test, and the table in SECURITY.md is that of the tests."""

from __future__ import annotations

from collections import Counter

from scripts.cases_table import ROOT, with_table
from tests.cases import CASES, NOT_RUN, marked_tests


def test_every_case_has_a_test_or_a_reason() -> None:
    claimed = Counter(number for test in marked_tests() for number in test.numbers)
    numbers = [case.number for case in CASES]
    assert numbers == list(range(1, 111))
    assert claimed.keys() <= set(numbers)
    assert [n for n in numbers if n not in claimed and n not in NOT_RUN] == []
    assert [n for n in NOT_RUN if n in claimed] == []


def test_the_table_is_up_to_date() -> None:
    """If it is not: python scripts/cases_table.py."""
    text = (ROOT / "SECURITY.md").read_text("utf-8")
    assert with_table(text) == text
