"""Keys: templates, indices, natural order, and foreign text made safe."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_gui.core.keys import (
    anonymous,
    bind,
    in_natural_order,
    index_names,
    indices,
    natural,
    safe_text,
    template,
)  # fmt: skip

KEYS = st.text(st.sampled_from("ab0129.{}_٣"), max_size=20)


@pytest.mark.parametrize(
    ("key", "shape", "numbers"),
    [
        ("model.layers.12.mlp.experts.3.w1.weight", "model.layers.{}.mlp.experts.{}.w1.weight", (12, 3)),
        ("0.weight", "{}.weight", (0,)),
        ("7", "{}", (7,)),
        ("layers.0.1.2", "layers.{}.{}.{}", (0, 1, 2)),
        ("h2.w1", "h2.w1", ()),
        ("", "", ()),
        ("a.-1.b", "a.-1.b", ()),
        # Not numbers: two spellings of one index would fall together.
        ("layers.00.w", "layers.00.w", ()),
        ("layers.01.w", "layers.01.w", ()),
        ("layers.٣.w", "layers.٣.w", ()),
        ("layers." + "9" * 5000 + ".w", "layers." + "9" * 5000 + ".w", ()),
    ],
)
def test_template_and_indices(key: str, shape: str, numbers: tuple[int, ...]) -> None:
    assert template(key) == shape
    assert indices(key) == numbers


def test_table_templates() -> None:
    named = "layers.{layer}.experts.{expert}.w1"
    assert anonymous(named) == "layers.{}.experts.{}.w1"
    assert index_names(named) == ("layer", "expert")
    assert bind(named, "layers.3.experts.7.w1") == {"layer": 3, "expert": 7}


@pytest.mark.parametrize("key", ["layers.{}.w1", "layers.{layer}.w1", "layers.{{}}.w1", "{"])
def test_braces_of_a_key_are_not_an_index(key: str) -> None:
    assert template(key) not in ("layers.{}.w1", "{}.w1")


@given(KEYS, KEYS)
def test_a_template_and_its_indices_are_the_key(one: str, other: str) -> None:
    if (template(one), indices(one)) == (template(other), indices(other)):
        assert one == other


@given(st.lists(KEYS))
def test_natural_order_is_total(keys: list[str]) -> None:
    assert sorted(sorted(keys), key=natural) == sorted(
        sorted(keys, reverse=True), key=lambda k: (natural(k), k)
    ) or len(set(map(natural, keys))) < len(set(keys))


def test_natural_order() -> None:
    keys = ["layers.10.w", "layers.2.w", "layers.x.w", "layers.2"]
    assert sorted(keys, key=natural) == ["layers.2", "layers.2.w", "layers.10.w", "layers.x.w"]


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain.weight", "plain.weight"),
        ("a\x1b[31mb", "a\\x1b[31mb"),
        ("a\nb\tc", "a\\x0ab\\x09c"),
        ("a\u202eb", "a\\u202eb"),
        ("a\u2066b\u2028", "a\\u2066b\\u2028"),
        ("\ud800", "\\ud800"),
        ("\U000e0001", "\\U000e0001"),
        ("größe.日本", "größe.日本"),
    ],
)
def test_safe_text(raw: str, shown: str) -> None:
    assert safe_text(raw) == shown


@given(st.text(max_size=3000), st.integers(10, 300))
def test_safe_text_is_short_and_printable(raw: str, limit: int) -> None:
    shown = safe_text(raw, limit)
    assert len(shown) <= limit * 6 + 40
    assert not any(c in shown for c in "\x00\x1b\n\r\u202e\u2066\u200f")


@given(st.lists(st.lists(st.sampled_from(["a", "b", "", "0", "2", "02", "10"]), min_size=1, max_size=7), max_size=30))
def test_natural_order_in_parts_is_that_of_one_sort(keys: list[list[str]]) -> None:
    names = [".".join(key) for key in keys]
    assert in_natural_order(names) == sorted(names, key=natural)
