"""Layers that look at an image have the numbers that the program which reads them gives them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ckpt_gui.core.beside import Sidecars
from ckpt_gui.core.export import Target
from ckpt_gui.core.families.numbering import spread
from ckpt_gui.core.families.registry import BY_NAME
from ckpt_gui.core.formats.memory import from_state_dict
from ckpt_gui.core.merging import merge_adapter
from ckpt_gui.core.normalise import normalise
from ckpt_gui.core.plan import Plan
from ckpt_gui.core.retarget import retarget
from ckpt_gui.core.writer import write_export
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


def pair(module: str, rows: int) -> dict[str, np.ndarray]:
    """A torchtune adapter of one module."""
    a, b = np.full((2, 24), 0.25, np.float32), np.full((rows, 2), 2.0, np.float32)
    return {f"{module}.lora_a.weight": a, f"{module}.lora_b.weight": b}


def adapter(tensors: dict[str, np.ndarray]) -> Plan:
    told = {"peft_type": "LORA", "r": 2, "lora_alpha": 2}
    return normalise(from_state_dict(tensors).replace(sidecars=Sidecars(adapter=told)))


def test_an_adapter_goes_into_the_layer_that_its_program_means(tmp_path: Path) -> None:
    """torchtune's layer 1 is Hugging Face's layer 2 where layer 1 looks at the image."""
    base = hub_state("mllama")
    made = adapter(pair("decoder.layers.1.attn.v_proj", 8))
    plan = merge_adapter(models.plan(base, config("mllama")), made)
    write_export(retarget(plan, Target("hf")), tmp_path / "out")
    key = "language_model.model.layers.2.self_attn.v_proj.weight"
    assert models.opened(tmp_path / "out") == models.as_bytes(base | {key: base[key] + np.float32(1.0)})


def test_an_adapter_alone_does_not_tell_the_numbers() -> None:
    made = adapter(pair("decoder.layers.1.attn.v_proj", 8))
    made = made.replace(family=BY_NAME["mllama"])
    blocked = retarget(made, Target("hf")).blocked
    assert any("another number there" in f.message for f in blocked)


def test_rows_for_tiles_that_no_grid_has_are_refused_before_anything_is_written() -> None:
    """Training with transformers may give a tile other values in images of other shapes."""
    state = hub_state("mllama")
    key = "vision_model.post_tile_positional_embedding.embedding.weight"
    state[key] = state[key].copy()
    state[key][2, 5] += 1  # the first of two tiles side by side
    plan = models.plan(state, config("mllama"))
    assert plan.findings == ()
    for layout, count in (("hf", 0), ("hf-fused", 0), ("meta", 1), ("torchtune", 1)):
        blocked = retarget(plan, Target(layout)).blocked
        assert [f.keys for f in blocked] == [(key,)] * count
        assert all("a grid can not hold" in f.message for f in blocked)
    assert retarget(normalise(models.source(state, config("mllama"))), Target("meta")).blocked == ()  # not looked at


def test_rows_of_another_shape_are_the_checks_affair() -> None:
    state = hub_state("mllama")
    key = "vision_model.post_tile_positional_embedding.embedding.weight"
    state[key] = state[key][:, :-1].copy()
    assert models.codes(models.plan(state, config("mllama"))) == ["shape-mismatch"]
