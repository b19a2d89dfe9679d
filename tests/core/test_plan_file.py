"""Plans as files: what is written is read again, and what is no plan is refused in words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_gui.core.edits import FieldEdit, KeyRule
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.export import Target
from ckpt_gui.core.plan_file import PlanFile, parse_plan, plan_json, read_plan, write_plan
from ckpt_gui.core.policy import Policy

FULL = PlanFile(
    Policy(
        section=("a", "b"), family="llama", heads=4, kv_heads=2, tie="keep", skip=frozenset({"buffers", "tie"}),
        dropped=frozenset({"x.y"}), lora_alpha=1.5, assigned_only=True, stored="meta",
        key_rules=(KeyRule("a.{n}", "b.{n}"), KeyRule("(", "é", True, False)), kept=frozenset({"k"}),
        config_edits=(FieldEdit("f", '{"a": [1, null]}'), FieldEdit("g", None)),
        metadata_edits=(FieldEdit("m", "text"), FieldEdit("n", None)),
    ),
    Target("meta", "torch", "bf16", 10**9, None, 2), "/base", "/adapter", "/m/model.pt",
)  # fmt: skip


@pytest.mark.parametrize("plan", [PlanFile(), FULL])
def test_a_plan_is_read_as_it_was_written(plan: PlanFile, tmp_path: Path) -> None:
    write_plan(tmp_path / "plan.json", plan)
    assert read_plan(tmp_path / "plan.json") == plan
    assert list(tmp_path.iterdir()) == [tmp_path / "plan.json"]


def test_only_what_was_decided_is_in_it() -> None:
    made = json.loads(plan_json(PlanFile(Policy(tie="copy"), Target("hf"), source="/m")))
    assert made == {"ckpt_gui_plan": 1, "source": "/m", "policy": {"tie": "copy"}, "target": {"layout": "hf"}}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "no JSON"),
        ("[]", "ckpt_gui_plan"),
        ("{}", "ckpt_gui_plan"),
        ('{"ckpt_gui_plan": 2}', "version 2"),
        ('{"ckpt_gui_plan": 1, "policy": []}', "objects"),
        ('{"ckpt_gui_plan": 1, "policy": {"nonsense": 1}}', "nonsense"),
        ('{"ckpt_gui_plan": 1, "policy": {"heads": true}}', "heads"),
        ('{"ckpt_gui_plan": 1, "policy": {"heads": "4"}}', "heads"),
        ('{"ckpt_gui_plan": 1, "policy": {"skip": "tie"}}', "skip"),
        ('{"ckpt_gui_plan": 1, "policy": {"key_rules": [{"find": 1}]}}', "rule"),
        ('{"ckpt_gui_plan": 1, "policy": {"metadata_edits": [{"name": "a", "value": 1}]}}', "text"),
        ('{"ckpt_gui_plan": 1, "policy": {"config_edits": [{"name": "a"}]}}', "change"),
        ('{"ckpt_gui_plan": 1, "target": {"base": 1}}', "base"),
        ('{"ckpt_gui_plan": 1, "target": {"plan": 1}}', "plan"),
        ("[" * 100_000, "no JSON"),
    ],
)
def test_what_is_no_plan_is_refused(text: str, said: str) -> None:
    with pytest.raises(CheckpointError, match=said) as caught:
        parse_plan(text)
    assert caught.value.code == "plan-invalid"


def test_files_that_can_not_be_read(tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(b"\xff\xfe\x00")
    for name in ("absent.json", "b"):
        with pytest.raises(CheckpointError) as caught:
            read_plan(tmp_path / name)
        assert caught.value.path == str(tmp_path / name)


NAMES = st.sampled_from(
    ["policy", "target", "key_rules", "skip", "find", "to", "name", "value", "base", "section", "tie", "layout"]
)
PLAIN = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
ANYTHING = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4), max_leaves=12
)


@given(ANYTHING)
def test_anything_else_is_a_plan_or_refused_and_nothing_worse(value: object) -> None:
    made = {"ckpt_gui_plan": 1, "policy": value, "target": value}
    codes = set()
    try:
        parse_plan(json.dumps(made))
    except CheckpointError as error:
        codes.add(error.code)
    assert codes <= {"plan-invalid"}
