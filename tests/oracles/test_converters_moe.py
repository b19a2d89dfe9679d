"""What torchtune, litgpt and transformers 5 make of fused families and experts is, byte for byte, what we make.

mistral-inference and nanoGPT are no packages that can be had here; what they compute is written here a second time from
their own code, and must give the same logits.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.oracle
pytest.importorskip("transformers")

import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional as F

from tests.oracles import moe, tiny

State = dict[str, Tensor]
only_v5 = pytest.mark.skipif(not tiny.V5, reason="transformers 5 alone fuses experts in memory")


def close(found: Tensor, wanted: Tensor) -> bool:
    return bool((found - wanted).abs().max() <= 3e-5 * wanted.abs().max().clamp(min=1))


def wanted_logits(folder: Path) -> Tensor:
    return tiny.logits_of(tiny.load(folder))


def folder_of(tensors: State, saved: Path, folder: Path, name: str) -> Path:
    """A folder as another program would leave it, with the config of the model."""
    folder.mkdir()
    if name.endswith(".safetensors"):
        save_file({k: v.contiguous() for k, v in tensors.items()}, folder / name, metadata={"format": "pt"})
    else:
        torch.save(tensors, folder / name)
    (folder / "config.json").write_bytes((saved / "config.json").read_bytes())
    return folder


def assert_back(tensors: State, saved: Path, folder: Path, name: str) -> None:
    """Read what another program wrote, and get the model."""
    back = tiny.export(folder_of(tensors, saved, folder, name), folder.with_name(folder.name + "-back"))
    assert tiny.differing(tiny.read(back), tiny.read(saved)) == []
    assert torch.equal(wanted_logits(back), wanted_logits(saved))


# ---------------------------------------------------------------------------------------------------------- torchtune


@pytest.mark.parametrize("case", ["phi3", "phi3-all-heads"])
def test_torchtunes_phi3(case: str, tmp_path: Path) -> None:
    phi3 = pytest.importorskip("torchtune.models.phi3")
    from torchtune.models.phi3._component_builders import phi3 as builder

    saved, (_, fields, _) = moe.save(case, tmp_path / "saved"), moe.CASES[case]
    heads, kv_heads, dim = fields["num_attention_heads"], fields["num_key_value_heads"], fields["hidden_size"]
    wanted = phi3.phi3_hf_to_tune(tiny.read(saved), num_heads=heads, num_kv_heads=kv_heads, dim=dim)
    out = tiny.export(saved, tmp_path / "tune", "torchtune")
    assert tiny.differing(tiny.read(out), wanted) == []
    assert tiny.differing(phi3.phi3_tune_to_hf(tiny.read(out)), tiny.read(saved)) == []
    assert_back(wanted, saved, tmp_path / "own", "model.pt")
    model = builder(
        vocab_size=80, num_layers=3, num_heads=heads, num_kv_heads=kv_heads, embed_dim=dim, intermediate_dim=56,
        max_seq_len=64, norm_eps=fields.get("rms_norm_eps", 1e-5), rope_base=int(moe.THETA),
    ).eval()  # fmt: skip
    model.load_state_dict(tiny.read(out))
    with torch.no_grad():
        assert close(model(tiny.IDS), wanted_logits(saved))


# ------------------------------------------------------------------------------------------------------------- litgpt

LIT: dict[str, dict[str, Any]] = {
    "phi": {
        "name": "phi-x", "mlp_class_name": "GptNeoxMLP", "norm_class_name": "LayerNorm", "bias": True,
        "parallel_residual": True, "shared_attention_norm": True, "lm_head_bias": True, "rotary_percentage": 0.5,
        "gelu_approximate": "tanh",
    },
    "phi3": {"name": "Phi-3-x"},
    "phi3-all-heads": {"name": "Phi-3-x"},
    "phi3-tied": {"name": "Phi-4-mini-x"},
    "gpt-neox": {
        "name": "pythia-x", "mlp_class_name": "GptNeoxMLP", "norm_class_name": "LayerNorm", "bias": True,
        "parallel_residual": True, "rotary_percentage": 0.25,
    },
    "mixtral": {"name": "Mixtral-x", "mlp_class_name": "LLaMAMoE", "n_expert": 4, "n_expert_per_token": 2},
    "qwen3-moe-all": {
        "name": "Qwen3-x", "mlp_class_name": "LLaMAMoE", "n_expert": 4, "n_expert_per_token": 2,
        "moe_intermediate_size": 20, "norm_qk": True, "norm_eps": 1e-6,
    },
}  # fmt: skip


def lit_config(case: str) -> Any:
    from litgpt import Config

    fields = moe.CASES[case][1]
    usual = {
        "n_layer": 3, "n_embd": 48, "n_head": 6, "n_query_groups": fields["num_key_value_heads"], "vocab_size": 80,
        "padded_vocab_size": 80, "intermediate_size": 56, "head_size": fields.get("head_dim", 8), "block_size": 64,
        "bias": False, "parallel_residual": False, "rotary_percentage": 1.0, "norm_class_name": "RMSNorm",
        "mlp_class_name": "LLaMAMLP", "norm_eps": 1e-5, "rope_base": int(moe.THETA),
    }  # fmt: skip
    return Config(**{**usual, **LIT[case]})


@pytest.mark.parametrize("case", list(LIT))
def test_litgpts_converters_and_model(case: str, tmp_path: Path) -> None:
    litgpt = pytest.importorskip("litgpt")
    from litgpt.scripts import convert_hf_checkpoint as there
    from litgpt.scripts import convert_lit_checkpoint as back

    saved, config = moe.save(case, tmp_path / "saved"), lit_config(case)
    wanted: State = {}
    made: State = {}
    out = tiny.export(saved, tmp_path / "lit", "litgpt")
    if case == "gpt-neox":
        there.copy_weights_gpt_neox(config, wanted, tiny.read(saved))
        back.copy_weights_gpt_neox(config, made, tiny.read(out))
    elif case == "qwen3-moe-all":
        there.copy_weights_qwen_3(config, {}, wanted, tiny.read(saved))
        back.copy_weights_qwen_3(config, made, tiny.read(out))
    elif case == "mixtral":
        there.copy_weights_hf_llama(config, {}, wanted, tiny.read(saved))
        back.copy_weights_llama(config, made, tiny.read(out))
    else:
        there.copy_weights_phi(config, {}, wanted, tiny.read(saved))
        back.copy_weights_phi(config, made, tiny.read(out))
    assert tiny.differing(tiny.read(out), wanted) == []
    assert tiny.differing(made, tiny.read(saved)) == []
    assert_back(wanted, saved, tmp_path / "own", "lit_model.pth")
    model = litgpt.GPT(config).eval()
    model.load_state_dict(tiny.read(out))
    with torch.no_grad():
        assert close(model(tiny.IDS), wanted_logits(saved))


# --------------------------------------------------------------------------------------------------------- torchtitan


@pytest.mark.parametrize(
    ("layout", "experts", "head", "q"),
    [
        ("torchtitan", ("routed_experts.inner_experts.w1_EFD", "w3_EFD", "w2_EDF"), "lm_head", "qkv_linear.w"),
        ("torchtitan-old", ("experts.w1", "w3", "w2"), "output", "w"),
    ],
)
@pytest.mark.parametrize("case", ["qwen3-moe", "qwen3-moe-all"])
def test_torchtitans_qwen3_moe(
    case: str, layout: str, experts: tuple[str, ...], head: str, q: str, tmp_path: Path
) -> None:
    """Its adapter, written a second time: matrices of experts stacked as they are, a dense layer beside them."""
    saved = moe.save(case, tmp_path / "saved")
    before = experts[0].rpartition(".")[0] + "."
    names = dict(zip(("gate_proj", "up_proj", "down_proj"), (experts[0].rpartition(".")[2], *experts[1:]), strict=True))
    wanted: State = {}
    stacks: dict[str, dict[int, Tensor]] = {}
    for key, value in tiny.read(saved).items():
        parts = key.removeprefix("model.").split(".")
        if ".experts." in key:
            stacks.setdefault(f"layers.{parts[1]}.moe.{before}{names[parts[5]]}", {})[int(parts[4])] = value
        elif parts[0] != "layers":
            top = {"embed_tokens": "tok_embeddings", "norm": "norm", "lm_head": head}
            wanted[f"{top[parts[0]]}.weight"] = value
        else:
            inner = {
                "mlp.gate": "moe.router.gate", "mlp.gate_proj": "feed_forward.w1", "mlp.up_proj": "feed_forward.w3",
                "mlp.down_proj": "feed_forward.w2", "input_layernorm": "attention_norm",
                "post_attention_layernorm": "ffn_norm", "self_attn.o_proj": "attention.wo",
                **{f"self_attn.{x}_proj": f"attention.{q}{x}" for x in "qkv"},
                **{f"self_attn.{x}_norm": f"attention.{x}_norm" for x in "qk"},
            }  # fmt: skip
            wanted[f"layers.{parts[1]}.{inner['.'.join(parts[2:-1])]}.weight"] = value
    wanted |= {key: torch.stack([found[e] for e in sorted(found)]) for key, found in stacks.items()}
    out = tiny.export(saved, tmp_path / "titan", layout)
    assert tiny.differing(tiny.read(out), wanted) == []
    assert_back(wanted, saved, tmp_path / "own", "model.pt")


# ------------------------------------------------------------------------------------------------------ transformers 5

FUSED = (
    "mixtral", "qwen2-moe", "qwen3-moe", "qwen3-moe-biases", "deepseek-v2", "deepseek-v2-lite", "deepseek-v3",
    "gpt-neox", "mllama",
)  # fmt: skip


@only_v5
@pytest.mark.parametrize("case", FUSED)
def test_what_transformers_5_has_in_memory(case: str, tmp_path: Path) -> None:
    saved = moe.save(case, tmp_path / "saved")
    model = moe.load(case, saved)
    model.save_pretrained(tmp_path / "fused", save_original_format=False)
    assert tiny.read(tmp_path / "fused").keys() != tiny.read(saved).keys()
    plan = tiny.plan_of(tmp_path / "fused")
    assert plan.findings == ()
    assert plan.layout is not None
    assert plan.layout.name == "hf-fused"
    back = tiny.export(tmp_path / "fused", tmp_path / "back", "hf")
    assert tiny.differing(tiny.read(back), tiny.read(saved)) == []
    ours = tiny.export(saved, tmp_path / "ours", "hf-fused")
    assert tiny.differing(tiny.read(ours), tiny.read(tmp_path / "fused")) == []
    wanted = tiny.logits_of(moe.load(case, saved))
    assert close(tiny.logits_of(moe.load(case, ours)), wanted)
    assert close(tiny.logits_of(moe.load(case, back)), wanted)


# ------------------------------------------------------------------------------------------------------------- nanoGPT


def nanogpt(state: State, heads: int) -> Tensor:
    """The forward pass of nanoGPT's `model.py`, all its matrices in `nn.Linear`'s order."""
    length, width = tiny.IDS.shape[1], state["transformer.wte.weight"].shape[1]
    x = state["transformer.wte.weight"][tiny.IDS] + state["transformer.wpe.weight"][:length]

    def linear(name: str, x: Tensor) -> Tensor:
        return F.linear(x, state[name + ".weight"], state[name + ".bias"])

    def norm(name: str, x: Tensor) -> Tensor:
        return F.layer_norm(x, (width,), state[name + ".weight"], state[name + ".bias"], 1e-5)

    for n in range(3):
        at = f"transformer.h.{n}."
        q, k, v = (
            part.view(1, length, heads, width // heads).transpose(1, 2)
            for part in linear(at + "attn.c_attn", norm(at + "ln_1", x)).split(width, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(1, length, width)
        x = x + linear(at + "attn.c_proj", y)
        hidden = F.gelu(linear(at + "mlp.c_fc", norm(at + "ln_2", x)), approximate="tanh")
        x = x + linear(at + "mlp.c_proj", hidden)
    return F.linear(norm("transformer.ln_f", x), state["lm_head.weight"])


@pytest.mark.parametrize("case", ["gpt2", "gpt2-untied"])
def test_nanogpt(case: str, tmp_path: Path) -> None:
    saved = moe.save(case, tmp_path / "saved")
    state = tiny.read(tiny.export(saved, tmp_path / "nano", "nanogpt"))
    assert close(nanogpt(state, 6), wanted_logits(saved))
    turned = ("attn.c_attn.weight", "attn.c_proj.weight", "mlp.c_fc.weight", "mlp.c_proj.weight")
    for key, value in tiny.read(saved).items():  # as `GPT.from_pretrained` copies them
        assert tiny.same(state[key], value.t() if key.endswith(turned) else value)
    container = {"model": state, "model_args": {"n_layer": 3, "n_head": 6}, "iter_num": 7, "best_val_loss": 1.5}
    torch.save(container, tmp_path / "ckpt.pt")
    plan = tiny.plan_of(tmp_path / "ckpt.pt")
    assert plan.layout is not None
    assert plan.layout.name == "nanogpt"
    back = tiny.export(tmp_path / "ckpt.pt", tmp_path / "back", "hf")
    assert tiny.differing(tiny.read(back), tiny.read(saved)) == []


# --------------------------------------------------------------------------------------------------- mistral-inference


def mistral_inference(state: State, params: dict[str, Any]) -> Tensor:
    """The forward pass of mistral-inference's `transformer_layers.py` and `moe.py`."""
    length, hd = tiny.IDS.shape[1], params["head_dim"]
    heads, kv_heads = params["n_heads"], params["n_kv_heads"]
    angles = torch.outer(torch.arange(length), 1 / params["rope_theta"] ** (torch.arange(0, hd, 2) / hd))
    turn = torch.polar(torch.ones_like(angles), angles)[None, :, None]

    def norm(name: str, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + params["norm_eps"]) * state[name + ".weight"]

    def rotated(x: Tensor) -> Tensor:
        pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * turn).flatten(3)

    x = state["tok_embeddings.weight"][tiny.IDS]
    for n in range(params["n_layers"]):
        at = f"layers.{n}."
        h = norm(at + "attention_norm", x)
        q, k, v = (
            F.linear(h, state[f"{at}attention.w{name}.weight"]).view(1, length, -1, hd) for name in ("q", "k", "v")
        )
        q, k = rotated(q), rotated(k)
        k, v = (part.repeat_interleave(heads // kv_heads, 2) for part in (k, v))
        scores = q.transpose(1, 2) @ k.transpose(1, 2).transpose(2, 3) / math.sqrt(hd)
        scores = scores + torch.full((length, length), -math.inf).triu(1)
        y = (scores.softmax(-1) @ v.transpose(1, 2)).transpose(1, 2).reshape(1, length, -1)
        x = x + F.linear(y, state[at + "attention.wo.weight"])
        h = norm(at + "ffn_norm", x)[0]
        weights, chosen = F.linear(h, state[at + "feed_forward.gate.weight"]).topk(params["moe"]["num_experts_per_tok"])
        weights, out = weights.softmax(-1), torch.zeros_like(h)
        for e in range(params["moe"]["num_experts"]):
            w1, w2, w3 = (state[f"{at}feed_forward.experts.{e}.w{i}.weight"] for i in (1, 2, 3))
            token, place = torch.where(chosen == e)
            one = F.linear(F.silu(F.linear(h[token], w1)) * F.linear(h[token], w3), w2)
            out[token] += weights[token, place, None] * one
        x = x + out
    return F.linear(norm("norm", x), state["output.weight"])


def test_mistral_inference(tmp_path: Path) -> None:
    saved = moe.save("mixtral", tmp_path / "saved")
    out = tiny.export(saved, tmp_path / "meta", "meta")
    params = moe.json_of(out / "params.json")
    assert close(mistral_inference(tiny.read(out), params), wanted_logits(saved))
    (out / "EXPORT_REPORT.json").unlink()
    back = tiny.export(out, tmp_path / "back", "hf")
    assert tiny.differing(tiny.read(back), tiny.read(saved)) == []
    assert torch.equal(wanted_logits(back), wanted_logits(saved))


# -------------------------------------------------------------------------------------------------- spelling of configs


@pytest.mark.parametrize("case", ["qwen3-moe", "gpt-neox-base", "phi", "phi3", "phi3-long", "mixtral", "deepseek-v3"])
def test_configs_of_version_5_are_written_for_both(case: str, tmp_path: Path) -> None:
    """Exports of folders that version 5 wrote give the same logits in whichever version runs this."""
    saved = moe.save(case, tmp_path / "saved")
    config = tiny.raw_config(saved)
    if not tiny.V5:
        share = config.pop("rotary_pct", config.pop("partial_rotary_factor", None))
        base = config.pop("rotary_emb_base", config.pop("rope_theta", None))
        config.pop("rope_theta", None)
        config.pop("partial_rotary_factor", None)
        scaling = config.pop("rope_scaling", None) or {"type": "default"}
        config["rope_parameters"] = {**scaling, "rope_type": scaling["type"], "rope_theta": base}
        if case == "phi3-long":
            config["rope_parameters"]["original_max_position_embeddings"] = config["original_max_position_embeddings"]
        config["rope_parameters"] |= {"partial_rotary_factor": share} if share is not None else {}
        if case == "qwen3-moe":
            config["num_local_experts"] = config.pop("num_experts")
    wanted = wanted_logits(saved)
    tiny.write_config(saved, config)
    out = tiny.export(saved, tmp_path / "out", "hf")
    written = tiny.raw_config(out)
    assert "rope_parameters" not in written
    assert ("num_experts" in written) == (case == "qwen3-moe")
    assert torch.equal(wanted_logits(out), wanted)
