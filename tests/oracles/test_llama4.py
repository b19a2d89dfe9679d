"""Llama 4 in Meta's names: Meta's own forward pass, written here a second time, computes transformers' logits from it.

It takes what params.json says for granted, and comes back as the same model without our report.
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
from tests.oracles.test_converters_moe import close

State = dict[str, Tensor]


def meta_program(state: State, params: dict[str, Any]) -> Tensor:
    """The forward pass of Meta's `models/llama4/model.py`, `moe.py` and `ffn.py`, for text."""
    length, heads, kv_heads = tiny.IDS.shape[1], params["n_heads"], params["n_kv_heads"]
    hd, args = params["head_dim"], params["moe_args"]
    angles = torch.outer(torch.arange(length), 1 / params["rope_theta"] ** (torch.arange(0, hd, 2) / hd))
    turn = torch.polar(torch.ones_like(angles), angles)[None, :, None]

    def norm(x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + params["norm_eps"])

    def rotated(x: Tensor) -> Tensor:
        pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * turn).flatten(3)

    def gated(x: Tensor, w1: str, w3: str, w2: str) -> Tensor:
        return F.linear(F.silu(F.linear(x, state[w1])) * F.linear(x, state[w3]), state[w2])

    def mixture(x: Tensor, at: str) -> Tensor:
        scores = x @ state[at + "router_DE"]
        best, chosen = scores.topk(args["top_k"])
        gates = torch.full_like(scores, -math.inf).scatter(1, chosen, best).sigmoid()
        out = gated(x, *(f"{at}{name}.weight" for name in ("w_in_shared_FD", "w_swiglu_FD", "w_out_shared_DF")))
        count = args["num_experts"]
        w1, w3 = (
            state[f"{at}experts.{name}"].view(count, x.shape[1], -1) for name in ("moe_w_in_eD_F", "moe_w_swiglu_eD_F")
        )
        w2 = state[at + "experts.moe_w_out_eF_D"].view(count, -1, x.shape[1])
        for expert in range(count):
            scaled = x * gates[:, expert, None]
            out = out + (F.silu(scaled @ w1[expert]) * (scaled @ w3[expert])) @ w2[expert]
        return out

    x = state["tok_embeddings.weight"][tiny.IDS]
    for n in range(params["n_layers"]):
        at = f"layers.{n}."
        h = norm(x) * state[at + "attention_norm.weight"]
        q, k, v = (
            F.linear(h, state[f"{at}attention.w{name}.weight"]).view(1, length, -1, hd) for name in ("q", "k", "v")
        )
        q, k = norm(rotated(q)), norm(rotated(k))
        k, v = (part.repeat_interleave(heads // kv_heads, 2) for part in (k, v))
        scores = q.transpose(1, 2) @ k.transpose(1, 2).transpose(2, 3) / math.sqrt(hd)
        scores = scores + torch.full((length, length), -math.inf).triu(1)
        y = (scores.softmax(-1) @ v.transpose(1, 2)).transpose(1, 2).reshape(1, length, -1)
        x = x + F.linear(y, state[at + "attention.wo.weight"])
        h = (norm(x) * state[at + "feed_forward.norm.weight"])[0]
        at += "feed_forward."
        if (n + 1) % args["interleave_moe_layer_step"] == 0:
            x = x + mixture(h, at)
        else:
            x = x + gated(h, *(f"{at}{name}.weight" for name in ("w1", "w3", "w2")))
    return F.linear(norm(x) * state["norm.weight"], state["output.weight"])


def wanted(folder: Path) -> Tensor:
    return moe.logits_of("llama4", folder)


def test_metas_program_computes_the_same(tmp_path: Path) -> None:
    saved = moe.save("llama4", tmp_path / "saved")
    out = tiny.export(saved, tmp_path / "meta", "meta")
    state, params = tiny.read(out), moe.json_of(out / "params.json")
    assert close(meta_program(state, params), wanted(saved))
    one, other = (f"layers.1.feed_forward.experts.{name}" for name in ("moe_w_in_eD_F", "moe_w_swiglu_eD_F"))
    assert not close(meta_program({**state, one: state[other], other: state[one]}, params), wanted(saved))
    rows = state["layers.0.attention.wq.weight"].view(6, 8, 2, 48).transpose(1, 2).reshape(96, 48)
    assert not close(meta_program({**state, "layers.0.attention.wq.weight": rows}, params), wanted(saved))


def test_back_without_our_report(tmp_path: Path) -> None:
    saved = moe.save("llama4", tmp_path / "saved")
    out = tiny.export(saved, tmp_path / "meta", "meta")
    (out / "EXPORT_REPORT.json").unlink()
    back = tiny.export(out, tmp_path / "back")
    assert tiny.differing(tiny.read(back), tiny.read(saved)) == []
    assert torch.equal(wanted(back), wanted(saved))


def test_a_model_with_images_back_without_our_report(tmp_path: Path) -> None:
    saved = moe.save("llama4-vision", tmp_path / "saved")
    out = tiny.export(saved, tmp_path / "meta", "meta")
    (out / "EXPORT_REPORT.json").unlink()
    back = tiny.export(out, tmp_path / "back")
    assert tiny.differing(tiny.read(back), tiny.read(saved)) == []
    assert torch.equal(moe.logits_of("llama4-vision", back), moe.logits_of("llama4-vision", saved))
    found, told = (tiny.config_of(folder)["vision_config"] for folder in (back, saved))
    assert {k: v for k, v in found.items() if "dtype" not in k} == {k: v for k, v in told.items() if "dtype" not in k}
