"""GPT-OSS and DeepSeek 3 in their makers' names: their own forward passes, written here a second time, compute
transformers' logits from what is written, and from nothing that is put elsewhere.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.oracle
pytest.importorskip("transformers")

import torch
from torch import Tensor
from torch.nn import functional as F

from tests.oracles import moe, tiny
from tests.oracles.test_converters_moe import close, wanted_logits

State = dict[str, Tensor]
LENGTH = tiny.IDS.shape[1]
LATER = torch.full((LENGTH, LENGTH), -math.inf).triu(1)


def normed(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight


# ------------------------------------------------------------------------------------------------------------- OpenAI


def yarn(config: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """Cosines and sines, as `RotaryEmbedding` of OpenAI's `model.py` computes them."""
    size, base = config["head_dim"], config["rope_theta"]
    steps = base ** (torch.arange(0, size, 2) / size)
    factor, length = config["rope_scaling_factor"], config["initial_context_length"]
    low, high = (
        size / 2 * math.log(length / (config[name] * 2 * math.pi)) / math.log(base)
        for name in ("rope_ntk_beta", "rope_ntk_alpha")
    )
    kept = 1 - ((torch.arange(size // 2) - low) / (high - low)).clamp(0, 1)
    angles = torch.outer(torch.arange(LENGTH), (1 - kept) / (factor * steps) + kept / steps)
    grown = 0.1 * math.log(factor) + 1
    return angles.cos() * grown, angles.sin() * grown


def openai(state: State, config: dict[str, Any]) -> Tensor:
    """The forward pass of OpenAI's `gpt_oss/torch/model.py`."""
    heads, kv_heads, size = config["num_attention_heads"], config["num_key_value_heads"], config["head_dim"]
    cos, sin = (part[:, None] for part in yarn(config))

    def turned(x: Tensor) -> Tensor:
        a, b = x.chunk(2, -1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)

    def mixture(x: Tensor, at: str) -> Tensor:
        best, chosen = F.linear(x, state[at + "gate.weight"], state[at + "gate.bias"]).topk(config["experts_per_token"])
        shares, out = best.softmax(-1), torch.zeros_like(x)
        for place in range(config["experts_per_token"]):
            expert = chosen[:, place]
            y = torch.einsum("tch,th->tc", state[at + "mlp1_weight"][expert], x) + state[at + "mlp1_bias"][expert]
            gate, up = y[:, ::2].clamp(max=7.0), y[:, 1::2].clamp(-7.0, 7.0)
            y = gate * torch.sigmoid(1.702 * gate) * (up + 1)
            y = torch.einsum("tch,th->tc", state[at + "mlp2_weight"][expert], y) + state[at + "mlp2_bias"][expert]
            out = out + shares[:, place, None] * y
        return out

    x = state["embedding.weight"][tiny.IDS[0]]
    for n in range(config["num_hidden_layers"]):
        at = f"block.{n}.attn."
        h = normed(x, state[at + "norm.scale"], 1e-5)
        rows = F.linear(h, state[at + "qkv.weight"], state[at + "qkv.bias"])
        q, k, v = (
            part.view(LENGTH, -1, size) for part in rows.split([heads * size, kv_heads * size, kv_heads * size], -1)
        )
        q, k = turned(q), turned(k)
        k, v = (part.repeat_interleave(heads // kv_heads, 1) for part in (k, v))
        scores = torch.einsum("qhd,khd->hqk", q, k) / math.sqrt(size) + LATER
        sinks = state[at + "sinks"][:, None, None].expand(-1, LENGTH, 1)
        shares = torch.cat((scores, sinks), -1).softmax(-1)[..., :-1]
        y = torch.einsum("hqk,khd->qhd", shares, v).flatten(1)
        x = x + F.linear(y, state[at + "out.weight"], state[at + "out.bias"])
        at = f"block.{n}.mlp."
        x = x + mixture(normed(x, state[at + "norm.scale"], 1e-5), at)
    return F.linear(normed(x, state["norm.scale"], 1e-5), state["unembedding.weight"])[None]


def test_openais_program_computes_the_same(tmp_path: Path) -> None:
    saved = moe.save("gpt-oss", tmp_path / "saved")
    out = tiny.export(saved, tmp_path / "openai", "openai")
    state, config = tiny.read(out), moe.json_of(out / "config.json")
    assert close(openai(state, config), wanted_logits(saved))
    halves = state["block.0.mlp.mlp1_weight"]  # as most programs have gate and up, one behind the other
    wrong = torch.cat((halves[:, ::2], halves[:, 1::2]), 1)
    assert not close(openai({**state, "block.0.mlp.mlp1_weight": wrong}, config), wanted_logits(saved))


def test_openais_folder_without_our_report(tmp_path: Path) -> None:
    saved = moe.save("gpt-oss", tmp_path / "saved")
    out = tiny.export(saved, tmp_path / "openai", "openai")
    (out / "EXPORT_REPORT.json").unlink()
    back = tiny.export(out, tmp_path / "back")
    assert tiny.differing(tiny.read(back), tiny.read(saved)) == []
    assert torch.equal(wanted_logits(back), wanted_logits(saved))


# ----------------------------------------------------------------------------------------------------------- DeepSeek


def deepseek(state: State, config: dict[str, Any]) -> Tensor:
    """The forward pass of DeepSeek-V3's `inference/model.py`, its plain way of attention."""
    nope, turned_size, v_size = (config[n] for n in ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"))
    heads, rank = config["num_attention_heads"], config["kv_lora_rank"]
    rope = config.get("rope_parameters") or config
    steps = rope["rope_theta"] ** -(torch.arange(0, turned_size, 2) / turned_size)
    angles = torch.outer(torch.arange(LENGTH), steps)
    turn = torch.polar(torch.ones_like(angles), angles)[:, None]

    def turned(x: Tensor) -> Tensor:
        pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * turn).flatten(2)

    def linear(x: Tensor, name: str) -> Tensor:
        return F.linear(x, state[name + ".weight"])

    def gated(x: Tensor, at: str) -> Tensor:
        return linear(F.silu(linear(x, at + "w1")) * linear(x, at + "w3"), at + "w2")

    def mixture(x: Tensor, at: str) -> Tensor:
        scores = linear(x, at + "gate").sigmoid()
        chosen = (scores + state[at + "gate.bias"]).topk(config["num_experts_per_tok"]).indices
        weights = scores.gather(1, chosen)
        weights = weights / weights.sum(-1, keepdim=True) * config["routed_scaling_factor"]
        out = gated(x, at + "shared_experts.")
        for token in range(LENGTH):
            for expert, weight in zip(chosen[token].tolist(), weights[token], strict=True):
                out[token] = out[token] + weight * gated(x[token], f"{at}experts.{expert}.")
        return out

    x = state["embed.weight"][tiny.IDS[0]]
    for n in range(config["num_hidden_layers"]):
        at = f"layers.{n}.attn."
        h = normed(x, state[f"layers.{n}.attn_norm.weight"], 1e-6)
        q = linear(normed(linear(h, at + "wq_a"), state[at + "q_norm.weight"], 1e-6), at + "wq_b")
        q_plain, q_turned = q.view(LENGTH, heads, -1).split([nope, turned_size], -1)
        latent, k_turned = linear(h, at + "wkv_a").split([rank, turned_size], -1)
        kv = linear(normed(latent, state[at + "kv_norm.weight"], 1e-6), at + "wkv_b").view(LENGTH, heads, -1)
        k_plain, v = kv.split([nope, v_size], -1)
        q = torch.cat((q_plain, turned(q_turned)), -1)
        k = torch.cat((k_plain, turned(k_turned[:, None]).expand(-1, heads, -1)), -1)
        scores = torch.einsum("qhd,khd->hqk", q, k) / math.sqrt(nope + turned_size) + LATER
        x = x + linear(torch.einsum("hqk,khd->qhd", scores.softmax(-1), v).flatten(1), at + "wo")
        h = normed(x, state[f"layers.{n}.ffn_norm.weight"], 1e-6)
        dense = n < config["first_k_dense_replace"]
        x = x + (gated if dense else mixture)(h, f"layers.{n}.ffn.")
    return linear(normed(x, state["norm.weight"], 1e-6), "head")[None]


def test_deepseeks_program_computes_the_same(tmp_path: Path) -> None:
    saved = moe.save("deepseek-v3", tmp_path / "saved")
    state, config = tiny.read(tiny.export(saved, tmp_path / "own", "deepseek")), tiny.raw_config(saved)
    assert close(deepseek(state, config), wanted_logits(saved))
    key = "layers.0.attn.wkv_a.weight"
    rows = state[key].clone()  # the rows that are turned, in halves
    rows[12:] = rows[12:].view(2, 2, -1).transpose(0, 1).reshape(4, -1)
    assert not close(deepseek({**state, key: rows}, config), wanted_logits(saved))
