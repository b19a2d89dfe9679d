"""Gemma 3 with images: whichever way of naming it transformers had, ours is the hub's, which both versions load."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.oracle
pytest.importorskip("transformers")

import torch
import transformers
from safetensors.torch import save_file
from transformers import Gemma3Config, Gemma3ForConditionalGeneration

from tests.oracles import dense, tiny

TEXT = {name: size for name, size in dense.SIZES.items() if not name.endswith("_token_id")}
VISION = {
    "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 28,
    "patch_size": 14,
}  # fmt: skip
OTHERS = ("hf-v5", "hf-memory", "hf-fused")
OWN = "hf-v5" if tiny.V5 else "hf"
IN_MEMORY = "hf-fused" if tiny.V5 else "hf-memory"


def make(*, tied: bool = True, pooling: bool = False) -> Any:
    """Return a model with random norms and biases."""
    ids = {"image_token_index": 77, "boi_token_index": 78, "eoi_token_index": 79, "mm_tokens_per_image": 4}
    vision = VISION | {"vision_use_head": pooling}
    config = Gemma3Config(
        text_config=TEXT | {"tie_word_embeddings": tied}, vision_config=vision, tie_word_embeddings=tied, **ids
    )
    model = Gemma3ForConditionalGeneration(config).eval()
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(0.3 + 0.2 * torch.randn(parameter.shape, generator=generator))
    return model


def load(folder: Path) -> Any:
    """Load a folder; every key must be used and found."""
    model, info = Gemma3ForConditionalGeneration.from_pretrained(folder, output_loading_info=True)
    assert not any(info[name] for name in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    return model.eval()


def logits(model: Any) -> torch.Tensor:
    """Return the logits for fixed tokens, four of which are an image."""
    ids = torch.tensor([[3, 78, 77, 77, 77, 77, 79, 9, 2, 6, 5, 35]])
    pixels = torch.arange(3 * 28 * 28, dtype=torch.float32).reshape(1, 3, 28, 28).sin()
    with torch.no_grad():
        return model(input_ids=ids, pixel_values=pixels, token_type_ids=(ids == 77).long()).logits  # type: ignore[no-any-return]


def config_of(folder: Path) -> dict[str, Any]:
    """Return the config as this version understands it; the element type may stand at either level."""
    config = tiny.config_of(folder)
    inner = {name: value for name, value in config["text_config"].items() if "dtype" not in name}
    return config | {"text_config": inner}


@pytest.fixture(params=[(True, False), (False, False), (True, True)], ids=["tied", "untied", "pooling"])
def saved(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder written by `save_pretrained`."""
    tied, pooling = request.param
    make(tied=tied, pooling=pooling).save_pretrained(tmp_path / "saved")
    return tmp_path / "saved"


def test_what_transformers_saves_has_no_findings(saved: Path) -> None:
    plan = tiny.plan_of(saved)
    assert plan.findings == ()
    assert plan.layout is not None
    assert plan.layout.name == OWN
    assert (plan.dims["layers"], plan.dims["blocks"]) == (3, 2)


@pytest.mark.parametrize("layout", OTHERS)
def test_there_and_back(saved: Path, tmp_path: Path, layout: str) -> None:
    hub = tiny.export(saved, tmp_path / "hub")
    tiny.assert_clean(hub)
    there = tiny.export(hub, tmp_path / "there", layout)
    tiny.assert_clean(there)
    back = tiny.export(there, tmp_path / "back")
    assert tiny.differing(tiny.read(back), tiny.read(hub)) == []
    assert config_of(back) == config_of(saved)
    own = tiny.export(there, tmp_path / "own", OWN)
    assert tiny.differing(tiny.read(own), tiny.read(saved)) == []
    assert torch.equal(logits(load(back)), logits(load(saved)))


def test_both_versions_load_the_hubs_names(saved: Path, tmp_path: Path) -> None:
    hub = tiny.export(saved, tmp_path / "hub")
    assert any(key.startswith("vision_tower.vision_model.") for key in tiny.read(hub))
    assert torch.equal(logits(load(hub)), logits(load(saved)))


def test_a_state_dict_as_it_is_in_memory(saved: Path, tmp_path: Path) -> None:
    """As trainers save it that call `state_dict()` themselves."""
    model = load(saved)
    state = {key: value.clone() for key, value in model.state_dict().items()}
    if model.config.text_config.tie_word_embeddings:
        del state["lm_head.weight"]
    folder = tmp_path / "memory"
    model.config.save_pretrained(folder)
    save_file(state, folder / "model.safetensors", {"format": "pt"})
    plan = tiny.plan_of(folder)
    assert plan.findings == ()
    assert plan.layout is not None
    assert plan.layout.name == IN_MEMORY
    out = tiny.export(folder, tmp_path / "out", OWN)
    assert tiny.differing(tiny.read(out), tiny.read(saved)) == []


@pytest.mark.skipif(tiny.V5, reason="version 5 loads its own files")
def test_version_4_loses_the_encoder_of_a_file_of_version_5(saved: Path, tmp_path: Path) -> None:
    """Why `hf` has the hub's names whatever version wrote the source."""
    new = tiny.export(saved, tmp_path / "new", "hf-v5")
    _, info = Gemma3ForConditionalGeneration.from_pretrained(new, output_loading_info=True)
    assert any("vision_model" in key for key in info["missing_keys"])
    load(tiny.export(new, tmp_path / "mended"))


def test_litgpt_makes_the_same_text_model(saved: Path, tmp_path: Path) -> None:
    """What litgpt's converter skips is left out by us too; its model and ours compute the text model's logits."""
    litgpt = pytest.importorskip("litgpt")
    from litgpt.scripts import convert_hf_checkpoint as there

    model = load(saved)
    state = {key: value.clone() for key, value in model.state_dict().items()}  # the names that litgpt looks for
    if tied := model.config.text_config.tie_word_embeddings:
        state.pop("lm_head.weight", None)
    wanted: dict[str, torch.Tensor] = {}
    config = litgpt.Config(
        name="Gemma-3-x", n_layer=3, n_embd=48, n_head=6, n_query_groups=2, head_size=16, vocab_size=80,
        padded_vocab_size=80, intermediate_size=112, block_size=64, bias=False, parallel_residual=False,
        rotary_percentage=1.0, norm_class_name="RMSNorm", mlp_class_name="GemmaMLP", gelu_approximate="tanh",
        scale_embeddings=True, attention_scores_scalar=model.config.text_config.query_pre_attn_scalar, norm_qk=True,
        post_attention_norm=True, post_mlp_norm=True, norm_eps=model.config.text_config.rms_norm_eps,
    )  # fmt: skip
    with pytest.warns(UserWarning, match="only the text component"):
        there.copy_weights_gemma_3({}, wanted, state, config=config)
    out = tiny.export(saved, tmp_path / "lit", "litgpt")
    assert tiny.differing(tiny.read(out), wanted) == []
    lit = litgpt.GPT(litgpt.Config.from_file(out / "model_config.yaml")).eval()
    lit.load_state_dict(tiny.read(out))
    back = tiny.export(out, tmp_path / "back")
    text = transformers.Gemma3ForCausalLM.from_pretrained(back).eval()
    assert transformers.AutoConfig.from_pretrained(back).model_type == "gemma3_text"
    ids = torch.tensor([[3, 1, 4, 9, 2, 6]])
    with torch.no_grad():
        alone = text(ids).logits
        whole = model(input_ids=ids, token_type_ids=torch.zeros_like(ids)).logits
        theirs = lit(ids)
    assert torch.equal(alone, whole)
    assert (theirs - whole).abs().max() <= 3e-5 * whole.abs().max()
    assert ("lm_head.weight" in tiny.read(back)) is not tied
