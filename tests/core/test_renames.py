"""Names that the user changes by hand: a rule makes wrong names right, and the values follow."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ckpt_gui.core.api import write
from ckpt_gui.core.candidates import candidates, rule_for
from ckpt_gui.core.diffing import diff_expected
from ckpt_gui.core.edits import FieldEdit, Rename
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.export import Target
from ckpt_gui.core.renames import changes, check_rule
from ckpt_gui.core.retarget import retarget
from tests.core import models

META_NAMES = [key for key, *_ in models.names("meta")]


def broken(tensors: models.State) -> models.State:
    """Return Meta's tensors as somebody's own trainer calls them."""
    return {key.replace(".attention.", ".attn.").replace(".feed_forward.", ".ff."): t for key, t in tensors.items()}


def read_back(folder) -> dict[str, bytes]:
    return models.opened(folder)


def test_a_rule_for_all_layers_makes_names_right_and_the_values_are_those_of_the_right_file(tmp_path) -> None:
    whole = models.state("meta")
    rules = (
        Rename("layers.{layer}.attn.wq.weight", "layers.{layer}.attention.wq.weight", "template"),
        Rename(r"\.attn\.(wk|wv|wo)\.", r".attention.\1.", "regex"),
        Rename(r"\.ff\.", ".feed_forward.", "regex"),
    )
    good = models.plan(whole, params=models.params())
    made = models.plan(broken(whole), params=models.params(), renames=rules)
    assert made.layout is not None
    assert made.layout.name == "meta"
    assert made.missing == ()
    write(good, tmp_path / "good", layout="hf")
    write(made, tmp_path / "made", layout="hf")
    assert read_back(tmp_path / "made") == read_back(tmp_path / "good")  # rows of q and k moved once, as in the other


def test_each_rule_is_a_step_that_can_be_ticked_off() -> None:
    rules = (Rename(r"\.attn\.", ".attention.", "regex"), Rename(r"\.ff\.", ".feed_forward.", "regex"))
    tensors = broken(models.state("meta"))
    export = retarget(models.plan(tensors, params=models.params(), renames=rules), Target("hf"))
    steps = {step.id: step for step in export.steps}
    assert steps["edit:0"].count == 4 * models.LAYERS
    assert steps["edit:1"].count == 3 * models.LAYERS
    assert steps["edit:0"].examples[0] == ("layers.0.attn.wq.weight", "layers.0.attention.wq.weight")
    assert steps["edit:0"].optional

    left = models.plan(tensors, params=models.params(), renames=rules, skip=frozenset({"edit:1"}))
    assert {step.id for step in retarget(left, Target("same")).steps} >= {"edit:0"}
    assert not any(step.id == "edit:1" for step in retarget(left, Target("same")).steps)


@pytest.mark.parametrize("name", ["module._orig_mod.tok_emb.weight", "tok_emb.weight"])
def test_a_tensor_is_named_as_the_tree_shows_it_or_as_the_file_does(name: str) -> None:
    tensors = models.state("meta")
    wrapped = {f"module._orig_mod.{k.replace('tok_embeddings', 'tok_emb')}": t for k, t in tensors.items()}
    plan = models.plan(wrapped, params=models.params(), renames=(Rename(name, "tok_embeddings.weight"),))
    assert plan.missing == ()
    assert [one.after for made in plan.edited for one in made] == ["tok_embeddings.weight"]


def test_two_tensors_onto_one_name_keep_theirs_and_block() -> None:
    tensors = models.state("meta")
    plan = models.plan(tensors, params=models.params(), renames=(Rename("norm.weight", "tok_embeddings.weight"),))
    found = models.finding(plan, "key-collision")
    assert found.blocking
    assert set(found.keys) == {"norm.weight", "tok_embeddings.weight"}
    assert plan.edited == ((),)


def test_two_names_can_change_places() -> None:
    made = changes(Rename(r"\.(w1|w3)\.", r".x\1.", "regex"), ["a.w1.weight", "a.w3.weight"])
    assert made == {"a.w1.weight": "a.xw1.weight", "a.w3.weight": "a.xw3.weight"}
    swap = (Rename("a", "tmp"), Rename("b", "a"), Rename("tmp", "b"))
    plan = models.plan({"a": np.ones(3, np.float32), "b": np.zeros(4, np.float32)}, renames=swap)
    assert {entry.ref.key: entry.key for entry in plan.weights} == {"a": "b", "b": "a"}


def test_a_rule_that_fits_nothing_is_told_as_in_a_plan_for_another_checkpoint() -> None:
    rules = (Rename("transformer.h.{n}.q", "layers.{n}.wq", "template"),)
    plan = models.plan(models.state("meta"), params=models.params(), renames=rules, dropped=frozenset({"not.there"}))
    assert [f.severity for f in plan.findings if f.code == "edit-unmatched"] == ["warning", "warning"]
    assert plan.status == "fixable"


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        (Rename("a.{n}", "b.{m}", "template"), "puts {m} into the new name"),
        (Rename("(a", "b", "regex"), "is no regular expression"),
        (Rename("(a+)+b", "c", "regex"), ""),
        (Rename("a", r"\2", "regex"), "can not be filled in"),
        (Rename("", "b"), "says nothing"),
        (Rename("a", ""), "has no new name"),
        (Rename("a", "b" * 5000), "4,096 characters"),
    ],
)
def test_a_rule_that_can_not_be_used_says_why(rule: Rename, why: str) -> None:
    with pytest.raises(CheckpointError, match="The rule") as caught:
        check_rule(rule)
    assert why in caught.value.message
    assert caught.value.code == "bad-edit"


def test_a_rule_that_can_not_be_used_blocks_the_plan_and_breaks_nothing() -> None:
    plan = models.plan(models.state("meta"), params=models.params(), renames=(Rename("(a", "b", "regex"),))
    assert plan.status == "blocked"
    assert models.finding(plan, "bad-edit").blocking


def test_the_same_placeholder_is_the_same_number() -> None:
    rule = Rename("l.{n}.x.{n}", "y.{n}", "template")
    assert changes(rule, ["l.3.x.3", "l.3.x.4", "l.03.x.03"]) == {"l.3.x.3": "y.3"}


def test_a_name_is_what_it_is_in_a_rule_for_many() -> None:
    rule = Rename("a+b.{n}.(c)", r"\1.{n}", "template")
    assert changes(rule, ["a+b.1.(c)", "aab.1.c"]) == {"a+b.1.(c)": r"\1.1"}


def test_a_missing_tensor_has_candidates_of_its_shape_and_layer_first() -> None:
    tensors = models.state("meta")
    odd = {k.replace("layers.1.attention.wk", "layers.1.attn.key"): t for k, t in tensors.items()}
    export = retarget(models.plan(odd, params=models.params()), Target("hf"))
    diff = diff_expected(export)
    missing = next(row for row in diff.rows if row.state == "missing")
    first = candidates(diff, missing)[0]
    assert first.key == "layers.1.attn.key.weight"
    assert first.same_shape

    rule = rule_for(export, first.row.ref, missing.expected)
    assert rule == Rename("layers.1.attn.key.weight", "layers.1.attention.wk.weight")
    mended = models.plan(odd, params=models.params(), renames=(rule,))
    assert mended.missing == ()
    assert models.codes(mended).count("missing-tensor") == 0

    extra = next(row for row in diff.rows if row.state == "extra")
    assert candidates(diff, extra)[0].key == missing.expected


def test_what_is_not_missing_can_not_be_mapped_to() -> None:
    export = retarget(models.model("meta"), Target("hf"))
    with pytest.raises(CheckpointError, match="is not missing"):
        rule_for(export, export.entries[0].ref, "model.norm.weight")


def test_the_report_of_an_export_holds_the_edits(tmp_path) -> None:
    tensors = models.state("meta")
    tensors["final"] = tensors.pop("norm.weight")
    write(
        models.plan(tensors, models.config()), tmp_path / "out", layout="hf", renames=[Rename("final", "norm.weight")],
        config=[FieldEdit("rope_theta", "777.0")], metadata=[FieldEdit("note", "mended")],
    )  # fmt: skip
    report = json.loads((tmp_path / "out/EXPORT_REPORT.json").read_text())
    assert report["edits"] == {
        "renames": [{"old": "final", "new": "norm.weight", "kind": "key", "names": {"final": "norm.weight"}}],
        "config": {"rope_theta": "777.0"},
        "metadata": {"note": "mended"},
    }


@pytest.mark.parametrize("layout", ["hf", "meta", "torchtune"])
def test_what_is_mended_by_rules_is_written_as_the_good_one_byte_for_byte(tmp_path, layout: str) -> None:
    rules = [Rename(r"\.attn\.", ".attention.", "regex"), Rename(r"\.ff\.", ".feed_forward.", "regex")]
    config = models.config()
    write(models.plan(models.state("meta"), config), tmp_path / "good", layout=layout)
    write(models.plan(broken(models.state("meta")), config), tmp_path / "made", layout=layout, renames=rules)
    good, made = (
        {f.name: f.read_bytes() for f in (tmp_path / name).iterdir() if f.name != "EXPORT_REPORT.json"}
        for name in ("good", "made")
    )
    assert len(good) >= 2
    assert made == good


def test_a_misnamed_head_of_a_tied_pair_is_treated_as_the_good_one() -> None:
    tensors = models.state("meta")
    tensors["output.weight"] = tensors["tok_embeddings.weight"].copy()
    good = retarget(models.plan(tensors, models.config()), Target("hf"))
    tensors["proj_out"] = tensors.pop("output.weight")
    plan = models.plan(tensors, models.config(), renames=(Rename("proj_out", "output.weight"),))
    made = retarget(plan, Target("hf"))
    assert [e.key for e in made.entries] == [e.key for e in good.entries]
    assert plan.tie.state == good.plan.tie.state == "equal"


def test_what_else_stands_in_a_template_is_taken_as_it_is() -> None:
    rule = Rename("h.{a}.{b}.w{", r"{b}.{}.{{a}}.\1}.{ x", "template")
    assert changes(rule, ["h.3.12.w{", "h.3.x.w{"]) == {"h.3.12.w{": r"12.{}.{3}.\1}.{ x"}
