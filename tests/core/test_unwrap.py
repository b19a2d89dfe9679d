"""Wrapper names: whole segments, to a fixpoint, one-to-one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_gui.core.passes.unwrap import ANYWHERE, unwrap_keys
from ckpt_gui.core.plan import account
from tests.core import models

LAYOUTS = ("hf", "meta", "torchtune")
WRAPPED = [
    *("_orig_mod.", "module.", "module._orig_mod.", "_orig_mod.module.", "_orig_mod._orig_mod.", "module.module."),
    *("_fsdp_wrapped_module.", "_forward_module.", "_forward_module._orig_mod.module._fsdp_wrapped_module."),
    *("model._orig_mod.", "_orig_mod.model.", "model.module.", "module.model.", "model.module._orig_mod.", "model."),
    *("model.model.", "module.model.module."),
]


def names(keys: list[str]) -> list[str]:
    return list(unwrap_keys(keys).names.values())


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("front", WRAPPED)
@pytest.mark.parametrize("head", ["own", "absent"])
def test_front_of_every_key(layout: str, front: str, head: str) -> None:
    keys = list(models.state(layout, head=head))
    assert names([front + key for key in keys]) == keys


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("word", ANYWHERE)
def test_inside(layout: str, word: str) -> None:
    keys = list(models.state(layout))
    inside = [key.replace("layers.1.", f"layers.1.{word}.").replace(".w", f".{word}.w") for key in keys]
    assert names(inside) == keys


@pytest.mark.parametrize(
    ("keys", "wanted"),
    [
        # Made by torch, one row each; unknown layouts.
        (["_orig_mod.fc.weight"], ["fc.weight"]),
        (["module.fc.weight", "module.fc.bias"], ["fc.weight", "fc.bias"]),
        (["module._orig_mod.fc.weight"], ["fc.weight"]),
        (["_orig_mod.module.fc.weight"], ["fc.weight"]),
        (["fc._orig_mod.weight"], ["fc.weight"]),
        (["0._orig_mod._checkpoint_wrapped_module.weight"], ["0.weight"]),
        (["0._checkpoint_wrapped_module._orig_mod.weight"], ["0.weight"]),
        (["_orig_mod.transformer.wte.weight"], ["transformer.wte.weight"]),
        (["model._orig_mod.layer.weight"], ["model.layer.weight"]),
        (["_orig_mod.attn_blocks.0.attn.heads.0.key.weight"], ["attn_blocks.0.attn.heads.0.key.weight"]),
        # Whole segments only.
        (["layers.0.submodule.weight"], ["layers.0.submodule.weight"]),
        (["my_orig_mod.weight", "_orig_mod_2.weight"], ["my_orig_mod.weight", "_orig_mod_2.weight"]),
        (["a_orig_mod.b", "_orig_mods.c"], ["a_orig_mod.b", "_orig_mods.c"]),
        (["amodule.b"], ["amodule.b"]),
        # `module` in the middle is a word like any other.
        (["encoder.module.weight"], ["encoder.module.weight"]),
        (["module.a.weight", "b.weight"], ["module.a.weight", "b.weight"]),
        # Nothing but wrapper names.
        (["_orig_mod"], ["_orig_mod"]),
        (["_orig_mod._orig_mod"], ["_orig_mod._orig_mod"]),
        (["module"], ["module"]),
        (["module._orig_mod"], ["module"]),
        (["module.module"], ["module"]),
        # Odd keys.
        ([], []),
        ([""], [""]),
        (["."], ["."]),
        (["_orig_mod."], [""]),
        (["_orig_mod..w"], [".w"]),
        # Counters beside an averaged model.
        (["module.fc.weight", "n_averaged"], ["fc.weight", "n_averaged"]),
    ],
)
def test_rows(keys: list[str], wanted: list[str]) -> None:
    if keys == ["_orig_mod."]:
        assert names(keys) in ([""], ["_orig_mod."])
    else:
        assert names(keys) == wanted


@pytest.mark.parametrize("head", ["own", "absent"])
def test_the_model_of_hugging_face_stays(head: str) -> None:
    keys = list(models.state("hf", head=head))
    assert names(keys) == keys
    bare = [key.removeprefix("model.") for key in models.state("hf", head="absent")]
    assert names(["_orig_mod." + key for key in bare]) == bare


@pytest.mark.parametrize(
    "beside", ["n_averaged", "loss.weight", "criterion.0.bias", "layers.0.attention.wq._extra_state"]
)
@pytest.mark.parametrize("front", ["module.", "model."])
def test_values_beside_the_model_do_not_count(front: str, beside: str) -> None:
    keys = list(models.state("meta"))
    result = unwrap_keys([*(front + key for key in keys), beside])
    assert list(result.names.values()) == [*keys, beside]
    assert result.wrappers == (front[:-1],)


def test_a_name_of_another_layout_beside_the_model_does_not_count() -> None:
    keys = list(models.state("hf"))
    assert names([*(f"module.{key}" for key in keys), "norm.weight"]) == [*keys, "norm.weight"]


def test_a_weight_without_the_word_keeps_it_everywhere() -> None:
    keys = list(models.state("meta"))
    mixed = [f"module.{key}" for key in keys[:10]] + keys[10:]
    assert names(mixed) == mixed


@pytest.mark.parametrize("first", ["fc.weight", "_orig_mod.fc.weight"])
def test_collisions_show_both(first: str) -> None:
    keys = [first, "_orig_mod._orig_mod.fc.weight", "other._orig_mod.weight"]
    assert unwrap_keys(keys).collisions == ((first, "_orig_mod._orig_mod.fc.weight"),)


def test_two_copies_block_and_nothing_is_lost() -> None:
    tensors = models.state("meta")
    both = tensors | {f"_orig_mod.{key}": value for key, value in tensors.items()}
    plan = models.plan(both, models.config())
    account(plan)
    assert plan.status == "blocked"
    found = [f for f in plan.findings if f.code == "key-collision"]
    assert len(found) == len(tensors)
    assert set(found[0].keys) == {"tok_embeddings.weight", "_orig_mod.tok_embeddings.weight"}
    assert len(plan.weights) == len(both)
    assert plan.wrappers == ()  # none was taken off


def test_leaving_one_of_two_copies_out_settles_it() -> None:
    tensors = models.state("hf") | {"_orig_mod.model.norm.weight": np.zeros(models.HIDDEN, np.float32)}
    plan = models.plan(tensors, models.config())
    (found,) = [f for f in plan.findings if f.blocking]
    assert found.code == "key-collision"
    for ticked in found.keys:
        settled = models.plan(tensors, models.config(), dropped=frozenset([ticked]))
        account(settled)
        assert settled.status in ("clean", "fixable")
        assert [d.ref.key for d in settled.dropped if d.kind == "user"] == [ticked]
        assert {e.key for e in settled.entries} == set(models.state("hf"))


def test_leaving_one_of_three_copies_out_does_not() -> None:
    extra = np.zeros(models.HIDDEN, np.float32)
    tensors = models.state("hf") | {"_orig_mod.model.norm.weight": extra, "model.norm._orig_mod.weight": extra}
    settled = models.plan(tensors, models.config(), dropped=frozenset(["model.norm.weight"]))
    assert settled.status == "blocked"
    assert set(models.finding(settled, "key-collision").keys) == set(list(tensors)[-2:])


def test_the_pass() -> None:
    tensors = {f"module._orig_mod.{key}": value for key, value in models.state("torchtune").items()}
    plan = models.plan(tensors, models.config())
    assert plan.status == "fixable"
    assert plan.wrappers == ("_orig_mod", "module")
    found = models.finding(plan, "wrapper-prefix")
    assert found.severity == "warning"
    assert len(found.keys) == len(tensors)
    assert "`_orig_mod` (torch.compile)" in found.message
    skipped = models.plan(tensors, models.config(), skip=frozenset(["unwrap"]))
    assert skipped.wrappers == ()
    assert skipped.family is None


WORDS = st.sampled_from(sorted(ANYWHERE))


@given(st.data(), st.sampled_from(LAYOUTS), st.booleans())
def test_any_wrapping_is_undone(data: st.DataObject, layout: str, tied: bool) -> None:
    keys = list(models.state(layout, head="absent" if tied else "own"))
    wrapped = []
    for key in keys:
        parts = key.split(".")
        for _ in range(data.draw(st.integers(0, 3))):
            parts.insert(data.draw(st.integers(0, len(parts) - 1)), data.draw(WORDS))
        wrapped.append(".".join(parts))
    front = "".join(
        f"{word}." for word in data.draw(st.lists(st.sampled_from([*ANYWHERE, "module", "model"]), max_size=4))
    )
    result = unwrap_keys([front + key for key in wrapped])
    assert list(result.names.values()) == keys
    assert result.collisions == ()


SEGMENTS = st.sampled_from([*ANYWHERE, "module", "model", "layers", "0", "12", "weight", "w", "norm", "", "a_orig_mod"])


@given(st.lists(st.lists(SEGMENTS, min_size=1, max_size=6).map(".".join), unique=True, max_size=8))
def test_idempotent_and_in_any_order(keys: list[str]) -> None:
    result = unwrap_keys(keys)
    again = unwrap_keys(list(dict.fromkeys(result.names.values())))
    assert all(key == name for key, name in again.names.items())
    backwards = unwrap_keys(keys[::-1])
    assert backwards.names == result.names
    assert sorted(map(sorted, backwards.collisions)) == sorted(map(sorted, result.collisions))
    for key, name in result.names.items():  # only wrapper segments went
        left = iter(key.split("."))
        assert all(part in left for part in name.split("."))


def test_half_a_prefix_that_hides_a_copy_is_a_collision() -> None:
    tensors = models.state("hf")
    tensors |= {"module.model.norm.weight": tensors["model.norm.weight"] + 1}
    plan = models.plan(tensors, models.config())
    found = models.finding(plan, "key-collision")
    assert set(found.keys) == {"model.norm.weight", "module.model.norm.weight"}
    assert plan.status == "blocked"
    settled = models.plan(tensors, models.config(), dropped=frozenset(["module.model.norm.weight"]))
    assert settled.status == "clean"


def test_half_a_prefix_that_hides_a_missing_tensor_is_told() -> None:
    tensors = models.state("hf")
    tensors["module.model.norm.weight"] = tensors.pop("model.norm.weight")
    plan = models.plan(tensors, models.config())
    found = models.finding(plan, "missing-tensor")
    assert found.keys == ("model.norm.weight",)
    assert "`module.model.norm.weight` seems to be one of them" in (found.fix or "")
