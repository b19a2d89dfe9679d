"""OpenAI's config.json of a GPT-OSS, in Hugging Face's terms and back."""

from __future__ import annotations

import json

import pytest

from ckpt_gui.core.export import Target
from ckpt_gui.core.model_config import read_config
from ckpt_gui.core.openai_config import is_openai, to_hugging_face, to_openai
from ckpt_gui.core.retarget import retarget
from tests.core import models
from tests.core.own_layouts import gpt_oss_openai
from tests.core.test_families_fused import config, hub_state

# As it lies beside gpt-oss-20b's original files.
OWN = {
    "num_hidden_layers": 24, "num_experts": 32, "experts_per_token": 4, "vocab_size": 201088, "hidden_size": 2880,
    "intermediate_size": 2880, "swiglu_limit": 7.0, "head_dim": 64, "num_attention_heads": 64,
    "num_key_value_heads": 8, "sliding_window": 128, "initial_context_length": 4096, "rope_theta": 150000.0,
    "rope_scaling_factor": 32.0, "rope_ntk_alpha": 1.0, "rope_ntk_beta": 32.0,
}  # fmt: skip


def test_there_and_back() -> None:
    made = to_hugging_face(OWN)
    assert (made["model_type"], made["num_local_experts"], made["num_experts_per_tok"]) == ("gpt_oss", 32, 4)
    assert made["rope_scaling"] == {
        "rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False,
        "original_max_position_embeddings": 4096,
    }  # fmt: skip
    assert made["max_position_embeddings"] == 131072
    assert to_openai(made) == OWN


def test_no_scaling() -> None:
    made = to_hugging_face(OWN | {"rope_scaling_factor": 1.0})
    assert made["rope_scaling"] is None
    assert to_openai(made)["rope_scaling_factor"] == 1.0


def test_what_it_is_told_by() -> None:
    assert is_openai(OWN)
    assert not is_openai(config("gpt-oss"))
    assert read_config(OWN).model_type == "gpt_oss"
    assert read_config(OWN).dims["experts"] == 32


@pytest.mark.parametrize("report", [False, True])
def test_a_folder_of_openais(report: bool) -> None:
    export = retarget(models.plan(hub_state("gpt-oss"), config("gpt-oss")), Target("openai"))
    own = json.loads(export.texts["config.json"])
    assert own["num_experts"] == 5
    assert "model_type" not in own
    origin = config("gpt-oss") | {"eos_token_id": 7} if report else None
    source = models.source(gpt_oss_openai(hub_state("gpt-oss")), own, origin=origin)
    back = retarget(models.understand(source), Target("hf"))
    assert not back.blocked
    made = json.loads(back.texts["config.json"])
    assert (made["model_type"], made["num_local_experts"]) == ("gpt_oss", 5)
    assert made.get("eos_token_id") == (7 if report else None)
