"""GPT-OSS and DeepSeek 3 in their makers' and torchtitan's layouts, derived a second time, with numpy."""

from __future__ import annotations

import re

import numpy as np

from tests.core.models import State


def _renamed(state: State, *pairs: tuple[str, str]) -> State:
    made = {}
    for key, value in state.items():
        for before, after in pairs:
            key = re.sub(before, after, key)
        made[key] = value
    return made


def _turned(state: State) -> State:
    """The matrices of experts with a row for each output."""
    ends = ("experts.gate_up_proj", "experts.down_proj")
    return {key: value.transpose(0, 2, 1).copy() if key.endswith(ends) else value for key, value in state.items()}


def gpt_oss_openai(state: State) -> State:
    """As OpenAI's files have it, not quantised."""
    made: State = {}
    for key, value in _turned(state).items():
        if ".k_proj." in key or ".v_proj." in key:
            continue
        if ".q_proj." in key:
            rows = [state[key.replace("q_proj", f"{n}_proj")] for n in "qkv"]
            made[key.replace("self_attn.q_proj", "attn.qkv")] = np.concatenate(rows)
        else:
            made[key] = value
    return _renamed(
        made, (r"^model\.layers", "block"), (r"^model\.embed_tokens", "embedding"), ("^lm_head", "unembedding"),
        (r"^model\.norm\.weight", "norm.scale"), (r"input_layernorm\.weight", "attn.norm.scale"),
        (r"post_attention_layernorm\.weight", "mlp.norm.scale"), (r"self_attn\.o_proj", "attn.out"),
        (r"self_attn\.sinks", "attn.sinks"), (r"mlp\.router", "mlp.gate"), (r"experts\.gate_up_proj_", "mlp1_"),
        (r"experts\.down_proj_", "mlp2_"), (r"experts\.gate_up_proj", "mlp1_weight"),
        (r"experts\.down_proj", "mlp2_weight"),
    )  # fmt: skip


def gpt_oss_titan(state: State) -> State:
    """As torchtitan's model has it."""
    inner = "moe.routed_experts.inner_experts."
    return _renamed(
        _turned(state), (r"^model\.layers", "layers"), (r"^model\.embed_tokens", "tok_embeddings"),
        (r"^model\.norm", "norm"), ("input_layernorm", "attention_norm"), ("post_attention_layernorm", "ffn_norm"),
        (r"self_attn\.([qkv])_proj", r"attention.qkv_linear.w\1"), (r"self_attn\.o_proj", "attention.wo"),
        (r"self_attn\.sinks", "attention.sinks"), (r"mlp\.router", "moe.router.gate"),
        (r"mlp\.experts\.gate_up_proj_bias", inner + "mlp1_bias_EG"),
        (r"mlp\.experts\.down_proj_bias", inner + "mlp2_bias_ED"),
        (r"mlp\.experts\.gate_up_proj", inner + "mlp1_weight_EGD"),
        (r"mlp\.experts\.down_proj", inner + "mlp2_weight_EDF"),
    )  # fmt: skip


# The table of DeepSeek's `convert.py`: the last name but one of a key, and what it becomes.
_CONVERTED = {
    "embed_tokens": "embed", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "q_proj": "wq",
    "q_a_proj": "wq_a", "q_a_layernorm": "q_norm", "q_b_proj": "wq_b", "kv_a_proj_with_mqa": "wkv_a",
    "kv_a_layernorm": "kv_norm", "kv_b_proj": "wkv_b", "o_proj": "wo", "gate": "gate", "gate_proj": "w1",
    "down_proj": "w2", "up_proj": "w3", "norm": "norm", "lm_head": "head",
}  # fmt: skip


def deepseek_own(state: State) -> State:
    """As DeepSeek's `convert.py` makes it for one rank."""
    made: State = {}
    for key, value in state.items():
        name = key.removeprefix("model.").replace("self_attn", "attn").replace("mlp", "ffn")
        name = name.replace("e_score_correction_bias", "bias")
        part = name.split(".")[-2]
        made[name.replace(part, _CONVERTED[part])] = value
    return made


def deepseek_titan(state: State) -> State:
    """As torchtitan's adapter makes it."""
    made: State = {}
    for key, value in state.items():
        found = re.match(r"model\.layers\.(\d+)\.mlp\.experts\.(\d+)\.(gate|up|down)_proj", key)
        if not found:
            made[key] = value
        elif found[2] == "0":
            name = {"gate": "w1_EFD", "up": "w3_EFD", "down": "w2_EDF"}[found[3]]
            every = [state[key.replace("experts.0.", f"experts.{expert}.")] for expert in range(5)]
            made[f"layers.{found[1]}.moe.routed_experts.inner_experts.{name}"] = np.stack(every)
    return _renamed(
        made, (r"^model\.layers", "layers"), (r"^model\.embed_tokens", "tok_embeddings"), (r"^model\.norm", "norm"),
        ("input_layernorm", "attention_norm"), ("post_attention_layernorm", "ffn_norm"),
        (r"self_attn\.q_a_layernorm", "attention.q_norm"), (r"self_attn\.kv_a_layernorm", "attention.kv_norm"),
        (r"self_attn\.kv_a_proj_with_mqa", "attention.wkv_a"), (r"self_attn\.kv_b_proj", "attention.wkv_b"),
        (r"self_attn\.(q|q_a|q_b|o)_proj", r"attention.w\1"),
        (r"mlp\.gate\.e_score_correction_bias", "moe.expert_bias_E"), (r"mlp\.gate\.", "moe.router.gate."),
        (r"mlp\.shared_experts", "moe.shared_experts"), (r"mlp\.(gate|up|down)_proj", r"feed_forward.\1_proj"),
        ("gate_proj", "w1"), ("up_proj", "w3"), ("down_proj", "w2"),
    )  # fmt: skip
