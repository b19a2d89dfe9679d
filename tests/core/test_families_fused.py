"""Fused families and mixtures of experts, against conversions that are written here a second time, with numpy.

Every element of a model has a value of its own, and no two sizes are alike, so that a tensor in the wrong place or a
row in the wrong order is seen.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from ckpt_gui.core.export import Target
from ckpt_gui.core.families.registry import BY_NAME
from ckpt_gui.core.keys import index_names
from ckpt_gui.core.plan import account
from ckpt_gui.core.retarget import retarget
from tests.core import models
from tests.core.models import State
from tests.core.own_layouts import deepseek_own, deepseek_titan, gpt_oss_openai, gpt_oss_titan
from tests.core.test_retarget import written
from tests.core.vision_layouts import llama4_meta, llama4_torchtune, mllama_meta, mllama_torchtune, of_one_grid

DIMS = {
    "vocab": 50, "hidden": 24, "heads": 6, "kv_heads": 2, "head_dim": 8, "ffn": 20, "layers": 3, "experts": 5,
    "moe_ffn": 10, "shared_ffn": 14, "dense_ffn": 34, "positions": 30, "q_rank": 9, "kv_rank": 7, "nope_dim": 6,
    "rope_dim": 4, "v_dim": 12,
}  # fmt: skip
HF_NAMES = {
    "vocab": "vocab_size", "hidden": "hidden_size", "heads": "num_attention_heads", "kv_heads": "num_key_value_heads",
    "head_dim": "head_dim", "ffn": "intermediate_size", "layers": "num_hidden_layers",
}  # fmt: skip
# Sizes of a family that are other than those above, what its config says besides, and its dense layers.
FAMILIES: dict[str, tuple[dict[str, int], dict[str, Any], tuple[int, ...]]] = {
    "phi": ({"head_dim": 4}, {"head_dim": ...}, ()),
    "phi3": ({"head_dim": 4}, {"head_dim": ...}, ()),
    "gpt2": ({}, {"n_embd": 24, "n_head": 6, "n_layer": 3, "n_positions": 30, "vocab_size": 50}, ()),
    "gpt-neox": ({"kv_heads": 6, "head_dim": 4}, {"head_dim": ...}, ()),
    "mixtral": ({}, {"num_local_experts": 5}, ()),
    "qwen2-moe": (
        {"head_dim": 4},
        {"head_dim": ..., "num_experts": 5, "moe_intermediate_size": 10, "shared_expert_intermediate_size": 14},
        (1,),
    ),
    "qwen3-moe": ({}, {"num_experts": 5, "moe_intermediate_size": 10}, ()),
    "deepseek-v3": (
        {"head_dim": 4, "kv_heads": 6},
        {"n_routed_experts": 5, "moe_intermediate_size": 10, "q_lora_rank": 9, "kv_lora_rank": 7}
        | {"qk_nope_head_dim": 6, "qk_rope_head_dim": 4, "v_head_dim": 12},
        (0,),
    ),
    "gpt-oss": ({}, {"num_local_experts": 5}, ()),
    "llama4": ({}, {"num_local_experts": 5, "intermediate_size_mlp": 34}, (0, 2)),
    "llama4-vision": (
        {"vision_hidden": 18, "vision_ffn": 26, "vision_patches": 11, "vision_patch": 12, "projector_in": 13}
        | {"adapter_in": 15, "adapter_middle": 16, "adapter_out": 22},
        {"num_local_experts": 5, "intermediate_size_mlp": 34},
        (0, 2),
    ),
    "mllama": (
        {"vision_hidden": 18, "vision_ffn": 26, "vision_patches": 11, "vision_patch": 12, "vision_out": 13}
        | {"vision_channels": 3, "aspect_ratios": 4, "tile_patches": 396, "tile_width": 36, "head_dim": 4},
        {"head_dim": ...},
        (1,),
    ),
    "mllama-text": ({"head_dim": 4}, {"head_dim": ...}, (1,)),
}
ABSENT = {"q_proj", "extra", "attention_bias", "qk_layernorm", "q_a_bias"}  # sets and kinds that these models lack


def value_of(symbol: str, dims: dict[str, int]) -> int:
    """A size, read off its symbol in another way than the program's."""
    return int(eval(symbol, {}, dims))


def numbers(key: str, group: str, dims: dict[str, int], dense: tuple[int, ...]) -> Iterator[dict[str, int]]:
    for layer in range(dims["layers"]) if "layer" in index_names(key) else [0]:
        if group and (group in ("dense", "cross")) != (layer in dense):
            continue
        for expert in range(dims["experts"]) if "expert" in index_names(key) else [0]:
            for block in range(2) if {"vision_layer", "global_layer"} & set(index_names(key)) else [0]:
                yield {"layer": layer, "expert": expert, "vision_layer": block, "global_layer": block}


def hub_state(name: str) -> State:
    """A model of a family under Hugging Face's names."""
    sizes, _, dense = FAMILIES[name]
    dims = DIMS | sizes
    made: State = {}
    begin = 1
    for slot in BY_NAME[name].slots:
        if {slot.when, slot.group} & ABSENT - ({"attention_bias"} if name in ("gpt-neox", "gpt-oss") else set()):
            continue
        for indices in numbers(slot.key, slot.group, dims, dense):
            shape = tuple(value_of(symbol, dims) for symbol in slot.shape)
            size = int(np.prod(shape))
            made[slot.key.format(**indices)] = np.arange(begin, begin + size, dtype=np.float32).reshape(shape)
            begin += size
    if name == "mllama":
        of_one_grid(made, sizes["vision_hidden"])
    return made


def config(name: str) -> dict[str, Any]:
    """A config.json that fits."""
    sizes, more, _ = FAMILIES[name]
    usual = {} if name == "gpt2" else {HF_NAMES[k]: (DIMS | sizes)[k] for k in HF_NAMES}
    made = {"model_type": BY_NAME[name].model_types[0], "tie_word_embeddings": False, **usual, **more}
    return {key: value for key, value in made.items() if value is not ...}


def renamed(state: State, *pairs: tuple[str, str]) -> State:
    """Keys with one regular expression after the other replaced."""
    made = {}
    for key, value in state.items():
        for before, after in pairs:
            key = re.sub(before, after, key)
        made[key] = value
    return made


def cut(state: State, key: str, into: tuple[str, ...], rows: tuple[int, ...]) -> State:
    """Tensors that end in `key` cut into rows of their own."""
    made: State = {}
    for name, value in state.items():
        if not name.endswith(key):
            made[name] = value
            continue
        parts = np.split(value, np.cumsum(rows)[:-1])
        made |= {name.removesuffix(key) + end: part for end, part in zip(into, parts, strict=True)}
    return made


def put(state: State, ends: tuple[str, ...], key: str) -> State:
    """Tensors of one layer that end in `ends` put under each other."""
    made: State = {}
    for name, value in state.items():
        if name.endswith(ends[0]):
            before = name.removesuffix(ends[0])
            made[before + key] = np.concatenate([state[before + end] for end in ends])
        elif not name.endswith(ends[1:]):
            made[name] = value
    return made


def fuse(state: State, part: str, names: tuple[str, str, str]) -> State:
    """The experts of each layer in two tensors: gate over up, and down."""
    made = {key: value for key, value in state.items() if f"{part}." not in key}
    for key in state:
        if match := re.fullmatch(rf"(.*{part})\.0\.{names[0]}\.weight", key):
            gate, up, down = (
                [state[f"{match[1]}.{e}.{name}.weight"] for e in range(DIMS["experts"])] for name in names
            )
            made[match[1] + ".gate_up_proj"] = np.stack([np.concatenate(p) for p in zip(gate, up, strict=True)])
            made[match[1] + ".down_proj"] = np.stack(down)
    return made


QKV = ("q_proj", "k_proj", "v_proj")
LLAMA_LITGPT = (
    (r"^model\.layers", "transformer.h"), (r"^model\.embed_tokens", "transformer.wte"),
    (r"^model\.norm", "transformer.ln_f"), (r"input_layernorm", "norm_1"),
    (r"post_attention_layernorm", "norm_2"), (r"self_attn\.", "attn."), (r"attn\.(o_proj|dense)", "attn.proj"),
)  # fmt: skip


def phi3_torchtune(state: State) -> State:
    state = cut(state, "qkv_proj.weight", ("q_proj.weight", "k_proj.weight", "v_proj.weight"), (24, 8, 8))
    state = cut(state, "gate_up_proj.weight", ("w1.weight", "w3.weight"), (20, 20))
    return renamed(
        state, ("^model.layers", "layers"), ("^model.embed_tokens", "tok_embeddings"), ("^lm_head", "output"),
        ("^model.norm.weight", "norm.scale"), ("self_attn", "attn"), ("o_proj", "output_proj"), ("down_proj", "w2"),
        ("input_layernorm.weight", "sa_norm.scale"), ("post_attention_layernorm.weight", "mlp_norm.scale"),
    )  # fmt: skip


def phi3_litgpt(state: State) -> State:
    state = cut(state, "gate_up_proj.weight", ("fc_1.weight", "fc_2.weight"), (20, 20))
    return renamed(state, *LLAMA_LITGPT, ("qkv_proj", "qkv"), ("down_proj", "proj"))


def phi_litgpt(state: State) -> State:
    for end in ("weight", "bias"):
        state = put(state, tuple(f"self_attn.{n}.{end}" for n in QKV), f"self_attn.qkv.{end}")
    return renamed(
        state, *LLAMA_LITGPT, (r"^model\.final_layernorm", "transformer.ln_f"), ("fc1", "fc"), ("fc2", "proj")
    )


def nanogpt(state: State) -> State:
    turned = ("c_attn.weight", "c_proj.weight", "c_fc.weight")
    return {key: np.ascontiguousarray(v.T) if key.endswith(turned) else v for key, v in state.items()}


def neox_litgpt(state: State) -> State:
    made = {}
    for key, value in state.items():
        if "query_key_value" in key:  # row by row: head h, kind j, row i → kind j, head h, row i
            rows = [value[(h * 3 + j) * 4 + i] for j in range(3) for h in range(6) for i in range(4)]
            value = np.stack(rows)
        made[key] = value
    return renamed(
        made, (r"^gpt_neox\.layers", "transformer.h"), (r"^gpt_neox\.embed_in", "transformer.wte"),
        (r"^gpt_neox\.final_layer_norm", "transformer.ln_f"), ("^embed_out", "lm_head"), ("input_layernorm", "norm_1"),
        ("post_attention_layernorm", "norm_2"), (r"attention\.query_key_value", "attn.qkv"),
        (r"attention\.dense", "attn.proj"), ("dense_h_to_4h", "fc"), ("dense_4h_to_h", "proj"),
    )  # fmt: skip


def mixtral_release(state: State) -> State:
    """The first release: Meta's names, the experts of a layer under one another, w2 turned."""
    experts = re.compile(r"layers\.(\d+)\.feed_forward\.experts\.\d+\.(w\d)\.weight")
    stacks: dict[str, list[np.ndarray]] = {}
    made: State = {}
    for key, array in mixtral_meta(state).items():
        if match := experts.fullmatch(key):
            block = array.T if match[2] == "w2" else array
            stacks.setdefault(f"layers.{match[1]}.block_sparse_moe.{match[2]}", []).append(block)
        else:
            made[key.replace("feed_forward.gate", "block_sparse_moe.gate")] = array
    return made | {key: np.ascontiguousarray(np.concatenate(blocks)) for key, blocks in stacks.items()}


def mixtral_meta(state: State) -> State:
    made = {}
    for key, value in state.items():
        heads = {"q": 6, "k": 2}.get(key.partition("self_attn.")[2][:1])
        made[key] = value if heads is None else models.to_pairs(value, heads)
    return renamed(
        made, ("^model.layers", "layers"), ("^model.embed_tokens", "tok_embeddings"), ("^lm_head", "output"),
        ("^model.norm", "norm"), (r"self_attn\.(.)_proj", r"attention.w\1"), ("input_layernorm", "attention_norm"),
        ("post_attention_layernorm", "ffn_norm"), ("block_sparse_moe", "feed_forward"),
    )  # fmt: skip


def mixtral_litgpt(state: State) -> State:
    state = put(state, tuple(f"self_attn.{n}.weight" for n in QKV), "self_attn.qkv.weight")
    state = renamed(state, *LLAMA_LITGPT, ("block_sparse_moe", "mlp"), (r"\.w1\.", ".fc_1."), (r"\.w2\.", ".proj."))
    return renamed(state, (r"\.w3\.", ".fc_2."))


def qwen3_moe_litgpt(state: State) -> State:
    state = put(state, tuple(f"self_attn.{n}.weight" for n in QKV), "self_attn.qkv.weight")
    return renamed(
        state, *LLAMA_LITGPT, ("gate_proj", "fc_1"), ("up_proj", "fc_2"), ("down_proj", "proj"),
        (r"attn\.(.)_norm", r"attn.norm_\1"),
    )  # fmt: skip


def qwen3_moe_torchtitan(before: str, ends: tuple[str, str, str], *names: tuple[str, str]) -> Callable[[State], State]:
    """The experts of a layer stacked, each matrix by itself."""

    def made(state: State) -> State:
        stacked = {key: value for key, value in state.items() if ".experts." not in key}
        for n in range(DIMS["layers"]):
            for name, end in zip(MATRICES, ends, strict=True):
                parts = [state[f"model.layers.{n}.mlp.experts.{e}.{name}.weight"] for e in range(DIMS["experts"])]
                stacked[f"layers.{n}.moe.{before}{end}"] = np.stack(parts)
        return renamed(
            stacked, ("^model.layers", "layers"), ("^model.embed_tokens", "tok_embeddings"), ("^model.norm", "norm"),
            *names, ("self_attn", "attention"), ("o_proj", "wo"), ("input_layernorm", "attention_norm"),
            ("post_attention_layernorm", "ffn_norm"), (r"mlp\.gate", "moe.router.gate"),
        )  # fmt: skip

    return made


MATRICES = ("gate_proj", "up_proj", "down_proj")
LAYOUTS: dict[tuple[str, str], Callable[[State], State]] = {
    ("phi", "litgpt"): phi_litgpt,
    ("phi3", "torchtune"): phi3_torchtune,
    ("phi3", "litgpt"): phi3_litgpt,
    ("gpt2", "nanogpt"): nanogpt,
    ("gpt-neox", "hf-fused"): lambda state: renamed(state, ("^embed_out", "lm_head")),
    ("gpt-neox", "litgpt"): neox_litgpt,
    ("mixtral", "meta"): mixtral_meta,
    ("mixtral", "mixtral-release"): mixtral_release,
    ("mixtral", "litgpt"): mixtral_litgpt,
    ("mixtral", "hf-fused"): lambda state: renamed(
        fuse(state, "block_sparse_moe.experts", ("w1", "w3", "w2")), ("block_sparse_moe", "mlp")
    ),
    ("qwen2-moe", "hf-fused"): lambda state: fuse(state, "mlp.experts", MATRICES),
    ("qwen3-moe", "hf-fused"): lambda state: fuse(state, "mlp.experts", MATRICES),
    ("qwen3-moe", "litgpt"): qwen3_moe_litgpt,
    ("qwen3-moe", "torchtitan"): qwen3_moe_torchtitan(
        "routed_experts.inner_experts.", ("w1_EFD", "w3_EFD", "w2_EDF"), (r"([qkv])_proj", r"qkv_linear.w\1")
    ),
    ("qwen3-moe", "torchtitan-old"): qwen3_moe_torchtitan(
        "experts.", ("w1", "w3", "w2"), (r"([qkv])_proj", r"w\1"), ("^lm_head", "output")
    ),
    ("deepseek-v3", "hf-fused"): lambda state: fuse(state, "mlp.experts", MATRICES),
    ("llama4", "meta"): llama4_meta,
    ("llama4", "torchtune"): llama4_torchtune,
    ("llama4-vision", "meta"): llama4_meta,
    ("deepseek-v3", "deepseek"): deepseek_own,
    ("deepseek-v3", "torchtitan"): deepseek_titan,
    ("gpt-oss", "openai"): gpt_oss_openai,
    ("gpt-oss", "torchtitan"): gpt_oss_titan,
    ("mllama", "meta"): mllama_meta,
    ("mllama", "torchtune"): mllama_torchtune,
    ("mllama", "hf-fused"): lambda state: renamed(
        state,
        ("^language_model.lm_head", "lm_head"),
        ("^language_model.model", "model.language_model"),
        ("^(vision_model|multi_modal)", r"model.\1"),
    ),
}


def test_every_layout_is_tried() -> None:
    ours = {(name, layout.name) for name in FAMILIES for layout in BY_NAME[name].layouts[1:]}
    assert ours == set(LAYOUTS)


@pytest.mark.parametrize("name", list(FAMILIES))
def test_whole_models_have_no_findings(name: str) -> None:
    made = models.plan(hub_state(name), config(name))
    account(made)
    assert made.findings == ()
    assert made.family is BY_NAME[name]
    assert made.layout is not None
    assert made.layout.name == "hf"
    assert written(retarget(made, Target("same"))) == models.as_bytes(hub_state(name))


@pytest.mark.parametrize(("name", "layout"), list(LAYOUTS))
def test_to_the_layout(name: str, layout: str) -> None:
    export = retarget(models.plan(hub_state(name), config(name)), Target(layout))
    assert not export.blocked
    assert written(export) == models.as_bytes(LAYOUTS[name, layout](hub_state(name)))


@pytest.mark.parametrize(("name", "layout"), list(LAYOUTS))
def test_back_from_the_layout(name: str, layout: str) -> None:
    tensors = LAYOUTS[name, layout](hub_state(name))
    made = models.plan(tensors, config(name))
    account(made)
    assert made.findings == ()
    assert made.layout is not None
    assert made.layout.name == layout
    assert written(retarget(made, Target("hf"))) == models.as_bytes(hub_state(name))
    stays = retarget(made, Target(layout))
    assert written(stays) == models.as_bytes(tensors)
    assert not any(entry.ops for entry in stays.entries)


@pytest.mark.parametrize("name", list(FAMILIES))
def test_a_lost_tensor_is_missed(name: str) -> None:
    tensors = hub_state(name)
    last = {"mllama": "language_model.lm_head.weight", "llama4-vision": "language_model.lm_head.weight"}
    for key in list(tensors)[1:-1]:
        if (".0." in key or ".2." in key) and key != last.get(name):
            made = models.plan({k: v for k, v in tensors.items() if k != key}, config(name))
            assert models.finding(made, "missing-tensor").keys == (key,)


@pytest.mark.parametrize(("name", "layout"), [("phi3", "torchtune"), ("phi3", "litgpt"), ("llama4", "torchtune")])
def test_a_lost_part_is_missed_by_its_own_name(name: str, layout: str) -> None:
    tensors = LAYOUTS[name, layout](hub_state(name))
    lost = next(k for k in tensors if k.endswith(("mlp.w3.weight", "fc_2.weight", "experts.up_proj")) and ".1." in k)
    made = models.plan({k: v for k, v in tensors.items() if k != lost}, config(name))
    account(made)
    assert made.status == "blocked"
    assert models.finding(made, "missing-tensor").keys == (lost,)


def test_a_layer_that_lost_its_experts_is_missed() -> None:
    tensors = {k: v for k, v in hub_state("mixtral").items() if ".1.block_sparse_moe" not in k}
    assert len(models.finding(models.plan(tensors, config("mixtral")), "missing-tensor").keys) == 16


def test_two_copies_of_a_part_block() -> None:
    tensors = phi3_torchtune(hub_state("phi3"))
    tensors["module.layers.1.mlp.w3.weight"] = tensors["layers.1.mlp.w3.weight"] + 1
    made = models.plan(tensors, config("phi3"))
    account(made)
    assert made.status == "blocked"


def test_nothing_of_a_fused_tensor_needs_head_counts_to_be_put_together() -> None:
    made = models.plan(phi3_torchtune(hub_state("phi3")), family="phi3")
    export = retarget(made, Target("hf"))
    assert "heads-unknown" not in models.codes(export)
    back = retarget(models.plan(hub_state("phi3")), Target("torchtune"))
    assert "heads-unknown" in models.codes(back)


@pytest.mark.parametrize("layout", ["hf", "nanogpt"])
def test_shapes_tell_nanogpt_from_hugging_face(layout: str) -> None:
    tensors = hub_state("gpt2") if layout == "hf" else nanogpt(hub_state("gpt2"))
    for found in (models.plan(tensors), models.plan(tensors, config("gpt2"))):
        assert found.layout is not None
        assert found.layout.name == layout


def test_nanogpt_without_biases() -> None:
    """As nanoGPT trains by default; Hugging Face has no such GPT-2."""
    tensors = {k: v for k, v in nanogpt(hub_state("gpt2")).items() if not k.endswith(".bias")}
    made = models.plan(tensors)
    assert models.codes(made) == ["config-missing"]
    assert made.layout is not None
    assert made.layout.name == "nanogpt"
    assert written(retarget(made, Target("same"))) == models.as_bytes(tensors)
    assert models.finding(retarget(made, Target("hf")), "unknown-layout").blocking
    as_hf = {k: v for k, v in hub_state("gpt2").items() if not k.endswith(".bias")}
    assert len(models.finding(models.plan(as_hf, config("gpt2")), "missing-tensor").keys) == 19


def test_a_backbone_of_gpt2_has_no_first_word() -> None:
    """As the first GPT-2 lies on the hub: without `transformer.`, with masks, without a head."""
    tensors = {k.removeprefix("transformer."): v for k, v in hub_state("gpt2").items() if k != "lm_head.weight"}
    tensors |= {f"h.{n}.attn.bias": np.ones((1, 1, 30, 30), np.float32) for n in range(3)}
    made = models.plan(tensors, config("gpt2") | {"tie_word_embeddings": True})
    assert models.codes(made) == ["computed-buffer", "renamed"]
    assert written(retarget(made, Target("hf"))) == models.as_bytes(
        {k: v for k, v in hub_state("gpt2").items() if k != "lm_head.weight"}
    )


def test_the_layer_behind_the_last_is_kept_and_not_counted() -> None:
    """DeepSeek 3's own files hold one more layer, which predicts a second token."""
    tensors = hub_state("deepseek-v3")
    last = {k: v for k, v in tensors.items() if "layers.2." in k}
    extra = {k.replace("layers.2.", "layers.3."): v + 0.5 for k, v in last.items()}
    more = {"embed_tokens": (50, 24), "enorm": (24,), "hnorm": (24,), "eh_proj": (24, 48), "shared_head.norm": (24,)}
    for part, shape in (more | {"shared_head.head": (50, 24)}).items():
        extra[f"model.layers.3.{part}.weight"] = np.full(shape, 7, np.float32)
    made = models.plan(tensors | extra, config("deepseek-v3"))
    assert made.findings == ()
    assert made.dims["layers"] == 3
    assert written(retarget(made, Target("hf"))) == models.as_bytes(tensors | extra)
    fused = retarget(made, Target("hf-fused"))
    assert "model.layers.3.mlp.experts.gate_up_proj" in written(fused)
    assert '"num_hidden_layers": 3' in fused.texts["config.json"]


def test_the_routers_correction_may_have_a_type_of_its_own() -> None:
    tensors: dict[str, Any] = {k: v.astype(np.float16) for k, v in hub_state("deepseek-v3").items()}
    for key in tensors:
        if key.endswith("e_score_correction_bias"):
            tensors[key] = tensors[key].astype(np.float32)
    made = models.plan(tensors, config("deepseek-v3"))
    assert made.findings == ()
    cast = retarget(made, Target("hf", dtype="bf16"))
    assert {e.output.dtype for e in cast.entries if e.key.endswith("correction_bias")} == {"fp32"}
    assert {e.output.dtype for e in cast.entries if not e.key.endswith("correction_bias")} == {"bf16"}


def test_latent_sizes_are_held_against_the_config() -> None:
    made = models.plan(hub_state("deepseek-v3"), config("deepseek-v3") | {"v_head_dim": 11})
    assert "shape-mismatch" in models.codes(made)


def test_experts_are_spelled_as_both_versions_read_them() -> None:
    spelled = config("qwen3-moe")
    spelled["num_local_experts"] = spelled.pop("num_experts")  # as transformers 5 writes it
    export = retarget(models.plan(hub_state("qwen3-moe"), spelled), Target("hf"))
    assert '"num_experts": 5' in export.texts["config.json"]
    assert "num_local_experts" not in export.texts["config.json"]


def test_params_of_mistral_inference_say_the_experts() -> None:
    export = retarget(models.plan(hub_state("mixtral"), config("mixtral") | {"num_experts_per_tok": 3}), Target("meta"))
    text = export.texts["params.json"]
    params = json.loads(text)
    assert params["moe"] == {"num_experts": 5, "num_experts_per_tok": 3}
    back = retarget(models.plan(mixtral_meta(hub_state("mixtral")), params=params), Target("hf"))
    assert not back.blocked
    assert '"num_local_experts": 5' in back.texts["config.json"]
    assert '"num_experts_per_tok": 3' in back.texts["config.json"]
    assert '"model_type": "mixtral"' in back.texts["config.json"]


def test_steps_say_what_is_taken_apart() -> None:
    export = retarget(models.plan(hub_state("phi3"), config("phi3")), Target("torchtune"))
    (step,) = [s for s in export.steps if s.id == "rearrange"]
    assert step.changes_values
    assert "taken apart" in step.evidence


def test_a_tensor_that_does_not_fit_its_parts_is_refused() -> None:
    tensors = phi3_torchtune(hub_state("phi3"))
    tensors["layers.0.attn.v_proj.weight"] = np.zeros((8, 23), np.float32)
    made = models.plan(tensors, config("phi3"))
    account(made)
    assert made.status == "blocked"
    assert "layers.0.attn.v_proj.weight" in {e.key for e in made.unmapped}


@pytest.mark.parametrize("layout", ["deepseek", "torchtitan"])
def test_layers_that_predict_further_tokens_are_left_out_and_told(layout: str) -> None:
    """DeepSeek's own converter skips them too; hf keeps them."""
    whole = hub_state("deepseek-v3")
    further = {key.replace("layers.2.", "layers.3."): value + 1 for key, value in whole.items() if "layers.2." in key}
    for name, shape in (("enorm.weight", (24,)), ("hnorm.weight", (24,)), ("eh_proj.weight", (24, 48)),
                        ("embed_tokens.weight", (50, 24)), ("shared_head.norm.weight", (24,)),
                        ("shared_head.head.weight", (50, 24))):  # fmt: skip
        further[f"model.layers.3.{name}"] = np.full(shape, 0.5, np.float32)
    plan = models.plan(whole | further, config("deepseek-v3"))
    export = retarget(plan, Target(layout))
    assert not export.blocked
    assert written(export) == models.as_bytes(LAYOUTS["deepseek-v3", layout](whole))
    told = models.finding(export, "unknown-layout")
    assert (told.severity, set(told.keys)) == ("warning", set(further))
    assert written(retarget(plan, Target("hf"))) == models.as_bytes(whole | further)
