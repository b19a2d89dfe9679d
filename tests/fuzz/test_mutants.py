"""A thousand seeded mutants of ten good files: refused with a sentence, or read as the reference reads them."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.fuzz.mutants import ALLOWED, good_files, judge, mutants

pytest.importorskip("torch")
pytest.importorskip("safetensors")

COUNT = 1000


@pytest.mark.parametrize("kind", good_files())
def test_the_good_files_open(tmp_path, kind):
    good = good_files()[kind]
    assert judge(tmp_path / f"x{good.suffix}", good, good.data) == "opened"


@pytest.mark.case(85, 86)
def test_mutants(tmp_path):
    verdicts = Counter()
    for number, (kind, good, data) in enumerate(mutants(seed=20_240_601, count=COUNT)):
        path = tmp_path / f"x{good.suffix}"
        try:
            verdicts[kind, judge(path, good, data)] += 1
        except BaseException as error:
            raise AssertionError(f"mutant {number} ({kind}): {type(error).__name__}: {error}") from error
    assert {verdict for _, verdict in verdicts} <= {"opened", "refused", *ALLOWED}
    for kind in good_files():
        assert verdicts[kind, "refused"] > 10
        assert sum(count for (k, verdict), count in verdicts.items() if k == kind and verdict != "refused") > 10
