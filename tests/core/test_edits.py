"""Names, config fields and metadata that the user changes: what the rules do, and what follows from them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ckpt_gui.core.edits import FieldEdit, KeyRule, apply_rules, edit_config, edit_metadata, field_value
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.export import Export, Target
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.normalise import normalise, understand
from ckpt_gui.core.plan import Plan
from ckpt_gui.core.policy import Policy
from ckpt_gui.core.retarget import retarget
from ckpt_gui.core.writer import write_export
from tests import builders
from tests.core import models


def renamed(keys: list[str], *rules: KeyRule) -> list[str]:
    return list(apply_rules(keys, rules).names)


def test_a_key_a_template_and_an_expression() -> None:
    keys = ["h.0.w", "h.12.w", "h.x.w", "ln"]
    assert renamed(keys, KeyRule("ln", "norm")) == ["h.0.w", "h.12.w", "h.x.w", "norm"]
    assert renamed(keys, KeyRule("h.{layer}.w", "l.{layer}.weight")) == ["l.0.weight", "l.12.weight", "h.x.w", "ln"]
    assert renamed(keys, KeyRule(r"^h\.(\d+)", r"b.\1", regex=True)) == ["b.0.w", "b.12.w", "h.x.w", "ln"]
    assert renamed(["a.1.2", "a.3.3"], KeyRule("a.{n}.{n}", "b.{n}")) == ["a.1.2", "b.3"]
    assert renamed(["a.1.2"], KeyRule("a.{x}.{y}", "a.{y}.{x}")) == ["a.2.1"]
    assert renamed(["w+", "ww"], KeyRule("w+", "v")) == ["v", "ww"], "a key is no expression"


def test_rules_are_done_in_order_and_may_rest() -> None:
    first, second = KeyRule("a", "b"), KeyRule("b", "c")
    assert renamed(["a"], first, second) == ["c"]
    assert renamed(["a"], second, first) == ["b"]
    found = apply_rules(["a", "b"], [KeyRule("a", "x", enabled=False), second])
    assert (found.names, found.hits) == (("a", "c"), ((), (1,)))


@pytest.mark.parametrize(
    "rule",
    [KeyRule("", "x"), KeyRule("a", ""), KeyRule("a.{x}", "b.{y}"), KeyRule("(", "x", True), KeyRule("a", r"\9", True)],
)
def test_a_rule_that_can_not_be_read_says_so(rule: KeyRule) -> None:
    with pytest.raises(CheckpointError) as caught:
        apply_rules(["a"], [rule])
    assert caught.value.code == "edit-invalid"


def test_fields_of_a_config() -> None:
    raw = {"rope_scaling": {"factor": 8.0, "type": "x"}, "a.b": 1, "act": "silu"}
    edits = [
        FieldEdit("rope_scaling.factor", "4.0"),
        FieldEdit("a.b", "2"),
        FieldEdit("act", None),
        FieldEdit("n.m", "[1]"),
    ]
    assert edit_config(raw, edits) == {"rope_scaling": {"factor": 4.0, "type": "x"}, "a.b": 2, "n": {"m": [1]}}
    assert raw["rope_scaling"] == {"factor": 8.0, "type": "x"}, "the source stays as it is"
    assert (field_value(raw, "act"), field_value(raw, "rope_scaling.type")) == ('"silu"', '"x"')
    with pytest.raises(CheckpointError, match="no JSON"):
        edit_config(raw, [FieldEdit("act", "silu")])
    assert edit_metadata({"a": "1", "b": "2"}, [FieldEdit("a", None), FieldEdit("c", "3")]) == {"b": "2", "c": "3"}


# ------------------------------------------------------------------------------------------------- what follows from it


def plan_of(tensors: models.State, **policy: Any) -> Plan:
    return models.plan(tensors, models.config(), **policy)


def export_of(tensors: models.State, layout: str = "hf", **policy: Any) -> Export:
    return retarget(plan_of(tensors, **policy), Target(layout))


def misnamed() -> models.State:
    """Return a Meta model whose q projections and last norm have names that nobody knows."""
    tensors = {k.replace("attention.wq.weight", "attn.query"): v for k, v in models.state("meta").items()}
    return {("final" if k == "norm.weight" else k): v for k, v in tensors.items()}


RULES = (KeyRule("layers.{layer}.attn.query", "layers.{layer}.attention.wq.weight"), KeyRule("final", "norm.weight"))


def test_a_renamed_tensor_is_the_one_that_it_is_called(tmp_path: Path) -> None:
    assert any(f.code == "missing-tensor" for f in export_of(misnamed()).blocked)
    export = export_of(misnamed(), key_rules=RULES)
    assert export.blocked == ()
    write_export(export, tmp_path / "out")
    wanted = models.state("hf")
    with open_checkpoint(tmp_path / "out") as source:
        assert {ref.key for ref in source.refs} == set(wanted) - {models.HEAD["hf"]} | (
            {models.HEAD["hf"]} if any(ref.key == models.HEAD["hf"] for ref in source.refs) else set()
        )
        for ref in source.refs:
            read = np.frombuffer(source.read(ref), np.float32).reshape(ref.shape)
            np.testing.assert_array_equal(read, wanted[ref.key], err_msg=ref.key)


def test_each_rule_is_a_step() -> None:
    export = export_of(misnamed(), key_rules=RULES)
    first, second = export.steps[:2]
    assert (first.id, first.count, second.id, second.count) == ("rule-0", models.LAYERS, "rule-1", 1)
    assert first.keys == tuple(f"layers.{n}.attn.query" for n in range(models.LAYERS))
    assert "final" in second.title
    assert first.optional
    assert first.certain


def test_two_tensors_that_get_one_name_block() -> None:
    export = export_of(models.state("meta"), key_rules=(KeyRule("layers.0.ffn_norm.weight", "norm.weight"),))
    (clash,) = [f for f in export.blocked if f.code == "key-collision"]
    assert "layers.0.ffn_norm.weight" in clash.keys


def test_names_that_belong_nowhere_are_written_all_the_same(tmp_path: Path) -> None:
    export = export_of(
        models.state("meta") | {"extra": np.ones(3, np.float32)}, "same", key_rules=(KeyRule("extra", "mine.x"),)
    )
    write_export(export, tmp_path / "out")
    with open_checkpoint(tmp_path / "out") as source:
        assert "mine.x" in {ref.key for ref in source.refs}
        assert "extra" not in {ref.key for ref in source.refs}


def test_a_rule_or_a_key_of_another_checkpoint_is_told() -> None:
    plan = plan_of(
        models.state("meta"),
        key_rules=(KeyRule("nowhere", "x"),),
        dropped=frozenset({"gone.a"}),
        kept=frozenset({"gone.b"}),
    )
    told = [f.message for f in plan.findings if f.code == "edit-unmatched"]
    assert told == [
        "The plan names 2 tensors that are not in this checkpoint: `gone.a`, `gone.b`.",
        "The rule `nowhere` → `x` fits no key of this checkpoint.",
    ]


def test_a_computed_tensor_is_kept_on_wish() -> None:
    tensors = models.state("meta") | {"rope.freqs": np.zeros(4, np.float32)}
    export = export_of(tensors, kept=frozenset({"rope.freqs"}))
    assert "rope.freqs" in {entry.key for entry in export.entries}
    assert [step.id for step in export.steps if step.keys == ("rope.freqs",)] == ["keep"]
    assert "rope.freqs" not in {entry.key for entry in export_of(tensors).entries}


def test_a_field_of_the_config_is_changed_before_anything_follows_from_it() -> None:
    edits = (FieldEdit("rope_theta", "777.0"), FieldEdit("vocab_extra", '"x"'))
    export = export_of(models.state("hf"), config_edits=edits)
    config = json.loads(export.texts["config.json"])
    assert (config["rope_theta"], config["vocab_extra"]) == (777.0, "x")
    (step,) = [s for s in export.steps if s.id == "config-edit"]
    assert step.title == "Change `rope_theta`, `vocab_extra` of config.json"
    assert step.examples[1] == ("vocab_extra = –", 'vocab_extra = "x"')
    again = normalise(export.plan.source, export.plan.policy)
    assert retarget(again, export.target).texts == export.texts, "to change it twice is to change it once"


def test_a_change_without_a_config_is_told() -> None:
    plan = models.plan(models.state("hf"), None, config_edits=(FieldEdit("rope_theta", "1"),))
    assert "edit-unmatched" in {f.code for f in plan.findings}


def test_metadata_of_safetensors(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    path.write_bytes(builders.safetensors_bytes(models.state("hf"), {"format": "pt", "note": "old", "gone": "x"}))
    edits = (FieldEdit("note", "new"), FieldEdit("gone", None), FieldEdit("made", "by hand"))
    with open_checkpoint(path) as source:
        export = retarget(understand(source, Policy(metadata_edits=edits)), Target("same"))
        write_export(export, tmp_path / "out")
        (step,) = [s for s in export.steps if s.id == "metadata-edit"]
        assert step.examples == (("note = old", "note = new"), ("gone = x", "gone = –"), ("made = –", "made = by hand"))
    with open_checkpoint(next((tmp_path / "out").glob("*.safetensors"))) as written:
        assert dict(written.metadata) == {"format": "pt", "note": "new", "made": "by hand"}
