"""Layers that look at an image have the numbers that the program which reads them gives them."""

from __future__ import annotations

import pytest

from ckpt_gui.core.families.numbering import spread
from ckpt_gui.core.plan import Plan
from ckpt_gui.core.retarget import Target, retarget
from tests.core import models
from tests.core.test_families_fused import config, hub_state
from tests.core.vision_layouts import mllama_meta, mllama_torchtune


def test_places_as_meta_computes_them() -> None:
    assert spread(32, 8) == [3, 7, 11, 15, 19, 23, 27, 31]
    assert spread(80, 20) == list(range(3, 80, 4))
    assert spread(3, 2) == [0, 2]
    assert spread(3, 0) == []


def moved(numbers: dict[int, int]) -> Plan:
    """The plan of a model of which layers change places."""
    made = {}
    for key, value in hub_state("mllama").items():
        for old, new in numbers.items():
            if f"language_model.model.layers.{old}." in key:
                key = key.replace(f"layers.{old}.", f"layers.{new}.")
                break
        made[key] = value
    return models.plan(made, config("mllama"))


@pytest.mark.parametrize(
    ("numbers", "meta", "torchtune"),
    [({}, False, False), ({0: 1, 1: 0}, True, False), ({1: 2, 2: 1}, True, True)],
    ids=["second", "first", "last"],
)
def test_where_a_layout_can_not_have_them_is_refused(numbers: dict[int, int], meta: bool, torchtune: bool) -> None:
    plan = moved(numbers)
    assert plan.findings == ()
    for layout, refused in (("meta", meta), ("torchtune", torchtune)):
        blocked = retarget(plan, Target(layout)).blocked
        assert [f.code for f in blocked] == ["unknown-layout"] * refused
    if meta:
        assert "Meta's programs would take layers 1" in retarget(plan, Target("meta")).blocked[0].message


@pytest.mark.parametrize("make", [mllama_meta, mllama_torchtune])
def test_a_lost_tensor_has_its_own_number(make: object) -> None:
    tensors = make(hub_state("mllama"))  # type: ignore[operator]
    for key in (k for k in tensors if "layers.1." in k and "attn" in k and k.endswith("_proj.weight")):
        plan = models.plan({k: v for k, v in tensors.items() if k != key}, config("mllama"))
        assert models.finding(plan, "missing-tensor").keys == (key,)


def test_shapes_of_images_in_another_order_are_refused() -> None:
    """The rows for tiles follow the config's list; Meta's grid has one order."""
    own = config("mllama")
    for shapes, refused in (([[1, 1], [1, 2], [2, 1]], False), ([[1, 1], [2, 1], [1, 2]], True)):
        own["vision_config"] = {"supported_aspect_ratios": shapes, "max_num_tiles": 2}
        export = retarget(models.plan(hub_state("mllama"), own), Target("meta"))
        assert [f.code for f in export.blocked] == ["unknown-layout"] * refused
