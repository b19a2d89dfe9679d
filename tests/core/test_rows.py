"""Rows that are made when they are asked for, and what is known of them without."""

from __future__ import annotations

import numpy as np
import pytest

from ckpt_gui.core.diff import Diff, Row
from ckpt_gui.core.diffing import diff_expected
from ckpt_gui.core.export import Target
from ckpt_gui.core.retarget import retarget
from ckpt_gui.core.rows import (
    Rows,
    in_state,
    kinds_of,
    names_of,
    path_of,
    paths_of,
    row_of,
    sizes_of,
    states_of,
    take,
    types_of,
    without_ref,
)
from tests.core import models


@pytest.fixture(params=[True, False], ids=["nothing lacks", "some lack"])
def diff(request: pytest.FixtureRequest) -> Diff:
    """A model inside a dict with state of an optimizer, whole, or without two tensors."""
    state = models.state("meta", head="equal")
    if not request.param:
        del state["layers.1.feed_forward.w3.weight"], state["norm.weight"]
        state["score.weight"] = np.arange(8, dtype=np.float32).astype(np.float16)
    whole = {"model": state, "optimizer": {"w": {"exp_avg": np.ones(3, np.float32)}}}
    return diff_expected(retarget(models.plan(whole, None, models.params()), Target("hf")))


def test_a_row_is_the_same_however_it_is_asked_for(diff: Diff) -> None:
    rows = diff.rows
    assert isinstance(rows, Rows)
    every = list(rows)
    assert [rows[at] for at in range(len(rows))] == every
    assert rows[-1] == every[-1]
    assert list(rows[2:9:3]) == every[2:9:3]
    assert take(rows, [5, 0, len(rows) - 1]) == [every[5], every[0], every[-1]]
    assert {row.state for row in every} >= {"renamed", "transform", "aside"}
    with pytest.raises(IndexError):
        rows[len(rows)]


def test_what_is_known_of_rows_is_that_of_each(diff: Diff) -> None:
    rows, every = diff.rows, list(diff.rows)
    for found in (rows, every):
        assert states_of(found) == [row.state for row in every]
        assert paths_of(found) == [path_of(found, at) for at in range(len(every))] == [row.path for row in every]
        assert sizes_of(found) == [row.nbytes for row in every]
        assert types_of(found) == {row.type_name for row in every}
        assert list(without_ref(found)) == [row for row in every if row.ref is None]
        assert list(in_state(found, "missing")) == [row for row in every if row.state == "missing"]
        for numbers in (range(len(every)), [3, 1, 4], [len(every) - 1, 0]):
            assert names_of(found, numbers) == (
                [every[n].key for n in numbers],
                [every[n].expected for n in numbers],
            )
            kinds, outlines = kinds_of(found, numbers)
            shown = [every[n] for n in numbers]
            assert [outlines[kind].type_name for kind in kinds] == [row.type_name for row in shown]
            assert [outlines[kind].shape for kind in kinds] == [row.shape or row.expected_shape for row in shown]
            assert [outlines[kind].file for kind in kinds] == [row.file if row.is_stored else None for row in shown]
        for row in every:
            if row.ref is not None:
                assert row_of(found, row.ref) == row


def test_rows_are_equal_where_all_of_them_are() -> None:
    ref = models.plan(models.state()).source.refs[0]
    row = Row("same", ref.key, ref.key, ref.shape, None, ref.dtype, ref.nbytes, ref)
    assert Rows([row], [ref]) == Rows([row], [ref])
    assert Rows([row], [ref]) != Rows([], [])
