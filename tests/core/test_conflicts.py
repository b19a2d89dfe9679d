"""Each way out of what blocks, taken, leaves nothing that blocks."""

from __future__ import annotations

from typing import Any

import pytest

from ckpt_gui.core.beside import Sidecars
from ckpt_gui.core.conflicts import Conflict, Resolution, conflicts
from ckpt_gui.core.edits import FieldEdit, Rename
from ckpt_gui.core.export import Export, Target
from ckpt_gui.core.formats.memory import from_state_dict
from ckpt_gui.core.normalise import understand
from ckpt_gui.core.policy import Policy
from ckpt_gui.core.retarget import retarget
from tests.core import models

CLASH = Rename("layers.0.ffn_norm.weight", "norm.weight")


def export_of(tensors: models.State, layout: str = "hf", **policy: Any) -> Export:
    source = models.source(tensors, models.config())
    return retarget(understand(source, Policy(**policy)), Target(layout))


def taken(export: Export, way: Resolution) -> Export:
    return retarget(understand(export.plan.source, way.policy), way.target)


def one(export: Export, code: str) -> Conflict:
    return next(conflict for conflict in conflicts(export) if conflict.finding.code == code)


def test_nothing_blocks_what_is_whole() -> None:
    assert conflicts(export_of(models.state("meta"))) == ()


@pytest.mark.parametrize("wrapper", ["", "module."])
def test_a_rename_onto_a_name_that_is_there_can_be_undone(wrapper: str) -> None:
    tensors = {wrapper + key: value for key, value in models.state("meta").items()}
    export = export_of(tensors, renames=(CLASH,))
    found = one(export, "key-collision")
    first = found.resolutions[0]
    assert first.label == "Do not rename `layers.0.ffn_norm.weight` to `norm.weight`"
    assert first.policy.skip == {"edit:0"}
    assert first.policy.renames == (CLASH,)
    assert taken(export, first).blocked == ()


@pytest.mark.parametrize("wrapper", ["", "module."])
def test_a_rename_away_from_what_is_expected_can_be_undone(wrapper: str) -> None:
    tensors = {wrapper + key: value for key, value in models.state("meta").items()}
    away = Rename("layers.{layer}.attention.wv.weight", "layers.{layer}.self.value", "template")
    export = export_of(tensors, renames=(Rename("norm.weight", "norm.weight"), away))
    (way,) = one(export, "missing-tensor").resolutions
    assert way.label == "Do not rename `layers.{layer}.attention.wv.weight` to `layers.{layer}.self.value`"
    assert way.policy.skip == {"edit:1"}
    assert taken(export, way).blocked == ()


def test_one_of_two_that_clash_can_be_left_out() -> None:
    extra = models.state("meta")
    extra["spare"] = extra["norm.weight"] + 1
    export = export_of(extra, renames=(Rename("spare", "norm.weight"),))
    ways = {way.label: way for way in one(export, "key-collision").resolutions}
    assert taken(export, ways["Leave out `spare`"]).blocked == ()


def test_a_rule_that_can_not_be_used_is_left_alone() -> None:
    export = export_of(models.state("meta"), renames=(Rename("(a+)+b", "x", "regex"),))
    (way,) = [way for way in one(export, "bad-edit").resolutions if way.policy.skip]
    assert way.policy.skip == {"edit:0"}
    assert taken(export, way).blocked == ()


def test_a_field_of_the_wrong_kind_is_left_as_it_is() -> None:
    edits = (FieldEdit("vocab_size", '"many"'), FieldEdit("rope_theta", "777.0"))
    export = export_of(models.state("meta"), config=edits)
    ways = {way.label: way for way in one(export, "bad-edit").resolutions}
    way = ways["Leave `vocab_size` as it is"]
    assert way.policy.config == edits[1:]
    assert taken(export, way).blocked == ()


def test_what_only_the_target_refuses_can_stay_in_its_layout() -> None:
    export = export_of(models.state("meta"), "deepseek")
    for conflict in conflicts(export):
        assert conflict.resolutions[-1].target.layout == "same"
    assert taken(export, conflicts(export)[0].resolutions[-1]).blocked == ()


def test_what_another_file_alone_can_mend_has_no_way_out() -> None:
    tensors = models.state("meta")
    del tensors["norm.weight"]
    assert one(export_of(tensors), "missing-tensor").resolutions == ()


def test_one_of_several_sections_can_be_taken() -> None:
    one_, two = models.state("meta"), {key: value + 1 for key, value in models.state("meta").items()}
    source = from_state_dict({"first": one_, "second": two})
    source = source.replace(sidecars=Sidecars(config=models.config()))
    export = retarget(understand(source, Policy(section=("third",))), Target("hf"))
    ways = {way.label: way for way in one(export, "several-sections").resolutions}
    assert list(ways) == ["Take the section `first`", "Take the section `second`"]
    made = taken(export, ways["Take the section `second`"])
    assert (made.blocked, made.plan.section) == ((), ("second",))
