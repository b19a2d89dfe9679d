"""What torchtune, litgpt, gpt-fast and torchtitan make of the dense families is, byte for byte, what we make.

litgpt and torchtune are the real ones; gpt-fast and torchtitan are no packages, so their conversion is written here a
second time from their own sources, and its result computed with.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.oracle
pytest.importorskip("transformers")

import torch
from torch import Tensor

from ckpt_gui.cli.main import main
from tests.oracles import dense, tiny

State = dict[str, Tensor]
NORMS = ("mlp_norm", "mlp_scale")


@pytest.fixture
def saved(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder written by `save_pretrained`, of the kind that the test asks for."""
    dense.make(request.param).save_pretrained(tmp_path / "saved")
    return tmp_path / "saved"


def kinds(*names: str) -> Any:
    """Run a test for each of these tiny models."""
    return pytest.mark.parametrize("saved", names, indirect=True)


def foreign(state: State, saved: Path, folder: Path, name: str) -> Path:
    """Return a folder as another program leaves it: its own weights, and the config of the model."""
    folder.mkdir()
    torch.save(state, folder / name)
    (folder / "config.json").write_text((saved / "config.json").read_text(encoding="utf-8"), encoding="utf-8")
    return folder


def assert_back(state: State, saved: Path, folder: Path, name: str) -> None:
    """Assert that another program's file becomes the model that it was made of."""
    there = foreign(state, saved, folder, name)
    tiny.assert_clean(there)
    back = tiny.export(there, folder.with_name(f"{folder.name}-hf"))
    assert tiny.differing(tiny.read(back), tiny.read(saved)) == []
    assert tiny.logits_equal(back, saved)


# ------------------------------------------------------------------------------------------------------------ torchtune


def sizes(saved: Path) -> dict[str, Any]:
    """Return what torchtune's converters ask for."""
    config = tiny.raw_config(saved)
    heads, hidden = config["num_attention_heads"], config["hidden_size"]
    return {
        "num_heads": heads, "num_kv_heads": config["num_key_value_heads"], "dim": hidden,
        "head_dim": config.get("head_dim") or hidden // heads,
    }  # fmt: skip


def untwisted(state: State) -> State:
    """Put the two norms of Gemma 2's feed-forward part right, which torchtune 0.6.1 takes for each other."""
    swap = dict([NORMS, NORMS[::-1]])
    return {".".join(swap.get(part, part) for part in key.split(".")): value for key, value in state.items()}


def to_tune(saved: Path, state: State) -> State:
    """Convert by torchtune's own function."""
    from torchtune.models import convert_weights
    from torchtune.models.gemma2 import _convert_weights as gemma2
    from torchtune.models.qwen2 import _convert_weights as qwen2

    model_type = tiny.raw_config(saved)["model_type"]
    if model_type == "qwen2":
        tied = tiny.raw_config(saved)["tie_word_embeddings"]
        return qwen2.qwen2_hf_to_tune(state, **sizes(saved), tie_word_embeddings=tied)  # type: ignore[no-any-return]
    if model_type == "gemma2":
        return untwisted(gemma2.gemma2_hf_to_tune(state, **sizes(saved)))
    return convert_weights.hf_to_tune(state, **sizes(saved))  # type: ignore[no-any-return]


def from_tune(saved: Path, state: State) -> State:
    """Convert back by torchtune's own function."""
    from torchtune.models import convert_weights
    from torchtune.models.gemma2 import _convert_weights as gemma2
    from torchtune.models.qwen2 import _convert_weights as qwen2

    model_type = tiny.raw_config(saved)["model_type"]
    if model_type == "qwen2":
        return qwen2.qwen2_tune_to_hf(state, **sizes(saved))  # type: ignore[no-any-return]
    if model_type == "gemma2":
        return gemma2.gemma2_tune_to_hf(untwisted(state), **sizes(saved))  # type: ignore[no-any-return]
    return convert_weights.tune_to_hf(state, **sizes(saved))  # type: ignore[no-any-return]


TUNED = ("qwen2", "qwen2-tied", "gemma", "gemma2", "gemma-untied", "gemma2-untied")


@kinds(*TUNED)
def test_torchtunes_converters_agree(saved: Path, tmp_path: Path) -> None:
    pytest.importorskip("torchtune")
    out = tiny.export(saved, tmp_path / "tune", "torchtune")
    wanted = to_tune(saved, tiny.read(saved))
    assert tiny.differing(tiny.read(out), wanted) == []
    assert tiny.differing(from_tune(saved, wanted), tiny.read(saved)) == []
    assert_back(wanted, saved, tmp_path / "own", "model.pt")


@kinds("gemma2", "gemma2-untied")
def test_torchtunes_own_gemma_2_is_made_and_read(saved: Path, tmp_path: Path) -> None:
    """Its two norms are exchanged as its converter has them, both ways; told so, we get the model back."""
    pytest.importorskip("torchtune")
    from torchtune.models.gemma2 import _convert_weights as gemma2

    own = gemma2.gemma2_hf_to_tune(tiny.read(saved), **sizes(saved))
    out = tiny.export(saved, tmp_path / "tune", "torchtune-0.6.1")
    assert tiny.differing(tiny.read(out), own) == []
    there = foreign(own, saved, tmp_path / "own", "model.pt")
    assert tiny.plan_of(there, stored="torchtune-0.6.1").findings == ()
    words = ["fix", str(there), "--from", "torchtune-0.6.1", "--to", "hf", "-o", str(tmp_path / "back")]
    assert main(words) == 0
    assert tiny.differing(tiny.read(tmp_path / "back"), tiny.read(saved)) == []
    assert tiny.logits_equal(tmp_path / "back", saved)


@kinds("qwen2", "qwen2-tied", "gemma", "gemma2-uncapped")
def test_torchtune_computes_the_same(saved: Path, tmp_path: Path) -> None:
    """Its own model loads what we write, so the two norms of Gemma 2 are where its model has them.

    It caps what goes into the head where all others cap the logits: here neither is capped.
    """
    pytest.importorskip("torchtune")
    from torchtune.models import gemma, gemma2, qwen2

    config = tiny.load(saved).config
    shared = {
        "vocab_size": config.vocab_size, "num_layers": config.num_hidden_layers, "embed_dim": config.hidden_size,
        "num_heads": config.num_attention_heads, "num_kv_heads": config.num_key_value_heads, "max_seq_len": 64,
        "intermediate_dim": config.intermediate_size, "norm_eps": config.rms_norm_eps,
    }  # fmt: skip
    if config.model_type == "qwen2":
        tied = config.tie_word_embeddings
        model = qwen2.qwen2(**shared, rope_base=float(config.rope_theta), tie_word_embeddings=tied)
    elif config.model_type == "gemma":
        model = gemma.gemma(**shared, head_dim=config.head_dim)
    else:
        model = gemma2.gemma2(
            **shared, head_dim=config.head_dim, sliding_window_size=config.sliding_window,
            query_pre_attn_scalar=config.query_pre_attn_scalar, final_capping_value=1e4,
        )  # fmt: skip
    state = tiny.read(tiny.export(saved, tmp_path / "tune", "torchtune"))
    model.eval().load_state_dict(state)
    with torch.no_grad():
        found = model(dense.IDS)
    wanted = dense.logits_of(saved)
    assert (found - wanted).abs().max() <= 2e-5 * wanted.abs().max().clamp(min=1)
    if config.model_type == "gemma2":  # negative control: as torchtune 0.6.1's own converter would have it
        model.load_state_dict(untwisted(state))
        with torch.no_grad():
            assert (model(dense.IDS) - wanted).abs().max() > 0.05


# --------------------------------------------------------------------------------------------------------------- litgpt

LIT: dict[str, dict[str, Any]] = {
    "llama": {"name": "Llama"},
    "mistral": {"name": "Mistral"},
    "qwen2": {"name": "Qwen2.5-x", "attn_bias": True},
    "qwen3": {"name": "Qwen3-x", "norm_qk": True},
    "gemma": {"name": "Gemma-x", "mlp_class_name": "GemmaMLP", "scale_embeddings": True},
    "gemma2": {
        "name": "Gemma-2-x", "mlp_class_name": "GemmaMLP", "scale_embeddings": True, "post_attention_norm": True,
        "post_mlp_norm": True, "attention_logit_softcapping": 50.0, "final_logit_softcapping": 30.0,
    },
    "gemma3_text": {
        "name": "Gemma-3-x", "mlp_class_name": "GemmaMLP", "scale_embeddings": True, "post_attention_norm": True,
        "post_mlp_norm": True, "norm_qk": True,
    },
    "olmo2": {
        "name": "OLMo-2-x", "norm_qk": True, "norm_qk_type": "olmo2", "norm_1": False, "norm_2": False,
        "post_attention_norm": True, "post_mlp_norm": True,
    },
}  # fmt: skip
LIT_KINDS = (
    "llama", "llama-tied", "mistral", "qwen2", "qwen2-tied", "qwen3", "qwen3-tied", "gemma", "gemma2", "gemma3",
    "olmo2", "olmo2-tied",
)  # fmt: skip


def lit_config(saved: Path) -> Any:
    """Return litgpt's config of a model."""
    from litgpt import Config

    config = tiny.load(saved).config
    local = config.model_type == "gemma3_text"
    windows = [int(kind == "sliding_attention") for kind in getattr(config, "layer_types", None) or []]
    sliding = config.model_type in ("gemma2", "gemma3_text")
    rope = getattr(config, "rope_parameters", None) or config.to_dict()  # in version 5, by kind of layer if need be
    full, near = rope.get("full_attention", rope), rope.get("sliding_attention", {})
    return Config(
        **{"mlp_class_name": "LLaMAMLP", **LIT[config.model_type]},
        n_layer=config.num_hidden_layers, n_embd=config.hidden_size, n_head=config.num_attention_heads,
        n_query_groups=config.num_key_value_heads, intermediate_size=config.intermediate_size, bias=False,
        head_size=getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads,
        vocab_size=config.vocab_size, padded_vocab_size=config.vocab_size, norm_class_name="RMSNorm",
        norm_eps=config.rms_norm_eps, parallel_residual=False, rotary_percentage=1.0, block_size=64,
        gelu_approximate="tanh", rope_base=full["rope_theta"],
        attention_scores_scalar=config.query_pre_attn_scalar if sliding else None,
        sliding_window_size=config.sliding_window if sliding else None,
        sliding_window_indices=windows if sliding else None,
        rope_indices=windows if local else None,
        rope_local_base_freq=near.get("rope_theta") or config.rope_local_base_freq if local else None,
    )  # fmt: skip


def to_lit(saved: Path, state: State) -> State:
    """Convert by litgpt's own function, chosen as its script chooses."""
    from litgpt.scripts import convert_hf_checkpoint as convert

    config, made = lit_config(saved), {}
    name, qkv = tiny.raw_config(saved)["model_type"], {}
    if name in ("gemma2", "gemma3_text"):
        {"gemma2": convert.copy_weights_gemma_2, "gemma3_text": convert.copy_weights_gemma_3}[name](qkv, made, state)
    else:
        own = {
            "qwen2": convert.copy_weights_qwen_2_5, "qwen3": convert.copy_weights_qwen_3,
            "olmo2": convert.copy_weights_olmo2,
        }  # fmt: skip
        own.get(name, convert.copy_weights_hf_llama)(config, qkv, made, state)
    return made


def from_lit(saved: Path, state: State) -> State:
    """Convert back by litgpt's own function; the head is left out where it is tied."""
    from litgpt.scripts import convert_lit_checkpoint as convert

    own = {
        "qwen2": convert.copy_weights_qwen_2_5, "qwen3": convert.copy_weights_qwen_3,
        "gemma2": convert.copy_weights_gemma_2, "gemma3_text": convert.copy_weights_gemma_3,
    }  # fmt: skip
    made: State = {}
    tied = "lm_head.weight" not in tiny.read(saved)
    function = own.get(tiny.raw_config(saved)["model_type"], convert.copy_weights_llama)
    function(lit_config(saved), made, state, untie_weights=tied)
    return made


@kinds(*LIT_KINDS)
def test_litgpts_converters_agree(saved: Path, tmp_path: Path) -> None:
    pytest.importorskip("litgpt")
    out = tiny.export(saved, tmp_path / "lit", "litgpt")
    wanted = to_lit(saved, tiny.read(saved))
    assert tiny.differing(tiny.read(out), wanted) == []
    if tiny.raw_config(saved)["model_type"] != "olmo2":  # its way back asks for a norm that its own model does not have
        assert tiny.differing(from_lit(saved, tiny.read(out)), tiny.read(saved)) == []
    assert_back(wanted, saved, tmp_path / "own", "lit_model.pth")
    assert_back({"model": wanted}, saved, tmp_path / "nested", "lit_model.pth")  # type: ignore[dict-item]


@kinds(*LIT_KINDS)
def test_litgpt_computes_the_same(saved: Path, tmp_path: Path) -> None:
    litgpt = pytest.importorskip("litgpt")
    model = litgpt.GPT(lit_config(saved)).eval()
    model.load_state_dict(tiny.read(tiny.export(saved, tmp_path / "lit", "litgpt")))
    with torch.no_grad():
        found = model(dense.IDS)
    wanted = dense.logits_of(saved)
    assert (found - wanted).abs().max() <= 2e-5 * wanted.abs().max().clamp(min=1)


# ------------------------------------------------------------------------------------------------ gpt-fast, torchtitan


def pairs(weight: Tensor, heads: int) -> Tensor:
    """From rows i and i + half to neighbouring rows, row by row."""
    size = len(weight) // heads
    order = [h * size + j * (size // 2) + i for h in range(heads) for i in range(size // 2) for j in (0, 1)]
    return weight[order]


def renamed(state: State, names: dict[str, str]) -> State:
    """Rename by a table of parts."""
    made = {}
    for key, value in state.items():
        for old, new in names.items():
            key = key.replace(old, new)
        made[key] = value
    return made


META = {
    "model.layers.": "layers.", "model.embed_tokens": "tok_embeddings", "model.norm": "norm", "lm_head": "output",
    "input_layernorm": "attention_norm", "post_attention_layernorm": "ffn_norm", "self_attn.": "attention.",
    "q_proj": "wq", "k_proj": "wk", "v_proj": "wv", "o_proj": "wo", "mlp.": "feed_forward.", "gate_proj": "w1",
    "down_proj": "w2", "up_proj": "w3",
}  # fmt: skip
TITAN = META | {"lm_head": "lm_head", "q_proj": "qkv_linear.wq", "k_proj": "qkv_linear.wk", "v_proj": "qkv_linear.wv"}


def with_head(state: State) -> State:
    """Add the head of a tied model."""
    return {"lm_head.weight": state["model.embed_tokens.weight"], **state}


def in_pairs(saved: Path, state: State) -> State:
    """Bring the rows of q and k into Meta's order."""
    config = tiny.raw_config(saved)
    counts = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
    parts = {key: key.split(".")[-2] for key in state}
    return {key: pairs(value, counts[parts[key]]) if parts[key] in counts else value for key, value in state.items()}


@kinds("llama", "llama-tied", "mistral")
def test_gpt_fast(saved: Path, tmp_path: Path) -> None:
    wanted = renamed(in_pairs(saved, with_head(tiny.read(saved))), META)
    for key in [k for k in wanted if k.endswith(".wq.weight")]:
        parts = [wanted.pop(key.replace("wq", name)) for name in ("wq", "wk", "wv")]
        wanted[key.replace("wq", "wqkv")] = torch.cat(parts)
    out = tiny.export(saved, tmp_path / "fast", "gpt-fast")
    assert tiny.differing(tiny.read(out), wanted) == []
    assert_back(wanted, saved, tmp_path / "own", "model.pth")


@kinds("llama", "llama-tied")
def test_torchtitan_llama(saved: Path, tmp_path: Path) -> None:
    wanted = renamed(in_pairs(saved, with_head(tiny.read(saved))), TITAN)
    out = tiny.export(saved, tmp_path / "titan", "torchtitan")
    assert tiny.differing(tiny.read(out), wanted) == []
    assert_back(wanted, saved, tmp_path / "own", "model.pt")


@kinds("qwen3", "qwen3-tied")
@pytest.mark.parametrize(("layout", "names"), [("torchtitan", TITAN), ("torchtitan-old", META)])
def test_torchtitan_qwen3(saved: Path, tmp_path: Path, layout: str, names: dict[str, str]) -> None:
    wanted = renamed(with_head(tiny.read(saved)), names)
    out = tiny.export(saved, tmp_path / "titan", layout)
    assert tiny.differing(tiny.read(out), wanted) == []
    assert_back(wanted, saved, tmp_path / "own", "model.pt")


@kinds("qwen3", "qwen3-tied")
def test_torchtune_qwen3(saved: Path, tmp_path: Path) -> None:
    """torchtune has it since 0.7, which is no release yet: its table, written a second time."""
    names = {
        "model.layers.": "layers.", "model.embed_tokens": "tok_embeddings", "model.norm.weight": "norm.scale",
        "lm_head": "output", "input_layernorm.weight": "sa_norm.scale", "_norm.weight": "_norm.scale",
        "post_attention_layernorm.weight": "mlp_norm.scale", "self_attn.": "attn.", "o_proj": "output_proj",
        "gate_proj": "w1", "down_proj": "w2", "up_proj": "w3",
    }  # fmt: skip
    wanted = renamed(tiny.read(saved), names)
    out = tiny.export(saved, tmp_path / "tune", "torchtune")
    assert tiny.differing(tiny.read(out), wanted) == []
    assert_back(wanted, saved, tmp_path / "own", "model.pt")


# --------------------------------------------------------------------------------------------------------------- Google


def google(saved: Path) -> State:
    """What Google's own files have, by its model's parameter names, written a second time."""
    state, made = tiny.read(saved), {}
    for key, value in state.items():
        if "k_proj" in key or "v_proj" in key:
            continue
        if "q_proj" in key:
            value = torch.cat([state[key.replace("q_proj", name)] for name in ("q_proj", "k_proj", "v_proj")])
        made[key] = value
    return renamed(
        made, {"model.embed_tokens": "embedder", ".q_proj": ".qkv_proj", "q_norm": "query_norm", "k_norm": "key_norm"}
    )


def google_logits(state: State, config: Any) -> Tensor:
    """The forward pass of gemma_pytorch's `model.py`, for Gemma 1 and 2."""
    two, size = config.model_type == "gemma2", config.head_dim
    heads, kv = config.num_attention_heads, config.num_key_value_heads
    length = dense.IDS.shape[1]
    angles = torch.outer(torch.arange(length), 1 / 10000 ** (torch.arange(0, size, 2) / size))
    turn = torch.polar(torch.ones_like(angles), angles)[None, :, None]

    def norm(name: str, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + config.rms_norm_eps) * (1 + state[name + ".weight"])

    def rotated(x: Tensor) -> Tensor:
        first, second = x.chunk(2, dim=-1)
        made = torch.complex(first, second) * turn
        return torch.cat((made.real, made.imag), dim=-1)

    x = state["embedder.weight"][dense.IDS] * config.hidden_size**0.5
    mask = torch.full((length, length), -1e30).triu(1)
    local = mask + torch.full((length, length), -1e30).tril(-config.sliding_window) if two else mask
    for n in range(config.num_hidden_layers):
        at = f"model.layers.{n}."
        qkv = norm(at + "input_layernorm", x) @ state[at + "self_attn.qkv_proj.weight"].T
        q, k, v = (part.unflatten(-1, (-1, size)) for part in qkv.split((heads * size, kv * size, kv * size), dim=-1))
        q, k = rotated(q), rotated(k).repeat_interleave(heads // kv, 2)
        scale = config.query_pre_attn_scalar**-0.5 if two else size**-0.5
        scores = (q.transpose(1, 2) * scale) @ k.permute(0, 2, 3, 1)
        if two:
            scores = config.attn_logit_softcapping * torch.tanh(scores / config.attn_logit_softcapping)
        scores = scores + (local if two and n % 2 == 0 else mask)
        y = (scores.softmax(-1) @ v.repeat_interleave(heads // kv, 2).transpose(1, 2)).transpose(1, 2).flatten(2)
        y = y @ state[at + "self_attn.o_proj.weight"].T
        x = x + (norm(at + "post_attention_layernorm", y) if two else y)
        y = norm(at + ("pre_feedforward_layernorm" if two else "post_attention_layernorm"), x)
        gate, up = (y @ state[f"{at}mlp.{name}_proj.weight"].T for name in ("gate", "up"))
        y = (torch.nn.functional.gelu(gate, approximate="tanh") * up) @ state[at + "mlp.down_proj.weight"].T
        x = x + (norm(at + "post_feedforward_layernorm", y) if two else y)
    logits = norm("model.norm", x) @ state["embedder.weight"].T
    cap = getattr(config, "final_logit_softcapping", None)
    return cap * torch.tanh(logits / cap) if cap else logits


@kinds("gemma", "gemma2", "gemma3")
def test_google(saved: Path, tmp_path: Path) -> None:
    out = tiny.export(saved, tmp_path / "google", "google")
    state = torch.load(out / "model.ckpt", weights_only=True)["model_state_dict"]
    assert tiny.differing(state, google(saved)) == []
    buffers = {"freqs_cis": torch.ones(4, 4, dtype=torch.complex64)}
    assert_back({"model_state_dict": {**google(saved), **buffers}}, saved, tmp_path / "own", "model.ckpt")  # type: ignore[dict-item]
    config = tiny.load(saved).config
    if config.model_type != "gemma3_text":
        wanted = dense.logits_of(saved)
        assert (google_logits(state, config) - wanted).abs().max() <= 2e-5 * wanted.abs().max().clamp(min=1)
