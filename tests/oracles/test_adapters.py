"""peft 0.15 merges to the weights that we merge to, and torchtune's adapters compute the same after conversion."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.oracle
peft = pytest.importorskip("peft")

import torch
from safetensors.torch import load_file
from torch import Tensor

from ckpt_gui import open_checkpoint
from ckpt_gui.cli.main import main
from ckpt_gui.core.export import Target
from ckpt_gui.core.normalise import normalise, understand
from ckpt_gui.core.policy import Policy
from ckpt_gui.core.retarget import retarget
from ckpt_gui.core.writer import write_export
from tests.oracles import dense, tiny

LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"
RANK, ALPHA = 4, 12
# Name: what LoraConfig is given. All of it is trained, whatever the start values.
KINDS: dict[str, dict[str, Any]] = {
    "plain": {"target_modules": LINEAR},
    "rslora": {"target_modules": LINEAR, "use_rslora": True},
    "patterns": {
        "target_modules": LINEAR,
        "rank_pattern": {"q_proj": 2, r"layers\.1\..*v_proj": 6},
        "alpha_pattern": {"model.layers.0.mlp.up_proj": 3, "o_proj|down_proj": 7},
    },
    "some-layers": {"target_modules": ["q_proj", "down_proj"], "layers_to_transform": [1]},
    "dora": {"target_modules": LINEAR, "use_dora": True},
    "dora-rslora": {"target_modules": ["q_proj", "up_proj"], "use_dora": True, "use_rslora": True},
    "saved": {"target_modules": LINEAR, "modules_to_save": ["lm_head"]},
    "saved-embedding": {"target_modules": LINEAR, "modules_to_save": ["embed_tokens"]},
    "saved-norms": {"target_modules": LINEAR, "modules_to_save": ["input_layernorm"]},
    "head": {"target_modules": [*LINEAR, "lm_head"]},
    "embedding": {"target_modules": [*LINEAR, "embed_tokens"]},
    "embedding-dora": {"target_modules": ["embed_tokens", "v_proj"], "use_dora": True},
}


def lora(**options: Any) -> Any:
    return peft.LoraConfig(**{"r": RANK, "lora_alpha": ALPHA, "task_type": "CAUSAL_LM", **options})


def adapted(model: Any, config: Any, *, whole_numbers: bool = False) -> Any:
    """Return a PEFT model with every trained tensor random."""
    torch.manual_seed(1)  # peft's own start values stay in A
    made = peft.get_peft_model(copy.deepcopy(model), config).eval()
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if not parameter.requires_grad:
                continue
            if whole_numbers:
                parameter.copy_(torch.randint(-3, 4, parameter.shape, generator=generator))
            elif "magnitude" in name:
                parameter.mul_(0.5 + torch.rand(parameter.shape, generator=generator))
            else:
                parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.2)
    return made


def merged(base: Path, adapter: Path, out: Path, *, to: str = "hf", **target: Any) -> Path:
    """Merge by the command line, as a user would."""
    words = ["fix", str(base), "--adapter", str(adapter), "-o", str(out), "--to", to]
    words += [f"--{name}={value}" for name, value in target.items()]
    assert main(words) == 0
    return out


def logits_of(model: Any) -> Tensor:
    return tiny.logits_of(model)


def assert_same_logits(found: Tensor, wanted: Tensor) -> None:
    """What is merged is added up in another order; attention makes more of that than a sum does."""
    assert_near(found, wanted, 2e-4)


def assert_near(found: Tensor, wanted: Tensor, tolerance: float = 2e-6) -> None:
    assert (found - wanted).abs().max() <= tolerance * wanted.abs().max().clamp(min=1)


@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
@pytest.mark.parametrize("kind", KINDS)
def test_merge_agrees_with_peft(kind: str, tied: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tiny.make_model(tiny.make_config(tied=tied), scale=0.3)
    model.save_pretrained(tmp_path / "base")
    trained = adapted(model, lora(**KINDS[kind]))
    trained.save_pretrained(tmp_path / "adapter")
    wanted_logits = logits_of(trained)
    out = merged(tmp_path / "base", tmp_path / "adapter", tmp_path / "out")
    capsys.readouterr()
    assert_same_logits(logits_of(tiny.load(out)), wanted_logits)
    tiny.assert_clean(out)
    apart = tied and kind in ("saved", "saved-embedding", "head", "embedding", "embedding-dora")
    assert tiny.raw_config(out)["tie_word_embeddings"] is (tied and not apart)
    if kind == "embedding-dora" or (apart and kind != "saved-embedding"):
        return  # peft's own merge forgets DoRA on embeddings, and changes both of a tied pair
    wanted = trained.merge_and_unload().state_dict()
    found = tiny.read(out)
    for name, tensor in found.items():
        assert_near(tensor, wanted[name])


@pytest.mark.parametrize("to", ["hf", "meta", "torchtune"])
@pytest.mark.parametrize("stored", ["meta", "torchtune"])
def test_merge_into_other_layouts(stored: str, to: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tiny.make_model(tiny.make_config(), scale=0.3)
    model.save_pretrained(tmp_path / "hf")
    trained = adapted(model, lora(target_modules=LINEAR, use_dora=True))
    trained.save_pretrained(tmp_path / "adapter")
    base = tiny.export(tmp_path / "hf", tmp_path / "base", stored)
    out = merged(base, tmp_path / "adapter", tmp_path / "out", to=to)
    capsys.readouterr()
    back = tiny.export(out, tmp_path / "back", "hf")
    assert_same_logits(logits_of(tiny.load(back)), logits_of(trained))


def test_bf16_is_the_rounded_fp32(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Small whole numbers over powers of two: fp32 sums are exact, so that only the rounding is compared."""
    model = tiny.make_model(tiny.make_config())
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randint(-100, 101, parameter.shape, generator=generator) / 64)
    model.to(torch.bfloat16).save_pretrained(tmp_path / "base")
    trained = adapted(model.float(), lora(target_modules=LINEAR, lora_alpha=RANK / 256), whole_numbers=True)
    trained.save_pretrained(tmp_path / "adapter")
    path = tmp_path / "adapter" / "adapter_config.json"
    assert json.loads(path.read_text())["lora_alpha"] == RANK / 256
    found = tiny.read(merged(tmp_path / "base", tmp_path / "adapter", tmp_path / "out"))
    capsys.readouterr()
    wanted = trained.merge_and_unload().state_dict()
    assert any(not torch.equal(t, t.to(torch.bfloat16).float()) for t in wanted.values()), "something is rounded"
    for name, tensor in found.items():
        assert tensor.dtype == torch.bfloat16
        assert torch.equal(tensor, wanted[name].to(torch.bfloat16)), name


@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
@pytest.mark.parametrize("kind", ["plain", "dora", "saved", "saved-embedding", "head"])
def test_unmerged_state_dicts(kind: str, tied: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tiny.make_model(tiny.make_config(tied=tied), scale=0.3)
    trained = adapted(model, lora(**KINDS[kind]))
    path = tmp_path / "in" / "last.pt"
    path.parent.mkdir()
    torch.save({"model": trained.state_dict(), "step": 3}, path)
    model.config.save_pretrained(path.parent)
    assert main(["fix", str(path), "-o", str(tmp_path / "no"), "--to", "hf"]) == 1
    assert "--lora-alpha" in capsys.readouterr().err
    assert main(["fix", str(path), "-o", str(tmp_path / "out"), "--to", "hf", "--lora-alpha", str(ALPHA)]) == 0
    assert "Merge the adapter" in capsys.readouterr().err
    assert_same_logits(logits_of(tiny.load(tmp_path / "out")), logits_of(trained))


def test_peft_reads_what_same_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An adapter saved from a compiled model does nothing in PEFT, and does not say so."""
    model = tiny.make_model(tiny.make_config(), scale=0.3)
    trained = adapted(model, lora(target_modules=LINEAR))
    trained.save_pretrained(tmp_path / "adapter")
    file = tmp_path / "adapter" / "adapter_model.safetensors"
    from safetensors.torch import save_file

    save_file({f"_orig_mod.{k}": v for k, v in load_file(file).items()}, file)
    assert main(["check", str(tmp_path / "adapter")]) == 1
    assert main(["fix", str(tmp_path / "adapter"), "-o", str(tmp_path / "out")]) == 0
    capsys.readouterr()
    again = peft.PeftModel.from_pretrained(model, tmp_path / "out").eval()
    assert torch.equal(logits_of(again), logits_of(trained))


# ---------------------------------------------------------------------------------------------------------- torchtune


TUNED = ("llama", "mistral", "qwen2", "gemma")


def tune_model(config: Any, *, dora: bool) -> Any:
    """Return torchtune's LoRA model of the same sizes."""
    from torchtune.models import gemma, llama3_1, mistral, qwen2

    common: dict[str, Any] = {
        "lora_attn_modules": ["q_proj", "k_proj", "v_proj", "output_proj"], "apply_lora_to_mlp": True,
        "vocab_size": config.vocab_size, "num_layers": config.num_hidden_layers,
        "num_heads": config.num_attention_heads, "num_kv_heads": config.num_key_value_heads,
        "embed_dim": config.hidden_size, "max_seq_len": 64, "intermediate_dim": config.intermediate_size,
        "norm_eps": config.rms_norm_eps, "lora_rank": RANK, "lora_alpha": ALPHA, "use_dora": dora,
    }  # fmt: skip
    if config.model_type == "qwen2":
        return qwen2.lora_qwen2(**common, rope_base=config.rope_theta).eval()
    if config.model_type == "mistral":
        return mistral.lora_mistral(**common, rope_base=int(config.rope_theta)).eval()
    if config.model_type == "gemma":
        return gemma.lora_gemma(**common, head_dim=config.head_dim).eval()
    return llama3_1.lora_llama3_1(**common, rope_base=int(config.rope_theta)).eval()


def tune_base(kind: str, dora: bool) -> Any:
    """Return transformers' model, of sizes that torchtune's builder can have."""
    from tests.oracles.test_torchtune import LONG, SIZES

    if kind == "llama":
        return tiny.make_model(tiny.make_config(**SIZES, scaling=LONG), scale=0.3)
    if kind == "mistral":
        return tiny.make_model(tiny.make_config("mistral", **SIZES, sliding_window=None), scale=0.3)
    model = dense.make(kind)
    if dora:  # torchtune's DoRA scales the bias too while it trains, and its own merge does not
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if name.endswith(".bias"):
                    parameter.zero_()
    return model


def tune_case(kind: str, dora: bool, folder: Path) -> tuple[Any, Any, Path]:
    """Return transformers' model, torchtune's trained one, and the folder of its adapter."""
    from torchtune.modules.peft import get_adapter_state_dict

    model = tune_base(kind, dora)
    model.save_pretrained(folder / "hf")
    base = tiny.export(folder / "hf", folder / "tune", "torchtune")
    tune = tune_model(model.config, dora=dora)
    state = torch.load(base / "torchtune_model.pt", weights_only=True)
    missing = tune.load_state_dict(state, strict=False)
    assert not missing.unexpected_keys
    assert all("lora" in key or "magnitude" in key for key in missing.missing_keys)
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for name, parameter in tune.named_parameters():
            if "lora" in name:
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.2)
            elif "magnitude" in name:
                parameter.copy_(0.5 + torch.rand(parameter.shape, generator=generator))
    adapter = folder / "adapter"
    adapter.mkdir()
    torch.save(get_adapter_state_dict(tune.state_dict()), adapter / "adapter_model.pt")
    saved = {"r": RANK, "lora_alpha": ALPHA, "target_modules": LINEAR, "peft_type": "LORA"}
    (adapter / "adapter_config.json").write_text(json.dumps(saved))
    return model, tune, adapter


@pytest.mark.parametrize("dora", [False, True], ids=["lora", "dora"])
@pytest.mark.parametrize("kind", TUNED)
def test_torchtune_adapters(kind: str, dora: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Converted to PEFT, back, and merged: the logits of torchtune's own model each time."""
    model, tune, adapter = tune_case(kind, dora, tmp_path)
    with torch.no_grad():
        wanted = tune(tiny.IDS)
    there = tmp_path / "peft"
    assert main(["fix", str(adapter), "-o", str(there), "--to", "hf", "--base", str(tmp_path / "hf")]) == 0
    capsys.readouterr()
    again = peft.PeftModel.from_pretrained(copy.deepcopy(model), there).eval()
    assert_same_logits(logits_of(again), wanted)
    back = tmp_path / "back"
    assert main(["fix", str(there), "-o", str(back), "--to", "torchtune", "--base", str(tmp_path / "hf")]) == 0
    capsys.readouterr()
    assert tiny.differing(tiny.read(back), tiny.read(adapter)) == []
    out = merged(tmp_path / "hf", adapter, tmp_path / "out")
    capsys.readouterr()
    assert_same_logits(logits_of(tiny.load(out)), wanted)


@pytest.mark.parametrize("dora", [False, True], ids=["lora", "dora"])
@pytest.mark.parametrize("kind", TUNED)
def test_pefts_adapters_in_torchtune(kind: str, dora: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Trained in PEFT, converted, loaded by torchtune's own model: the logits that PEFT's has."""
    model = tune_base(kind, dora)
    model.save_pretrained(tmp_path / "hf")
    trained = adapted(model, lora(target_modules=LINEAR, use_dora=dora))
    trained.save_pretrained(tmp_path / "adapter")
    there = ["fix", str(tmp_path / "adapter"), "-o", str(tmp_path / "there"), "--to", "torchtune"]
    assert main([*there, "--base", str(tmp_path / "hf")]) == 0
    capsys.readouterr()
    tune = tune_model(model.config, dora=dora)
    base = tiny.read(tiny.export(tmp_path / "hf", tmp_path / "tune", "torchtune"))
    tune.load_state_dict(base | tiny.read(tmp_path / "there"), strict=True)
    with torch.no_grad():
        assert_same_logits(tune(tiny.IDS), logits_of(trained))


def test_torchtune_merges_alike(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from torchtune.modules.peft import get_merged_lora_ckpt

    _, tune, adapter = tune_case("llama", True, tmp_path)
    wanted = get_merged_lora_ckpt(copy.deepcopy(tune.state_dict()), RANK, ALPHA)
    found = tiny.read(merged(tmp_path / "tune", adapter, tmp_path / "out", to="torchtune"))
    capsys.readouterr()
    assert found.keys() == wanted.keys()
    for name, tensor in found.items():
        assert_near(tensor, wanted[name])


# -------------------------------------------------------------------------------------------------------------- GPT-2


@pytest.mark.parametrize("dora", [False, True], ids=["lora", "dora"])
def test_conv1d_is_stored_the_other_way_round(dora: bool, tmp_path: Path) -> None:
    """GPT-2's Conv1D holds in × out; one of its weights is square, where only adapter_config.json tells."""
    import transformers

    config = transformers.GPT2Config(n_embd=32, n_head=4, n_layer=2, vocab_size=80, n_positions=64)
    model = transformers.GPT2LMHeadModel(config).eval()
    model.save_pretrained(tmp_path / "base")
    trained = adapted(model, lora(target_modules=["c_attn", "c_proj"], fan_in_fan_out=True, use_dora=dora))
    trained.save_pretrained(tmp_path / "adapter")
    from ckpt_gui.core.merging import merge_adapter

    with open_checkpoint(tmp_path / "base") as source, open_checkpoint(tmp_path / "adapter") as other:
        plan = merge_adapter(understand(source, Policy()), normalise(other))
        export = retarget(plan, Target("hf" if plan.family else "same", "safetensors"))
        assert export.blocked == ()
        write_export(export, tmp_path / "out")
    wanted = {k.removeprefix("transformer."): v for k, v in trained.merge_and_unload().state_dict().items()}
    found = {k.removeprefix("transformer."): v for k, v in tiny.read(tmp_path / "out").items()}
    for name, tensor in found.items():
        assert_near(tensor, wanted[name])


# ----------------------------------------------------------------------------------------------------- other families

_SMALL: dict[str, Any] = {
    "hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48,
    "num_hidden_layers": 2, "vocab_size": 80, "max_position_embeddings": 128, "pad_token_id": 0,
}  # fmt: skip
# model_type: changes of the config. All linear layers have an adapter: fused ones, biased ones, experts.
FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {"head_dim": 8, "attention_bias": True},
    "mistral": {"head_dim": 16},
    "qwen2": {},
    "gemma": {"head_dim": 16},
    "gemma3_text": {"head_dim": 16},
    "smollm3": {},
    "olmo2": {},
    "starcoder2": {},
    "phi": {},
    "gpt_oss": {"num_local_experts": 3, "head_dim": 8},
    "deepseek_v3": {
        "n_routed_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "n_group": 1, "topk_group": 1,
        "first_k_dense_replace": 1, "q_lora_rank": 12, "kv_lora_rank": 10, "qk_nope_head_dim": 8,
        "qk_rope_head_dim": 4, "v_head_dim": 6, "num_key_value_heads": 4,
    },
    "gemma2": {"head_dim": 8},
    "qwen3": {"head_dim": 8},
    "phi3": {},
    "gpt_neox": {"num_key_value_heads": ...},
    "mixtral": {"num_local_experts": 3},
    "qwen3_moe": {"num_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "head_dim": 8},
    "cohere": {},
    "cohere2": {},
    "gpt2": {"n_embd": 32, "n_head": 4, "n_layer": 2, "n_positions": 128},
}  # fmt: skip


@pytest.mark.parametrize("dora", [False, True], ids=["lora", "dora"])
@pytest.mark.parametrize("kind", FAMILIES)
def test_other_families(kind: str, dora: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import transformers

    sizes = {name: value for name, value in {**_SMALL, **FAMILIES[kind]}.items() if value is not ...}
    torch.manual_seed(2)
    model = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.for_model(kind, **sizes)).eval()
    model.save_pretrained(tmp_path / "base")
    trained = adapted(model, lora(target_modules="all-linear", use_dora=dora))
    trained.save_pretrained(tmp_path / "adapter")
    found = tiny.read(merged(tmp_path / "base", tmp_path / "adapter", tmp_path / "out"))
    capsys.readouterr()
    wanted = trained.merge_and_unload().state_dict()
    assert found.keys() <= wanted.keys()
    assert len(wanted.keys() - found.keys()) <= 1  # a tied head
    for name, tensor in found.items():
        assert_near(tensor, wanted[name])


@pytest.mark.parametrize("dora", [False, True], ids=["lora", "dora"])
def test_pairs_of_fused_weights_for_torchtune(dora: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Phi-3's qkv_proj is three modules in torchtune: B is cut, and A goes with each part; there is no way back."""
    import transformers
    from torchtune.models import phi3

    torch.manual_seed(2)
    model = transformers.Phi3ForCausalLM(transformers.Phi3Config(**_SMALL)).eval()
    model.save_pretrained(tmp_path / "hf")
    trained = adapted(model, lora(target_modules="all-linear", use_dora=dora))
    trained.save_pretrained(tmp_path / "adapter")
    base = tiny.export(tmp_path / "hf", tmp_path / "tune", "torchtune")
    there = ["fix", str(tmp_path / "adapter"), "-o", str(tmp_path / "there"), "--to", "torchtune"]
    assert main([*there, "--base", str(tmp_path / "hf")]) == 0
    back = ["fix", str(tmp_path / "there"), "-o", str(tmp_path / "back"), "--to", "hf"]
    assert main([*back, "--base", str(tmp_path / "hf")]) == 1
    assert "fused" in capsys.readouterr().err
    tune = phi3.lora_phi3(
        ["q_proj", "k_proj", "v_proj", "output_proj"], apply_lora_to_mlp=True, vocab_size=80, num_layers=2,
        num_heads=4, num_kv_heads=2, embed_dim=32, intermediate_dim=48, max_seq_len=64,
        norm_eps=model.config.rms_norm_eps, rope_base=int(model.config.rope_theta), lora_rank=RANK, lora_alpha=ALPHA,
        use_dora=dora,
    ).eval()  # fmt: skip
    tune.load_state_dict(tiny.read(base) | tiny.read(tmp_path / "there"), strict=True)
    with torch.no_grad():
        assert_same_logits(tune(tiny.IDS), logits_of(trained))
    out = merged(tmp_path / "hf", tmp_path / "there", tmp_path / "out")
    capsys.readouterr()
    assert_same_logits(logits_of(tiny.load(out)), logits_of(trained))


def test_names_in_memory_fit_a_base_with_images(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """PEFT calls the modules of a Gemma 3 as they are in memory: text and images have moved, each in its own way."""
    from tests.oracles.test_gemma3_vision import make

    model = make()
    model.save_pretrained(tmp_path / "base")
    trained = adapted(model, peft.LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules="all-linear"))
    trained.save_pretrained(tmp_path / "adapter")
    out = merged(tmp_path / "base", tmp_path / "adapter", tmp_path / "out")
    capsys.readouterr()
    trained.merge_and_unload().save_pretrained(tmp_path / "wanted")
    found, wanted = (load_file(folder / "model.safetensors") for folder in (out, tmp_path / "wanted"))
    assert found.keys() == wanted.keys()
    for name, tensor in wanted.items():
        assert_near(found[name], tensor)


def test_names_in_memory_fit_a_base_with_cross_attention(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """PEFT calls the modules of a Llama 3.2 Vision as they are in memory: its layers of text lie one name higher."""
    from tests.oracles import moe

    model = moe.random_model("mllama")
    model.save_pretrained(tmp_path / "base")
    trained = adapted(model, peft.LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=["q_proj", "v_proj"]))
    trained.save_pretrained(tmp_path / "adapter")
    out = merged(tmp_path / "base", tmp_path / "adapter", tmp_path / "out")
    capsys.readouterr()
    trained.merge_and_unload().save_pretrained(tmp_path / "wanted")
    found, wanted = (load_file(folder / "model.safetensors") for folder in (out, tmp_path / "wanted"))
    assert found.keys() == wanted.keys()
    for name, tensor in wanted.items():
        assert_near(found[name], tensor)
