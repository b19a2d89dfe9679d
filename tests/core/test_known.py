"""Published models: recognised by their sizes, and their head counts used where no config has any."""

from __future__ import annotations

from typing import Any

import pytest

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.families.known import KNOWN, find_known
from ckpt_gui.core.families.registry import BY_NAME
from ckpt_gui.core.formats.memory import from_state_dict
from ckpt_gui.core.normalise import normalise
from ckpt_gui.core.passes.check import expected
from ckpt_gui.core.plan import Plan, Policy, Tie
from ckpt_gui.core.retarget import Target, retarget
from ckpt_gui.core.tensors import Source, TensorRef

HERE = [model for model in KNOWN if model.family in BY_NAME]


def headers(name: str, layout: str = "hf", *, head: bool | None = None) -> Source:
    """A source that has a known model's names and shapes, and no bytes."""
    model = find_known(name)
    family = BY_NAME[model.family]
    tie = Tie(tied=model.tied if head is None else not head)
    plan = Plan(from_state_dict({}), family=family, dims=model.dims, tie=tie)
    rules = family.layout(layout)
    assert rules is not None
    refs = []
    for slot, key, shape in expected(plan):
        rule = next(r for r in rules.rules if r.hub == slot.key)
        stored = key if layout == "hf" else rule.stored.format(**_numbers(slot.key, key))
        refs.append(TensorRef(stored, "bf16", tuple(s or 0 for s in shape), storage=stored))
    return from_state_dict({}).replace(refs=tuple(refs))


def _numbers(named: str, key: str) -> dict[str, int]:
    from ckpt_gui.core.keys import bind

    return bind(named, key)


@pytest.mark.parametrize("name", [m.name for m in HERE])
def test_each_is_recognised_by_its_sizes(name: str) -> None:
    model = find_known(name)
    plan = normalise(headers(name))
    assert plan.family is not None
    assert (plan.family.name, name in plan.known) == (model.family, True)
    assert {k: plan.dims[k] for k in model.dims} == dict(model.dims)
    assert plan.missing == ()
    twins = [m.name for m in KNOWN if m.dims == model.dims and m.family == model.family]
    assert set(plan.known) == set(twins)


def test_sentence_and_origin() -> None:
    plan = normalise(headers("Llama-3.2-1B", "meta", head=True))
    assert "Its sizes are those of Llama-3.2-1B, and of no other known model." in plan.evidence_text
    assert plan.dims_from["heads"] == "the known size Llama-3.2-1B"
    export = retarget(plan, Target("hf"))
    assert not export.blocked
    step = next(s for s in export.steps if s.id == "permute")
    assert step.certain
    assert "32 heads and 8 key/value heads, from the known size Llama-3.2-1B" in step.evidence


def test_two_that_fit_are_a_guess() -> None:
    plan = normalise(headers("Llama-3.1-8B", "meta"))
    assert plan.known == ("Llama-3-8B", "Llama-3.1-8B")
    step = next(s for s in retarget(plan, Target("hf")).steps if s.id == "permute")
    assert not step.certain


def test_the_size_tells_the_family() -> None:
    plan = normalise(headers("Mistral-7B-v0.1"))
    assert plan.family is not None
    assert plan.family.name == "mistral"
    assert "family-ambiguous" not in [f.code for f in plan.findings]
    chosen = normalise(headers("Mistral-7B-v0.1"), Policy(family="llama"))
    assert (chosen.family and chosen.family.name, chosen.known) == ("llama", ())


@pytest.mark.parametrize("heads", [None, 16])
def test_the_user_decides_before_the_known_size(heads: int | None) -> None:
    plan = normalise(headers("Llama-3.2-1B"), Policy(heads=heads))
    assert plan.dims["heads"] == (heads or 32)


def test_a_config_decides_before_the_known_size() -> None:
    source = headers("Llama-3.2-1B")
    config: dict[str, Any] = {"model_type": "llama", "num_attention_heads": 16, "num_key_value_heads": 4}
    plan = normalise(source.replace(sidecars=type(source.sidecars)(config=config)))
    assert (plan.known, plan.dims["heads"]) == ((), 16)


def test_names() -> None:
    assert find_known("meta-llama/Meta-Llama-3.1-8B-Instruct").name == "Llama-3.1-8B"
    assert find_known("llama_3.2_1b").name == "Llama-3.2-1B"
    with pytest.raises(CheckpointError, match="neither a file"):
        find_known("nothing")
    assert len({m.name for m in KNOWN}) == len(KNOWN)
