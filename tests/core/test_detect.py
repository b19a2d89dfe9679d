"""Family and layout: names decide, the config decides between equals, nothing is guessed."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from ckpt_gui.core.export import Target
from ckpt_gui.core.families.registry import FAMILIES
from ckpt_gui.core.normalise import normalise
from ckpt_gui.core.plan import account
from ckpt_gui.core.retarget import retarget
from tests.core import models


@pytest.mark.parametrize("layout", models.COLUMN)
@pytest.mark.parametrize("head", ["own", "absent", "same"])
def test_layouts(layout: str, head: str) -> None:
    made = models.plan(models.state(layout, head=head), models.config(tie_word_embeddings=head != "own"))
    assert made.family is not None
    assert made.layout is not None
    assert (made.family.name, made.layout.name) == ("llama", layout)
    assert any(f"{len(models.state(layout, head=head))} of" in text for text in made.evidence_text)
    assert any("model_type llama" in text for text in made.evidence_text)


@pytest.mark.parametrize("layout", models.COLUMN)
@pytest.mark.parametrize(
    ("config", "params", "wanted", "ambiguous"),
    [
        (models.config(), None, "llama", False),
        (models.mistral_config(), None, "mistral", False),
        (None, models.params(), "llama", False),
        (None, models.params(multiple_of=..., sliding_window=4096), "mistral", False),
        (None, models.params(multiple_of=...), "mistral", False),
        (None, models.params(multiple_of=..., hidden_dim=...), "llama", True),
        (None, None, "llama", True),
        ({"hidden_size": models.HIDDEN}, None, "llama", True),
    ],
)
def test_families(layout: str, config: Any, params: Any, wanted: str, ambiguous: bool) -> None:
    made = models.plan(models.state(layout), config, params)
    assert made.family is not None
    assert made.family.name == wanted
    assert ("family-ambiguous" in models.codes(made)) == ambiguous


@pytest.mark.parametrize("model_type", ["rwkv", "Llama", "llama\x1b[31m", "{0}"])
def test_a_family_without_a_table_is_not_taken_for_llama(model_type: str) -> None:
    made = models.plan(models.state("hf"), models.config(model_type=model_type))
    assert made.family is None
    account(made)
    found = models.finding(made, "unknown-layout")
    assert found.severity == "error"
    assert not found.blocking  # written as it is, it may be
    assert "\x1b" not in found.message
    assert len(made.unmapped) == len(models.state("hf"))


@pytest.mark.parametrize("family", ["llama", "mistral"])
def test_the_user_decides(family: str) -> None:
    made = models.plan(models.state("hf"), models.config(model_type="qwen2"), family=family)
    assert made.family is not None
    assert made.family.name == family


def test_the_user_may_be_wrong() -> None:
    made = models.plan(models.state("hf"), models.config(), family="gpt2")
    found = models.finding(made, "unknown-layout")
    assert found.blocking
    assert "gpt2" in found.message
    assert "llama" in found.message


@pytest.mark.parametrize("front", ["", "_orig_mod.", "module."])
@pytest.mark.parametrize("flag", [True, False, None])
def test_a_bare_backbone(front: str, flag: bool | None) -> None:
    """Saved without its head class: the names lack `model.`; that no head is there says nothing of a tie."""
    tensors = {front + k.removeprefix("model."): v for k, v in models.state("hf", head="absent").items()}
    made = models.plan(tensors, None if flag is None else models.config(tie_word_embeddings=flag))
    account(made)
    assert made.prefix == "model."
    assert {e.key for e in made.entries} == set(models.state("hf", head="absent"))
    found = models.finding(made, "renamed")
    assert found.severity == "warning"
    assert "`model.`" in found.message
    assert made.status == ("fixable" if flag else "blocked")
    if not flag:
        assert models.finding(made, "missing-tensor").keys == ("lm_head.weight",)


def test_a_backbone_beside_its_head() -> None:
    tensors = {k.removeprefix("model."): v for k, v in models.state("hf").items()}
    made = models.plan(tensors, models.config())
    assert made.status == "fixable"
    assert {e.key for e in made.entries} == set(models.state("hf"))


@pytest.mark.parametrize(
    "keys", [["fc.weight"], ["encoder.block.0.layer.0.SelfAttention.q.weight"], [f"a.{n}" for n in range(9)], ["\x00"]]
)
def test_unknown(keys: list[str]) -> None:
    made = models.keys_plan(keys)
    assert made.family is None
    found = models.finding(made, "unknown-layout")
    assert found.message.startswith(f"0 of {len(keys)} keys match")
    assert "--to same" in (found.fix or "")
    assert "\x00" not in found.message


def test_less_than_half_is_unknown() -> None:
    keys = [*models.state("hf"), *(f"vision.{n}.weight" for n in range(len(models.state("hf")) + 1))]
    made = models.keys_plan(keys)
    assert made.family is None
    assert models.finding(made, "unknown-layout").message.startswith(f"{len(models.state('hf'))} of {len(keys)} keys")


@pytest.mark.parametrize(
    "key",
    [
        "layers.{}.attention.wq.weight",
        "layers.{layer}.attention.wq.weight",
        "layers." + "9" * 5000 + ".attention.wq.weight",
    ],
)
def test_hostile_names_fit_nothing(key: str) -> None:
    made = models.plan(models.state("meta") | {key: np.zeros(1, np.float32)}, models.config())
    account(made)
    assert [e.key for e in made.unmapped] == [key]


def test_a_broken_config_is_told() -> None:
    made = models.plan(models.state("hf"), models.config(hidden_size="24"))
    assert made.config is None
    found = models.finding(made, "config-mismatch")
    assert "hidden_size = '24'" in found.message


def test_families_have_a_hub() -> None:
    assert all(family.layouts[0].name == "hf" for family in FAMILIES)


def test_a_whole_without_a_table_is_named_and_not_its_text() -> None:
    keys = [f"vision.block.{n}.proj" for n in range(40)] + [f"language_model.{key}" for key, *_ in models.names("hf")]
    raw = {"model_type": "llava", "text_config": models.config()}
    found = models.finding(normalise(models.source({k: np.zeros(1, np.float32) for k in keys}, raw)), "unknown-layout")
    assert "says model_type llava, a family without a table" in found.message


def test_a_layout_that_a_family_does_not_have_is_answered_with_those_that_it_has() -> None:
    export = retarget(models.model("hf"), Target("nanogpt"))
    assert "meta, torchtune" in (models.finding(export, "unknown-layout").fix or "")


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("LlamaForCausalLM", "llama"),
        ("MistralForCausalLM", "mistral"),
        ("MistralForSequenceClassification", "mistral"),
        ("MyOwnForCausalLM", None),
    ],
)
def test_the_class_tells_the_family_where_no_model_type_does(name: str, family: str | None) -> None:
    plan = models.plan(models.state("hf"), models.config(model_type=..., architectures=[name]))
    assert ("family-ambiguous" in models.codes(plan)) == (family is None)
    if family is not None:
        assert plan.findings == ()
        assert f"config.json has no model_type; its class {name} tells." in plan.evidence_text
        written = json.loads(retarget(plan, Target("hf")).texts["config.json"])
        assert (plan.family.name, written["model_type"]) == (family, family)
