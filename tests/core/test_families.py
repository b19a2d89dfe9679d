"""The tables hold to their own rules, and say what was written here by hand a second time."""

from __future__ import annotations

import pytest

from ckpt_gui import dataclasses
from ckpt_gui.core.families.registry import BY_NAME, FAMILIES, LAYOUTS, for_model_type
from ckpt_gui.core.families.rule_schema import Rule
from ckpt_gui.core.families.schema import Family, Ignored, Layout, Slot
from ckpt_gui.core.families.schema_check import check_family
from ckpt_gui.core.passes.expectation import stored_name
from tests.core import models


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.name)
def test_tables_are_sound(family: Family) -> None:
    assert check_family(family) == []
    assert family.role("embedding")
    assert family.role("head")


def test_faults_are_seen() -> None:
    llama = BY_NAME["llama"]
    meta = llama.layout("meta")
    assert meta is not None
    twice = dataclasses.replace(meta, rules=(*meta.rules, Rule("norm.weight", "model.norm.weight")), source="")
    stray = Layout("x", (Rule("a.{n}", "model.norm.weight"), Rule("b", "no.slot")), (Ignored("b", "r"),), source="s")
    bad = dataclasses.replace(
        llama, slots=(*llama.slots, Slot("model.norm.weight", ("hidden",))), layouts=(twice, stray)
    )
    assert len(check_family(bad)) == 7


@pytest.mark.parametrize("family", ["llama", "mistral"])
@pytest.mark.parametrize("layout", models.COLUMN)
@pytest.mark.parametrize("biases", [False, True])
def test_names(family: str, layout: str, biases: bool) -> None:
    table = BY_NAME[family].layout(layout)
    assert table is not None
    for hub, name, _ in models.names(layout, biases=biases):
        known = family == "llama" or not hub.endswith("bias")
        assert stored_name(table, hub) == (name if known else hub)


def test_names_are_unique() -> None:
    assert len(BY_NAME) == len(FAMILIES)
    assert {"hf", "meta", "torchtune"} <= set(LAYOUTS)
    types = [t for family in FAMILIES for t in family.model_types]
    assert len(types) == len(set(types))
    assert for_model_type("llama") is BY_NAME["llama"]
    assert for_model_type(None) is None


@pytest.mark.parametrize("layout", models.COLUMN)
def test_counts_of_a_seven_billion_model(layout: str) -> None:
    """9 a layer and 3: 291 tensors with 32 layers."""
    table = BY_NAME["llama"].layout(layout)
    assert table is not None
    rules = [r for r in table.rules if not r.hub.endswith("bias")]
    assert sum(32 if "{layer}" in r.stored else 1 for r in rules) == 291
