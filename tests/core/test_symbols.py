"""Sizes in symbols."""

from __future__ import annotations

import pytest

from ckpt_gui.core.symbols import EQUAL, size_of, symbols_of

DIMS = {"heads": 3, "kv_heads": 1, "head_dim": 2}


def test_sums_of_products() -> None:
    assert size_of("heads*head_dim+2*kv_heads*head_dim", DIMS) == 10
    assert symbols_of("heads*head_dim+2*kv_heads*head_dim") == ("heads", "head_dim", "kv_heads")


def test_numbers_and_equal_parts_need_no_dims() -> None:
    assert size_of(7, {}) == 7
    assert symbols_of(7) == symbols_of(EQUAL) == ()


def test_an_unknown_dim_is_told() -> None:
    with pytest.raises(KeyError, match="experts"):
        size_of("experts*head_dim", DIMS)
