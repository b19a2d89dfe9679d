"""What a pasted message is explained by, and that any text is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ckpt_gui.core.errors import Finding
from ckpt_gui.core.explain import CAUSES, KINDS, LIMIT, Opened, explain, paths_in, read_message
from tests.core.explain.messages import MESSAGES

KIND_OF = {cause.id: cause.kind for cause in CAUSES}
PIECES = [text for _, text in MESSAGES]


@pytest.mark.parametrize(("cause", "text"), MESSAGES, ids=[f"{n}-{it[0]}" for n, it in enumerate(MESSAGES)])
def test_each_message_leads_to_its_cause_first(cause: str, text: str):
    first = explain(text)[0]
    assert (first.id, first.kind) == (cause, KIND_OF[cause])


def test_every_cause_has_a_message():
    assert {cause.id for cause in CAUSES} == {cause for cause, _ in MESSAGES}
    assert len({cause.id for cause in CAUSES}) == len(CAUSES)


@pytest.mark.parametrize(("cause", "text"), MESSAGES, ids=[f"{n}-{it[0]}" for n, it in enumerate(MESSAGES)])
def test_sentences_are_filled_in(cause: str, text: str):
    for it in explain(text):
        assert not re.search(r"\{\w*\}", (it.says + it.do).replace("layers.{}", "")), it
        assert "``" not in it.says
        assert it.title == KINDS[it.kind]
        assert it.steps, f"{it.id} tells nothing to run"


def test_a_terminal_that_wraps_and_colours_changes_nothing():
    text = "\x1b[31mRuntimeError\x1b[0m: │ failed reading zip │\n│ archive: failed finding central\n directory"
    assert explain(text)[0].id == "zip-cut"


def test_groups_stand_in_the_sentences():
    text = dict(MESSAGES)["other-size"]
    assert explain(text)[0].says.startswith("`layers.0.wq.weight` is [2048, 2048] in the file and [4096, 4096] in")


def test_the_load_report_of_transformers_is_read():
    lines = (
        "Key | Status |",
        "----+---+",
        "_orig_mod.model.norm.weight | UNEXPECTED |",
        "model.norm.weight | MISSING |",
    )
    text = "\n".join(lines)
    message = read_message(text)
    assert message.unexpected == ("_orig_mod.model.norm.weight",)
    assert message.missing == ("model.norm.weight",)
    assert explain(text)[0].id == "prefix-orig_mod"


def test_several_causes_are_ranked():
    text = dict(MESSAGES)["legacy-tar"]
    assert [it.kind for it in explain(text)] == ["F", "A"]


def test_a_kind_is_told_once():
    text = dict(MESSAGES)["prefix-module"]
    assert [it.id for it in explain(text)] == ["prefix-module"]


def test_an_open_checkpoint_confirms_a_cause():
    zeros = Finding("zero-filled", "error", "All 2,000 bytes are zero.")
    text = dict(MESSAGES)["legacy-tar"]
    first, second = explain(text, Opened("/m/x.pt", frozenset(), (zeros,)))
    assert (first.id, first.confirmed, second.id) == ("legacy-tar", False, "all-zero")
    assert second.beside == "The open checkpoint shows it: All 2,000 bytes are zero."


def test_keys_are_looked_up_in_the_open_checkpoint():
    text = "KeyError: 'lm_head.weight'"
    has = Opened("x", frozenset({"lm_head.weight"}))
    lacks = Opened("x", frozenset({"a.weight"}))
    longer = Opened("x", frozenset({"module.lm_head.weight"}))
    assert explain(text, has)[0].beside == "The open checkpoint has `lm_head.weight`."
    assert explain(text, lacks)[0].beside == "The open checkpoint has no `lm_head.weight`."
    assert explain(text, longer)[0].beside.endswith("but `module.lm_head.weight`.")


@pytest.mark.parametrize("text", ["", "hello", "CUDA out of memory. Tried to allocate 2 GiB", "ImportError: no torch"])
def test_what_is_not_known_has_no_explanation(text: str):
    assert explain(text) == ()


def test_commands_name_the_path():
    step = explain("KeyError: 'metadata'")[0].steps[1]
    assert step.command() == ("ckpt-gui", "fix", "PATH", "-o", "OUT", "--to", "same")
    assert step.command("/m/a b")[2] == "/m/a b"
    assert step.layout == "same"


@pytest.mark.parametrize(
    "piece",
    ['"a.', "Missing key(s) in state_dict: ", "a.b.c.", "KeyError: 'a", "size mismatch for ", "| MISSING",
     "No such file or directory: '", "[{'a', ", "Some tensors share memory", "Target modules ", '"a", '],
)  # fmt: skip
def test_a_megabyte_of_anything_is_read_in_bounded_work(piece: str):
    explain(piece * (LIMIT // len(piece) + 10))


def test_more_than_a_megabyte_is_cut():
    message = read_message("x" * (LIMIT + 5) + "invalid load key, 'v'")
    assert message.cut
    assert "invalid load key" not in message.text


@settings(max_examples=100, deadline=None)
@given(st.lists(st.one_of(st.text(max_size=60), st.sampled_from(PIECES)), max_size=6).map("".join))
def test_any_text_is_taken(text: str):
    for it in explain(text, Opened("p", frozenset({"a.b", "lm_head.weight"}))):
        assert it.kind in KINDS
        assert it.says


def test_paths_of_checkpoints_are_found_in_a_traceback():
    text = "File \"/usr/lib/a.py\"\nNo such file: '/m/x.safetensors', C:\\m\\y.pt. and relative/z.pt"
    assert paths_in(text) == ("/m/x.safetensors", "C:\\m\\y.pt")


def test_findings_that_confirm_are_codes_of_the_readme():
    readme = Path(__file__).parents[3] / "README.md"
    codes = readme.read_text(encoding="utf-8").partition("## Finding codes")[2]
    assert [code for cause in CAUSES for code in cause.codes if f"`{code}`" not in codes] == []
