"""Which fields of a config are offered to be changed, and in what order."""

from __future__ import annotations

from ckpt_gui.core.config_fields import ConfigField, editable_fields
from ckpt_gui.core.edits import FieldEdit
from ckpt_gui.core.export import Export, Target
from ckpt_gui.core.fields import with_fields
from ckpt_gui.core.retarget import retarget
from tests.core import models


def export_of(config: dict[str, object] | None) -> Export:
    return retarget(models.plan(models.state("hf"), config), Target("same"))


def test_a_field_that_a_finding_is_about_comes_first() -> None:
    export = export_of(models.config(num_key_value_heads=models.HEADS))
    named = [field.name for field in editable_fields(export) if field.named]
    assert "num_key_value_heads" in named
    assert [field.name for field in editable_fields(export)][: len(named)] == named


def test_every_field_is_named_so_that_an_edit_finds_it() -> None:
    config = models.config(rope_scaling={"factor": 8.0, "deep": {"kind": "x"}}, empty={})
    fields = editable_fields(export_of(config))
    assert ConfigField("rope_scaling.deep.kind", '"x"', False) in fields
    assert ConfigField("empty", "{}", False) in fields
    for field in fields:
        assert with_fields(config, (FieldEdit(field.name, field.value),)) == config


def test_there_are_none_without_a_config() -> None:
    assert editable_fields(export_of(None)) == ()
