"""Fused families and mixtures of experts: what transformers saves is clean, and comes back from every layout.

Every parameter and buffer has random values of its own, so that gates, norms, biases and experts that are swapped are
seen; the number of experts, of heads and of key/value heads are all different.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.oracle
pytest.importorskip("transformers")

import torch

from ckpt_gui.core.export import Target
from ckpt_gui.core.families.registry import BY_NAME
from ckpt_gui.core.retarget import retarget
from tests.oracles import moe, tiny
from tests.oracles.moe import CASES

SEVERAL = [(case, layout.name) for case, (_, _, family) in CASES.items() for layout in BY_NAME[family].layouts[1:]]
# What a layout has no name for.
NAMELESS = [
    *(("phi-norms", "litgpt"), ("qwen3-moe", "litgpt")),
    *(("qwen3-moe-biases", "torchtitan"), ("qwen3-moe-biases", "torchtitan-old")),
    *(("deepseek-v3-biases", "deepseek"), ("deepseek-v3-biases", "torchtitan")),
]
ALIKE = [("gpt-neox-tied", "hf-fused")]  # only the head has another name there, and it is left out
SEVERAL = [pair for pair in SEVERAL if pair not in NAMELESS + ALIKE]


@pytest.fixture(params=list(CASES))
def case(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Folders written by `save_pretrained`, one a case."""

    @lru_cache
    def of(case: str) -> Path:
        folder = tmp_path_factory.mktemp(case) / "saved"
        return moe.save(case, folder)

    return of


def assert_nothing_found(folder: Path) -> None:
    """Not even an info, but that no tokenizer is there."""
    plan = tiny.plan_of(folder)
    assert [(f.code, f.message) for f in plan.findings] == []
    assert plan.status == "clean"


def config_of(folder: Path) -> dict[str, Any]:
    """The config as transformers reads it; what version 5 takes into `rope_parameters` may also stand beside them."""
    aside = {"partial_rotary_factor", "rotary_pct", "rotary_emb_base", "rope_theta"} if tiny.V5 else set()
    made = {name: value for name, value in tiny.config_of(folder).items() if name not in aside}
    if "text_config" in made:  # an export says the tie at every level, and the type
        text = {k: v for k, v in made["text_config"].items() if k not in ("dtype", "torch_dtype")}
        made = {k: v for k, v in made.items() if k != "tie_word_embeddings"} | {"text_config": text}
    return made


def assert_same_model(folder: Path, saved: Path, case: str) -> None:
    assert tiny.differing(tiny.read(folder), tiny.read(saved)) == []
    assert config_of(folder) == config_of(saved)
    logits = moe.logits_of(case, saved)
    assert logits.isfinite().all()
    assert torch.equal(moe.logits_of(case, folder), logits)


def test_what_transformers_saves_is_clean(case: str, folders: Any) -> None:
    plan = tiny.plan_of(folders(case))
    assert plan.family is BY_NAME[CASES[case][2]]
    assert plan.layout is plan.family.layouts[0]
    assert plan.missing == plan.unmapped == ()
    assert_nothing_found(folders(case))


def test_hf_export_is_the_same_model(case: str, folders: Any, tmp_path: Path) -> None:
    out = tiny.export(folders(case), tmp_path / "out")
    assert_nothing_found(out)
    assert_same_model(out, folders(case), case)


@pytest.mark.parametrize(("name", "layout"), SEVERAL)
def test_there_and_back(name: str, layout: str, folders: Any, tmp_path: Path) -> None:
    there = tiny.export(folders(name), tmp_path / "there", layout)
    plan = tiny.plan_of(there)
    assert plan.layout is not None
    assert plan.layout.name == layout
    tiny.assert_clean(there)
    back = tiny.export(there, tmp_path / "back")
    assert_nothing_found(back)
    assert_same_model(back, folders(name), name)
    again = tiny.export(back, tmp_path / "again", layout)
    assert tiny.differing(tiny.read(again), tiny.read(there)) == []


@pytest.mark.parametrize(("name", "layout"), NAMELESS)
def test_what_a_layout_has_no_name_for_is_refused(name: str, layout: str, folders: Any) -> None:
    export = retarget(tiny.plan_of(folders(name)), Target(layout))
    assert [f.code for f in export.blocked] == ["unknown-layout"]
