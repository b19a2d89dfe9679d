"""Plans as files: the way there and back is exact, and what is not understood is refused with a sentence."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_gui.core.edits import FieldEdit, Rename
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.export import Target
from ckpt_gui.core.plan_file import parse_plan, plan_text, read_plan
from ckpt_gui.core.policy import TIE_CHOICES, Policy

NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=20)
RULES = st.builds(Rename, NAMES, NAMES, st.just("key"))
EDITS = st.dictionaries(NAMES, st.none() | NAMES, max_size=3).map(
    lambda found: tuple(FieldEdit(name, value) for name, value in found.items())
)
COUNTS = st.none() | st.integers(1, 10**6)
POLICIES = st.builds(
    Policy, st.none() | st.lists(NAMES).map(tuple), st.none() | NAMES, COUNTS, COUNTS, st.sampled_from(TIE_CHOICES),
    st.frozensets(NAMES), st.frozensets(NAMES), st.none() | st.floats(0.1, 1e6), st.booleans(),
    st.sampled_from([None, "meta", "hf"]),
    st.lists(RULES).map(tuple), EDITS, st.frozensets(NAMES),
)  # fmt: skip
TARGETS = st.builds(
    Target, st.sampled_from(["hf", "meta", "same"]), st.sampled_from([None, "torch"]),
    st.sampled_from(["keep", "bf16"]), st.integers(1, 1 << 62), st.none(), COUNTS, EDITS,
)  # fmt: skip


@given(POLICIES, TARGETS)
def test_there_and_back_is_exact(policy: Policy, target: Target) -> None:
    read = parse_plan(plan_text(policy, target).encode())
    assert (read.policy, read.target) == (policy, target)


def test_a_plan_says_only_what_is_not_as_usual() -> None:
    value = json.loads(plan_text(Policy(heads=8), Target("hf")))
    assert value == {"schema": 1, "tool": "ckpt_gui", "policy": {"heads": 8}, "target": {"layout": "hf"}}


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"\xff", "is no JSON"),
        (b"[1]", "has no schema"),
        (b'{"schema": 2}', "has no schema"),
        (b'{"schema": 1, "schema": 1}', "twice"),
        (b'{"schema": 1, "polcy": {}}', "field polcy"),
        (b'{"schema": 1, "policy": []}', "policy that is no object"),
        (b'{"schema": 1, "policy": {"heads": true}}', "policy.heads that is not a whole number"),
        (b'{"schema": 1, "policy": {"heads": -1}}', "policy.heads"),
        (b'{"schema": 1, "policy": {"tie": "maybe"}}', "policy.tie"),
        (b'{"schema": 1, "policy": {"renames": [{"old": "a"}]}}', "rules with old, new and kind"),
        (b'{"schema": 1, "policy": {"renames": [{"old": "(a", "new": "b", "kind": "regex"}]}}', "no regular"),
        (b'{"schema": 1, "policy": {"config": {"a": 1}}}', "policy.config that is not a text"),
        (b'{"schema": 1, "target": {"layout": "../../x"}}', "target.layout"),
        (b'{"schema": 1, "target": {"base": 3}}', "target.base"),
        (b'{"schema": 1, "adapter": ["/lora"]}', "has an adapter that is no text"),
        (b'{"schema": true}', "has no schema"),
        (b'{"schema": 1, "policy": {"lora_alpha": NaN}}', "policy.lora_alpha that is not a number above 0"),
        (b'{"schema": 1, "policy": {"lora_alpha": -1}}', "policy.lora_alpha"),
        (b'{"schema": 1, "policy": {"lora_alpha": 1' + b"0" * 400 + b"}}", "policy.lora_alpha"),
        (b'{"schema": 1, "policy": {"heads": 1' + b"0" * 30 + b"}}", "policy.heads"),
        (b'{"schema": 1, "policy": {"stored": "nobody"}}', "policy.stored"),
        (b'{"schema": 1, "policy": {"renames": [{"old": "a", "new": "\\ud800"}]}}', "policy.renames"),
        (b'{"schema": 1, "target": {"metadata": {"a": "\\udc00"}}}', "target.metadata"),
        (b"[" * 200_000, "is no JSON"),
    ],
)  # fmt: skip
def test_what_is_no_plan_is_refused_with_a_sentence(value: bytes, why: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        parse_plan(value, "plan.json")
    assert why in caught.value.message
    assert caught.value.message.endswith(".")
    assert len(caught.value.message) < 500


def test_an_adapter_is_named_and_only_where_there_is_one() -> None:
    assert parse_plan(plan_text(Policy(), Target(), "/m/lora").encode()).adapter == "/m/lora"
    assert "adapter" not in plan_text(Policy(), Target())


def test_a_file_that_is_not_there_is_said(tmp_path) -> None:
    with pytest.raises(CheckpointError, match=r"can not be read: No such file"):
        read_plan(tmp_path / "no.json")
