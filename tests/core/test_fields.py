"""Edits of the config and the metadata: understood, written, shown; the source stays as it is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ckpt_gui.core.api import write
from ckpt_gui.core.edits import FieldEdit
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.export import Target
from ckpt_gui.core.fields import as_value, with_fields
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.normalise import understand
from ckpt_gui.core.plan import Plan
from ckpt_gui.core.policy import Policy
from ckpt_gui.core.retarget import retarget
from tests.core import models


def edited(config: dict[str, Any], *edits: FieldEdit) -> Plan:
    return understand(models.source(models.state("hf"), config), Policy(config=edits))


def test_a_config_that_is_wrong_is_mended_by_an_edit(tmp_path) -> None:
    wrong = models.config(num_key_value_heads=models.HEADS)
    assert {"config-mismatch", "shape-mismatch"} & {*models.codes(edited(wrong))}
    plan = edited(wrong, FieldEdit("num_key_value_heads", str(models.KV_HEADS)))
    assert models.codes(plan) == models.codes(edited(models.config()))
    write(plan, tmp_path / "out", layout="hf")
    assert json.loads((tmp_path / "out/config.json").read_text())["num_key_value_heads"] == models.KV_HEADS
    assert wrong["num_key_value_heads"] == models.HEADS


def test_a_field_that_no_size_depends_on_is_written_as_it_was_edited(tmp_path) -> None:
    plan = edited(models.config(), FieldEdit("rope_theta", "12345.0"), FieldEdit("my_note", '"hello"'))
    write(plan, tmp_path / "out", layout="hf")
    written = json.loads((tmp_path / "out/config.json").read_text())
    assert (written["rope_theta"], written["my_note"]) == (12345.0, "hello")
    step = next(step for step in retarget(plan, Target("hf")).steps if step.id == "fields")
    assert ("my_note = nothing", 'my_note = "hello"') in step.examples


def test_a_value_of_another_kind_blocks_and_says_why() -> None:
    plan = edited(models.config(), FieldEdit("vocab_size", '"many"'))
    found = models.finding(plan, "bad-edit")
    assert found.blocking
    assert "is a text, and config.json has a number there" in found.message


def test_fields_within_fields_and_those_taken_out() -> None:
    raw = {"a": 1, "rope": {"factor": 8.0, "type": "x"}}
    edits = [
        FieldEdit("rope.factor", "4.0"),
        FieldEdit("a", None),
        FieldEdit("new.deep", "true"),
        FieldEdit("b.c", None),
    ]
    assert with_fields(raw, edits) == {"rope": {"factor": 4.0, "type": "x"}, "new": {"deep": True}}
    assert raw == {"a": 1, "rope": {"factor": 8.0, "type": "x"}}


@pytest.mark.parametrize("text", ["NaN", "Infinity", "{", "[" * 100_000, "x" * (1 << 21)])
def test_what_is_no_json_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(CheckpointError, match="The value") as caught:
        with_fields({}, [FieldEdit("a", text)])
    assert len(caught.value.message) < 300


def test_a_word_is_a_text_and_what_is_json_stays() -> None:
    assert [as_value(t) for t in ("llama", "8", "[1]", "NaN")] == ['"llama"', "8", "[1]", '"NaN"']


def test_metadata_is_written_and_format_stays(tmp_path) -> None:
    plan = models.plan(models.state("hf"), models.config())
    target = Target("hf", metadata=(FieldEdit("run", "42"), FieldEdit("format", None)))
    from ckpt_gui.core.writer import write_export

    export = retarget(plan, target)
    assert any(step.id == "metadata" for step in export.steps)
    write_export(export, tmp_path / "out")
    with open_checkpoint(tmp_path / "out") as source:
        assert source.metadata["run"] == "42"
        assert source.metadata["format"] == "pt"
