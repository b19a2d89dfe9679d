"""What other programs call the parts of the usual decoder: a `Naming` each, with what it was taken from.

Sources: Meta llama3 `model.py`; torchtune 0.6.1 `models/convert_weights.py`; litgpt 0.5.11
`scripts/convert_hf_checkpoint.py`; gpt-fast `scripts/convert_hf_checkpoint.py`; torchtitan
`models/llama3/state_dict_adapter.py`; google/gemma_pytorch `gemma/model.py`.
"""

from __future__ import annotations

from ckpt_gui.core.families.decoder import CACHED, COMPUTED, FUSED, LAYER, Naming
from ckpt_gui.core.families.schema import BY_SHAPE, Ignored
from ckpt_gui.dataclasses import replace

_META_TOP = {"model.embed_tokens": "tok_embeddings", "model.norm": "norm", "lm_head": "output"}
_META_PARTS = {
    "input_layernorm": "attention_norm",
    "self_attn.q_proj": "attention.wq",
    "self_attn.k_proj": "attention.wk",
    "self_attn.v_proj": "attention.wv",
    "self_attn.o_proj": "attention.wo",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "feed_forward.w1",
    "mlp.up_proj": "feed_forward.w3",
    "mlp.down_proj": "feed_forward.w2",
}
# Column-parallel layers are cut along their rows, row-parallel ones along their columns, and their biases not at all.
# Llama 1 and 2 cut the embedding along hidden (ParallelEmbedding), Llama 3 along the vocabulary.
_L0 = "layers.{layer}."
META_RANKS = (
    ("tok_embeddings.weight", BY_SHAPE),
    ("output.weight", 0),
    *((f"{_L0}attention.{name}.{kind}", 0) for name in ("wq", "wk", "wv") for kind in ("weight", "bias")),
    *((f"{_L0}feed_forward.{name}.{kind}", 0) for name in ("w1", "w3") for kind in ("weight", "bias")),
    (_L0 + "attention.wo.weight", 1),
    (_L0 + "feed_forward.w2.weight", 1),
)
META = Naming(
    "meta",
    "layers.{layer}.",
    _META_TOP,
    _META_PARTS,
    ignored=(Ignored("rope.freqs", COMPUTED, normal=True), Ignored("freqs_cis", COMPUTED)),
    head_always=True,
    source="meta-llama/llama3 model.py",
    ranks=META_RANKS,
)
TORCHTUNE = Naming(
    "torchtune",
    "layers.{layer}.",
    _META_TOP,
    {
        "input_layernorm": "sa_norm",
        "self_attn.q_proj": "attn.q_proj",
        "self_attn.k_proj": "attn.k_proj",
        "self_attn.v_proj": "attn.v_proj",
        "self_attn.o_proj": "attn.output_proj",
        "self_attn.q_norm": "attn.q_norm",
        "self_attn.k_norm": "attn.k_norm",
        "post_attention_layernorm": "mlp_norm",
        "mlp.gate_proj": "mlp.w1",
        "mlp.up_proj": "mlp.w3",
        "mlp.down_proj": "mlp.w2",
    },
    norm_suffix="scale",
    ignored=(
        Ignored("layers.{layer}.attn.pos_embeddings.theta", COMPUTED),
        Ignored("layers.{layer}.attn.pos_embeddings.cache", COMPUTED),
    ),
    source="torchtune 0.6.1 models/convert_weights.py",
)
LITGPT = Naming(
    "litgpt",
    "transformer.h.{layer}.",
    {"model.embed_tokens": "transformer.wte", "model.norm": "transformer.ln_f", "lm_head": "lm_head"},
    {
        "input_layernorm": "norm_1",
        "self_attn.o_proj": "attn.proj",
        "self_attn.q_norm": "attn.norm_q",
        "self_attn.k_norm": "attn.norm_k",
        "post_attention_layernorm": "norm_2",
        "mlp.gate_proj": "mlp.fc_1",
        "mlp.up_proj": "mlp.fc_2",
        "mlp.down_proj": "mlp.proj",
    },
    fused="attn.qkv",
    ignored=(
        Ignored("cos", COMPUTED),
        Ignored("sin", COMPUTED),
        Ignored("mask_cache", CACHED),
        Ignored("transformer.h.{layer}.attn.kv_cache.k", CACHED),
        Ignored("transformer.h.{layer}.attn.kv_cache.v", CACHED),
    ),
    head_always=True,
    source="litgpt 0.5.11 scripts/convert_hf_checkpoint.py copy_weights_hf_llama",
)
# Around a layer's attention and feed-forward part stand four norms; the second name means the one after the attention.
LITGPT_FOUR_NORMS = {
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "norm_2",
    "post_feedforward_layernorm": "post_mlp_norm",
}
GPT_FAST = Naming(
    "gpt-fast",
    "layers.{layer}.",
    _META_TOP,
    {k: v for k, v in _META_PARTS.items() if k not in FUSED},
    fused="attention.wqkv",
    ignored=(
        Ignored("freqs_cis", COMPUTED),
        Ignored("causal_mask", CACHED),
        Ignored("layers.{layer}.attention.kv_cache.k_cache", CACHED),
        Ignored("layers.{layer}.attention.kv_cache.v_cache", CACHED),
    ),
    head_always=True,
    source="gpt-fast scripts/convert_hf_checkpoint.py",
)
_TITAN_PARTS = {
    **{name: part.replace("attention.w", "attention.qkv_linear.w") for name, part in _META_PARTS.items()},
    "self_attn.o_proj": "attention.wo",
    "self_attn.q_norm": "attention.q_norm",
    "self_attn.k_norm": "attention.k_norm",
}
TORCHTITAN = Naming(
    "torchtitan",
    "layers.{layer}.",
    {**_META_TOP, "lm_head": "lm_head"},
    _TITAN_PARTS,
    ignored=(Ignored("freqs_cis", COMPUTED), Ignored("rope.cache", COMPUTED)),
    head_always=True,
    source="torchtitan models/llama3/state_dict_adapter.py",
)
# As torchtitan called them before; a Llama's are Meta's.
TORCHTITAN_OLD = replace(
    TORCHTITAN,
    layout="torchtitan-old",
    top=_META_TOP,
    parts={**_META_PARTS, "self_attn.q_norm": "attention.q_norm", "self_attn.k_norm": "attention.k_norm"},
    ignored=(*TORCHTITAN.ignored, Ignored("rope_cache", COMPUTED)),
)
# Google's own Gemma has Hugging Face's names for most parts, and never a head.
GOOGLE = Naming(
    "google",
    LAYER,
    {"model.embed_tokens": "embedder", "model.norm": "model.norm"},
    {
        **{part: part for part in ("self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")},
        **{f"{part}_layernorm": f"{part}_layernorm" for part in ("input", "post_attention")},
        **{f"{part}_feedforward_layernorm": f"{part}_feedforward_layernorm" for part in ("pre", "post")},
        "self_attn.q_norm": "self_attn.query_norm",
        "self_attn.k_norm": "self_attn.key_norm",
    },
    fused="self_attn.qkv_proj",
    ignored=tuple(
        Ignored(name, COMPUTED, normal=True) for name in ("freqs_cis", "local_freqs_cis", "global_freqs_cis")
    ),
    source="google/gemma_pytorch gemma/model.py",
)
