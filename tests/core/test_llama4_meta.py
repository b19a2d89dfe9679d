"""Llama 4 as Meta has it: its other spellings, its ranks, and its params.json."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_gui.core.config_write import hf_config, meta_params
from ckpt_gui.core.export import Target
from ckpt_gui.core.families.registry import BY_NAME
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.meta_config import read_params
from ckpt_gui.core.model_config import read_config
from ckpt_gui.core.normalise import understand
from ckpt_gui.core.plan import Plan
from ckpt_gui.core.retarget import retarget
from ckpt_gui.core.writer import write_export
from tests import builders
from tests.core import models
from tests.core.models import State
from tests.core.test_families_fused import config, hub_state
from tests.core.test_retarget import written
from tests.core.vision_layouts import llama4_meta

NAMES = ("llama4", "llama4-vision")
# As Meta's checkpoint.py has them: cut along the last dimension, and along the first.
ROW = (
    "feed_forward.w2", "attention.wo", "feed_forward.mlp.fc2_weight", "feed_forward.w_out_shared_DF.weight",
    "attn.wo.weight", "mlp.c_proj", "feed_forward.experts.(moe_w_in_eD_F|moe_w_swiglu_eD_F)",
)  # fmt: skip
COLUMN = (
    "output", "feed_forward.(w1|w3)", "feed_forward.mlp.fc1_weight", "attention.(wk|wq|wv|wqkv).weight",
    "feed_forward.(w_in_shared_FD|w_swiglu_FD)", "attn.(wk|wq|wv).(weight|bias)", "mlp.c_fc.(weight|bias)",
    "conv1._linear.weight", "tok_embeddings.weight", "vision_projection.weight",
)  # fmt: skip


def cut(state: State, rank: int, ranks: int) -> State:
    """One rank's file, by hand."""
    made: State = {}
    for key, value in state.items():
        if key.endswith("moe_w_out_eF_D"):
            every = value.reshape(5, -1, value.shape[-1])
            made[key] = np.split(every, ranks, 1)[rank].reshape(-1, value.shape[-1]).copy()
        elif key.endswith("fc1_weight"):
            made[key] = np.concatenate([np.split(half, ranks)[rank] for half in np.split(value, 2)])
        elif key.endswith("wqkv.weight"):
            parts = np.split(value, [48, 64])
            made[key] = np.concatenate([np.split(part, ranks)[rank] for part in parts])
        elif any(re.search(name, key) for name in ROW):
            made[key] = np.split(value, ranks, -1)[rank].copy() if value.ndim > 1 else value
        elif any(re.search(name, key) for name in COLUMN):
            made[key] = np.split(value, ranks)[rank].copy()
        else:
            made[key] = value
    return made


def spelled(state: State) -> State:
    """The other spellings that Meta's programs read."""
    made: State = {}
    for key, value in state.items():
        other = key.replace("attention_norm.weight", "attention.wqkv.layer_norm_weight")
        other = other.replace("feed_forward.norm.weight", "feed_forward.mlp.layer_norm_weight")
        if key.endswith("attention.wq.weight"):
            rows = [state[key.replace("wq", name)] for name in ("wq", "wk", "wv")]
            other, value = key.replace("wq", "wqkv"), np.concatenate(rows)
        elif key.endswith("feed_forward.w1.weight"):
            other = key.replace("w1.weight", "mlp.fc1_weight")
            value = np.concatenate([value, state[key.replace("w1", "w3")]])
        elif key.endswith("feed_forward.w2.weight"):
            other = key.replace("w2.weight", "mlp.fc2_weight")
        elif key.endswith(("attention.wk.weight", "attention.wv.weight", "feed_forward.w3.weight")):
            continue
        made[other] = value
    return made


def params(name: str) -> dict[str, Any]:
    return dict(json.loads(retarget(models.plan(hub_state(name), config(name)), Target("meta")).texts["params.json"]))


def saved(folder: Path, state: State, name: str, ranks: int) -> Plan:
    folder.mkdir()
    for rank in range(ranks):
        data = builders.state_dict_bytes(cut(state, rank, ranks) if ranks > 1 else state)
        (folder / f"consolidated.{rank:02}.pth").write_bytes(data)
    (folder / "params.json").write_text(json.dumps(params(name)))
    return understand(open_checkpoint(folder))


@pytest.mark.parametrize("name", NAMES)
def test_other_spellings_are_read(name: str) -> None:
    other = spelled(llama4_meta(hub_state(name)))
    plan = models.plan(other, config(name))
    assert plan.findings == ()
    assert written(retarget(plan, Target("hf"))) == models.as_bytes(hub_state(name))
    assert written(retarget(plan, Target("meta"))) == models.as_bytes(llama4_meta(hub_state(name)))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("made", [lambda state: state, spelled], ids=["usual", "other"])
def test_ranks(name: str, made: Any, tmp_path: Path) -> None:
    whole = llama4_meta(hub_state(name))
    plan = saved(tmp_path / "in", made(whole), name, 2)
    assert [f for f in plan.findings if f.severity != "info"] == []
    write_export(retarget(plan, Target("hf")), tmp_path / "hf")
    assert models.opened(tmp_path / "hf") == models.as_bytes(hub_state(name))
    write_export(retarget(plan, Target("meta", model_parallel=1)), tmp_path / "one")
    assert models.opened(tmp_path / "one") == models.as_bytes(whole)
    hf = understand(open_checkpoint(tmp_path / "hf"))
    write_export(retarget(hf, Target("meta", model_parallel=2)), tmp_path / "two")
    for rank in range(2):
        found = models.opened(tmp_path / "two" / f"consolidated.{rank:02}.pth")
        assert found == models.as_bytes(cut(whole, rank, 2))


def test_without_any_config_the_shapes_tell_how_many_experts() -> None:
    plan = models.plan(llama4_meta(hub_state("llama4")))
    assert written(retarget(plan, Target("hf"))) == models.as_bytes(hub_state("llama4"))


# ------------------------------------------------------------------------------------------------------------- configs

SCOUT = {
    "dim": 5120, "n_layers": 48, "n_heads": 40, "n_kv_heads": 8, "vocab_size": 202048, "ffn_dim_multiplier": 1.2,
    "ffn_exp": 4.0, "multiple_of": 2048, "norm_eps": 1e-05, "rope_theta": 500000.0, "use_scaled_rope": True,
    "attention_chunk_size": 8192, "nope_layer_interval": 4, "use_qk_norm": True, "attn_temperature_tuning": True,
    "moe_args": {"num_experts": 16, "capacity_factor": 1.0, "auto_scale_F": True, "top_k": 1,
                 "interleave_moe_layer_step": 1},
    "vision_args": {"image_size": {"height": 336, "width": 336}, "patch_size": {"height": 14, "width": 14},
                    "dim": 1408, "n_layers": 34, "n_heads": 16, "mlp_ratio": 4.0, "output_dim": 4096,
                    "pixel_shuffle_ratio": 0.5},
}  # fmt: skip
TENSORS = {
    "hidden": 5120, "layers": 48, "heads": 40, "kv_heads": 8, "head_dim": 128, "ffn": 8192, "dense_ffn": 16384,
    "vocab": 202048, "experts": 16, "vision_hidden": 1408, "vision_ffn": 5632, "vision_layers": 34,
    "adapter_middle": 4096, "adapter_out": 4096, "projector_in": 4096,
}  # fmt: skip


def test_widths_and_scaling_as_meta_computes_them() -> None:
    made = read_params(SCOUT)
    assert (made.dims["ffn"], made.dims["dense_ffn"], made.dims["experts"]) == (8192, 16384, 16)
    scaling = made.rope_scaling or {}
    assert (scaling["factor"], scaling["high_freq_factor"]) == (16.0, 1.0)


def test_a_config_for_scout() -> None:
    family = BY_NAME["llama4-vision"]
    made = hf_config(family, read_params(SCOUT), TENSORS, dtype="bf16", tied=False, biases=frozenset())
    text, vision = made["text_config"], made["vision_config"]
    assert (made["model_type"], text["model_type"], vision["model_type"]) == (
        "llama4", "llama4_text", "llama4_vision_model",
    )  # fmt: skip
    assert (text["intermediate_size"], text["intermediate_size_mlp"], text["num_local_experts"]) == (8192, 16384, 16)
    assert text["no_rope_layers"] == [1, 1, 1, 0] * 12
    assert (text["num_experts_per_tok"], text["use_qk_norm"], text["attention_chunk_size"]) == (1, True, 8192)
    assert (vision["image_size"], vision["patch_size"], vision["num_attention_heads"]) == (336, 14, 16)
    assert (vision["hidden_size"], vision["intermediate_size"], vision["vision_output_dim"]) == (1408, 5632, 4096)
    back = meta_params(family, read_config(made), TENSORS)
    same = ("ffn_dim_multiplier", "ffn_exp", "multiple_of")  # 4,096 gives the widths too
    assert {k: v for k, v in back.items() if k in SCOUT and k not in same} == {
        k: v for k, v in SCOUT.items() if k not in same
    }
    again = read_params(back)
    assert {k: again.dims[k] for k in ("ffn", "dense_ffn")} == {"ffn": 8192, "dense_ffn": 16384}
    assert again.rope_scaling == read_params(SCOUT).rope_scaling


@pytest.mark.parametrize(("ffn", "dense"), [(20, 34), (8192, 16384), (24, 24), (56, 72), (1000, 3000)])
def test_widths_are_found_again(ffn: int, dense: int) -> None:
    made = meta_params(
        BY_NAME["llama4"],
        read_config(config("llama4")),
        TENSORS | {"hidden": 48 if ffn < 100 else 5120, "ffn": ffn, "dense_ffn": dense, "experts": 5},
    )
    dims = read_params(made).dims
    assert (dims["ffn"], dims["dense_ffn"], dims["experts"]) == (ffn, dense, 5)


@given(st.integers(16, 9000), st.integers(1, 20000), st.floats(0.1, 1.9))
def test_widths_of_any_size(hidden: int, ffn: int, share: float) -> None:
    """Dense layers of up to twice the usual width."""
    dense = max(int(8 * hidden / 3 * share), 1)
    sizes = TENSORS | {"hidden": hidden, "ffn": ffn, "dense_ffn": dense}
    dims = read_params(meta_params(BY_NAME["llama4"], read_config(config("llama4")), sizes)).dims
    assert (dims["ffn"], dims["dense_ffn"]) == (ffn, dense)


def test_the_text_model_gets_a_flat_config() -> None:
    family = BY_NAME["llama4"]
    made = hf_config(family, read_params(SCOUT), TENSORS, dtype="bf16", tied=False, biases=frozenset())
    assert (made["model_type"], made["architectures"]) == ("llama4_text", ["Llama4ForCausalLM"])
    assert "vision_config" not in made
    assert made["interleave_moe_layer_step"] == 1
