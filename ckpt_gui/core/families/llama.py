"""Llama 1 to 3.3, and Mistral, which has the same tensors.

Sources: Meta `llama3/llama/model.py`; transformers `modeling_llama.py`, `convert_llama_weights_to_hf.py`; torchtune
`models/convert_weights.py`; mistral-inference `transformer.py`.
"""

from __future__ import annotations

from ckpt_gui.core.families.schema import BY_SHAPE, Family, Ignored, Layout, Rule, Slot, hf_layout
from ckpt_gui.core.ops import RopePermute

_L = "model.layers.{layer}."
_Q, _KV, _H, _F = "heads*head_dim", "kv_heads*head_dim", "hidden", "ffn"

SLOTS = (
    Slot("model.embed_tokens.weight", ("vocab", _H), role="embedding"),
    Slot(_L + "input_layernorm.weight", (_H,)),
    Slot(_L + "self_attn.q_proj.weight", (_Q, _H)),
    Slot(_L + "self_attn.k_proj.weight", (_KV, _H)),
    Slot(_L + "self_attn.v_proj.weight", (_KV, _H)),
    Slot(_L + "self_attn.o_proj.weight", (_H, _Q)),
    Slot(_L + "self_attn.q_proj.bias", (_Q,), when="attention_bias"),
    Slot(_L + "self_attn.k_proj.bias", (_KV,), when="attention_bias"),
    Slot(_L + "self_attn.v_proj.bias", (_KV,), when="attention_bias"),
    Slot(_L + "self_attn.o_proj.bias", (_H,), when="attention_bias"),
    Slot(_L + "post_attention_layernorm.weight", (_H,)),
    Slot(_L + "mlp.gate_proj.weight", (_F, _H)),
    Slot(_L + "mlp.up_proj.weight", (_F, _H)),
    Slot(_L + "mlp.down_proj.weight", (_H, _F)),
    Slot(_L + "mlp.gate_proj.bias", (_F,), when="mlp_bias"),
    Slot(_L + "mlp.up_proj.bias", (_F,), when="mlp_bias"),
    Slot(_L + "mlp.down_proj.bias", (_H,), when="mlp_bias"),
    Slot("model.norm.weight", (_H,)),
    Slot("lm_head.weight", ("vocab", _H), role="head"),
)

# Parts of a layer by their hub name: (hub, Meta, torchtune). q and k change their row order on the way to the hub.
_PARTS = (
    ("input_layernorm.weight", "attention_norm.weight", "sa_norm.scale"),
    ("self_attn.q_proj.weight", "attention.wq.weight", "attn.q_proj.weight"),
    ("self_attn.k_proj.weight", "attention.wk.weight", "attn.k_proj.weight"),
    ("self_attn.v_proj.weight", "attention.wv.weight", "attn.v_proj.weight"),
    ("self_attn.o_proj.weight", "attention.wo.weight", "attn.output_proj.weight"),
    ("self_attn.q_proj.bias", "attention.wq.bias", "attn.q_proj.bias"),
    ("self_attn.k_proj.bias", "attention.wk.bias", "attn.k_proj.bias"),
    ("self_attn.v_proj.bias", "attention.wv.bias", "attn.v_proj.bias"),
    ("self_attn.o_proj.bias", "attention.wo.bias", "attn.output_proj.bias"),
    ("post_attention_layernorm.weight", "ffn_norm.weight", "mlp_norm.scale"),
    ("mlp.gate_proj.weight", "feed_forward.w1.weight", "mlp.w1.weight"),
    ("mlp.up_proj.weight", "feed_forward.w3.weight", "mlp.w3.weight"),
    ("mlp.down_proj.weight", "feed_forward.w2.weight", "mlp.w2.weight"),
    ("mlp.gate_proj.bias", "feed_forward.w1.bias", "mlp.w1.bias"),
    ("mlp.up_proj.bias", "feed_forward.w3.bias", "mlp.w3.bias"),
    ("mlp.down_proj.bias", "feed_forward.w2.bias", "mlp.w2.bias"),
)
_PERMUTED = {"self_attn.q_proj": (RopePermute("heads"),), "self_attn.k_proj": (RopePermute("kv_heads"),)}


def _rules(column: int, norm: str) -> tuple[Rule, ...]:
    """Return the rules of the layout in one column of `_PARTS`."""
    layers = tuple(
        Rule("layers.{layer}." + part[column], _L + part[0], _PERMUTED.get(part[0].rpartition(".")[0], ()))
        for part in _PARTS
    )
    return (
        Rule("tok_embeddings.weight", "model.embed_tokens.weight"),
        *layers,
        Rule(norm, "model.norm.weight"),
        Rule("output.weight", "lm_head.weight"),
    )


_COMPUTED = "holds the rotary frequencies, which every program computes by itself"

HF = hf_layout(
    SLOTS,
    (Ignored(_L + "self_attn.rotary_emb.inv_freq", _COMPUTED), Ignored("model.rotary_emb.inv_freq", _COMPUTED)),
    source="transformers 4.57 modeling_llama",
)
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
META = Layout(
    "meta",
    _rules(1, "norm.weight"),
    (Ignored("rope.freqs", _COMPUTED, normal=True), Ignored("freqs_cis", _COMPUTED)),
    head_always=True,
    source="meta-llama/llama3 model.py",
    rank_dims=META_RANKS,
)
TORCHTUNE = Layout(
    "torchtune",
    _rules(2, "norm.scale"),
    (
        Ignored("layers.{layer}.attn.pos_embeddings.theta", _COMPUTED),
        Ignored("layers.{layer}.attn.pos_embeddings.cache", _COMPUTED),
    ),
    source="torchtune 0.6.1 models/convert_weights.py",
)
# What transformers assumes of a Llama; written only where no source config says more.
_DEFAULTS = (("hidden_act", "silu"), ("attention_bias", False), ("mlp_bias", False))
_ROW_ORDER = (("hf", "halves"), ("meta", "pairs"), ("torchtune", "pairs"))

FAMILIES = (
    Family(
        "llama",
        "Llama",
        ("llama",),
        "LlamaForCausalLM",
        SLOTS,
        (HF, META, TORCHTUNE),
        tie_default=False,
        row_order=_ROW_ORDER,
        defaults=_DEFAULTS,
        source="transformers 4.57 configuration_llama",
    ),
    Family(
        "mistral",
        "Mistral",
        ("mistral",),
        "MistralForCausalLM",
        tuple(s for s in SLOTS if not s.when),
        tuple(
            Layout(
                layout.name,
                tuple(r for r in layout.rules if not r.hubs[0].endswith(".bias")),
                layout.ignored,
                layout.head_always,
                layout.source,
                tuple(row for row in layout.rank_dims if not row[0].endswith(".bias")),
            )
            for layout in (HF, META, TORCHTUNE)
        ),
        tie_default=False,
        row_order=_ROW_ORDER,
        defaults=_DEFAULTS,
        source="transformers 4.57 configuration_mistral",
    ),
)
