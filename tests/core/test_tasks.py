"""Classifiers, reward models and backbones: whole without a language model's head, and written where there is room."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ckpt_gui.core.against import against
from ckpt_gui.core.export import Target
from ckpt_gui.core.export_record import use_with
from ckpt_gui.core.families.registry import BY_NAME
from ckpt_gui.core.families.tasks import is_backbone
from ckpt_gui.core.plan import Plan, account
from ckpt_gui.core.report.export_report import use_sentences
from ckpt_gui.core.retarget import retarget
from tests.core import models
from tests.core.models import HIDDEN


def headed(head: str, rows: int, *, bias: bool = False, **changes: Any) -> Plan:
    tensors = models.state("hf", head="absent")
    tensors[f"{head}.weight"] = np.arange(rows * HIDDEN, dtype=np.float32).reshape(rows, HIDDEN)
    if bias:
        tensors[f"{head}.bias"] = np.arange(rows, dtype=np.float32)
    changes = {"architectures": ["LlamaForSequenceClassification"], **changes}
    return models.plan(tensors, models.config(**changes))


@pytest.mark.parametrize("head", ["score", "classifier", "qa_outputs"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("rows", [1, 3])
def test_a_head_of_another_kind(head: str, bias: bool, rows: int) -> None:
    plan = headed(head, rows, bias=bias)
    account(plan)
    assert plan.findings == ()
    assert plan.unmapped == ()
    assert plan.dims["labels"] == rows
    assert plan.family is not None
    assert (plan.family.name, plan.family.title) == ("llama", "Llama classifier")
    assert any(head in text for text in plan.evidence_text)
    export = retarget(plan, Target("hf"))
    assert {e.key for e in export.entries} == {e.key for e in plan.entries}
    assert json.loads(export.texts["config.json"])["architectures"] == ["LlamaForSequenceClassification"]
    assert [f.code for f in retarget(plan, Target("litgpt")).blocked] == ["unknown-layout"]


def test_torchtune_has_no_place_for_a_bias_of_it() -> None:
    export = retarget(headed("score", 1, bias=True), Target("torchtune"))
    assert [f.keys for f in export.blocked] == [("score.bias",)]


def test_a_head_beside_a_language_models_is_not_expected() -> None:
    tensors = models.state("hf")
    tensors["score.weight"] = np.ones((1, HIDDEN), np.float32)
    plan = models.plan(tensors, models.config())
    assert plan.family is BY_NAME["llama"]
    assert [f.code for f in plan.findings] == ["unexpected-tensor"]


def test_a_head_of_another_shape_is_told() -> None:
    plan = headed("score", 3)
    tensors = {e.key: np.zeros(e.output.shape, np.float32) for e in plan.entries}
    tensors["score.weight"] = np.ones((3, HIDDEN + 1), np.float32)
    found = models.plan(tensors, models.config()).findings
    assert [f.code for f in found if f.blocking] == ["shape-mismatch"]


@pytest.mark.parametrize(("rows", "told"), [(1, False), (1, True), (4, True)])
def test_torchtunes_classifier(rows: int, told: bool) -> None:
    tensors = models.state("torchtune", head="absent")
    tensors["output.weight"] = np.ones((rows, HIDDEN), np.float32)
    name = "MistralForSequenceClassification" if told else "LlamaForCausalLM"
    plan = models.plan(tensors, models.config(architectures=[name]))
    assert plan.findings == ()
    export = retarget(plan, Target("hf"))
    assert "score.weight" in {e.key for e in export.entries}
    assert plan.layout is not None
    assert plan.layout.program_type == "REWARD"


LLAMA_3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
           "original_max_position_embeddings": 8192}  # fmt: skip


NOT_SCALED = (
    "torchtune's classifiers do not scale rotary frequencies, as this model does: they would compute other values."
)


@pytest.mark.parametrize(
    ("name", "changes", "wanted"),
    [
        ("llama", {"rope_theta": 1e4}, "llama2_classifier(num_classes=3, …) of torchtune.models.llama2."),
        ("llama", {}, "mistral_classifier(num_classes=3, rope_base=500000, …) of torchtune.models.mistral."),
        ("mistral", {"rope_theta": 1e4}, "mistral_classifier(num_classes=3, …) of torchtune.models.mistral."),
        ("llama", {"rope_scaling": LLAMA_3}, NOT_SCALED),
    ],
)
def test_what_torchtune_builds_a_classifier_with(name: str, changes: dict[str, Any], wanted: str) -> None:
    plan = headed("score", 3, model_type=name, **changes)
    assert use_sentences(use_with(retarget(plan, Target("torchtune")))) == (
        "In torchtune, load it with model_type REWARD.",
        wanted if wanted is NOT_SCALED else f"Its builder is {wanted}",
    )


def test_torchtune_builds_no_classifier_of_a_qwen() -> None:
    tensors = dict(models.state("hf", head="absent"))
    for layer, name in itertools.product(range(models.LAYERS), "qk"):
        tensors[f"model.layers.{layer}.self_attn.{name}_norm.weight"] = np.ones(models.HEAD_DIM, np.float32)
    tensors["score.weight"] = np.ones((1, HIDDEN), np.float32)
    changes = {"model_type": "qwen3", "architectures": ["Qwen3ForSequenceClassification"]}
    export = retarget(models.plan(tensors, models.config(**changes)), Target("torchtune"))
    assert export.blocked == ()
    assert use_with(export) == {
        "warning": "torchtune builds classifiers of Llama and Mistral alone; "
        "none of its builders makes a Qwen 3 classifier."
    }


def test_a_torn_head_of_torchtune_is_no_classifier() -> None:
    tensors = models.state("torchtune")
    tensors["output.weight"] = tensors["output.weight"][:4]
    assert models.finding(models.plan(tensors, models.config()), "shape-mismatch").blocking


def bare(name: str, **changes: Any) -> Plan:
    tensors = {key.removeprefix("model."): value for key, value in models.state("hf", head="absent").items()}
    return models.plan(tensors, models.config(architectures=[name], **changes))


def test_a_backbone_by_its_class() -> None:
    plan = bare("LlamaModel")
    assert plan.findings == ()
    assert plan.prefix == ""
    names = {e.key for e in retarget(plan, Target("hf")).entries}
    assert "layers.0.mlp.up_proj.weight" in names
    assert not any(name.startswith("model.") for name in names)
    assert retarget(plan, Target("meta")).blocked


def test_a_backbone_of_a_tied_model_is_the_model() -> None:
    plan = bare("LlamaModel", tie_word_embeddings=True)
    assert plan.findings == ()
    export = retarget(plan, Target("meta"))
    assert not export.blocked
    assert "output.weight" in {e.key for e in export.entries}


def test_a_backbone_by_choice() -> None:
    tensors = models.state("hf", head="absent")
    assert models.plan(tensors, models.config()).status == "blocked"
    plan = models.plan(tensors, models.config(), tie="none")
    assert plan.findings == ()
    export = retarget(plan, Target("hf"))
    assert not export.blocked
    assert "model.norm.weight" in {e.key for e in export.entries}
    assert json.loads(export.texts["config.json"])["tie_word_embeddings"] is False


def test_a_head_that_is_there_is_kept_whatever_is_chosen() -> None:
    plan = models.plan(models.state("hf"), models.config(), tie="none")
    assert "lm_head.weight" in {e.key for e in retarget(plan, Target("hf")).entries}


def test_a_classifier_beside_its_config(tmp_path: Path) -> None:
    """The config's own family has a language model's head; the checkpoint says that here it has another."""
    plan = headed("score", 3)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(models.config(architectures=["LlamaForSequenceClassification"])))
    assert against(plan, str(path)).findings == ()


@pytest.mark.parametrize(
    ("name", "family", "wanted"),
    [
        ("LlamaModel", "llama", True), ("Gemma3TextModel", "gemma3", True), ("LlamaForCausalLM", "llama", False),
        ("GPT2LMHeadModel", "gpt2", False), ("GPT2DoubleHeadsModel", "gpt2", True), ("", "llama", False),
    ],
)  # fmt: skip
def test_classes_without_a_head(name: str, family: str, wanted: bool) -> None:
    assert is_backbone(name, BY_NAME[family]) is wanted
