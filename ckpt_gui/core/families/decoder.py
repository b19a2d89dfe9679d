"""What the usual decoder is made of, so that a family's table says only what is its own.

A family lists its slots under Hugging Face's names; a `Naming` says what another program calls the parts, whether it
keeps q, k and v in one tensor, and in which order it has their rows. Sources: transformers 4.57 `modeling_llama.py`;
Meta llama3 `model.py`; torchtune 0.6.1 `models/convert_weights.py`; litgpt 0.5.11 `scripts/convert_hf_checkpoint.py`;
gpt-fast `scripts/convert_hf_checkpoint.py`; torchtitan `models/llama3/state_dict_adapter.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ckpt_gui.core.families.rule_schema import Rule, Split
from ckpt_gui.core.families.schema import BY_SHAPE, Ignored, Layout, Oracle, Slot, hf_layout
from ckpt_gui.core.ops import Op, RopePermute

LAYER = "model.layers.{layer}."
Q, KV, H, F = "heads*head_dim", "kv_heads*head_dim", "hidden", "ffn"
COMPUTED = "holds the rotary frequencies, which every program computes by itself"
CACHED = "is a cache of inference, no weight"

EMBEDDING = Slot("model.embed_tokens.weight", ("vocab", H), role="embedding")
FINAL_NORM = Slot("model.norm.weight", (H,))
HEAD = Slot("lm_head.weight", ("vocab", H), role="head")
QKV = (
    Slot(LAYER + "self_attn.q_proj.weight", (Q, H)),
    Slot(LAYER + "self_attn.k_proj.weight", (KV, H)),
    Slot(LAYER + "self_attn.v_proj.weight", (KV, H)),
)
OUT = Slot(LAYER + "self_attn.o_proj.weight", (H, Q))
ATTENTION = (*QKV, OUT)
GATED_MLP = (
    Slot(LAYER + "mlp.gate_proj.weight", (F, H)),
    Slot(LAYER + "mlp.up_proj.weight", (F, H)),
    Slot(LAYER + "mlp.down_proj.weight", (H, F)),
)
# Norms of the heads of q and k, each head with the same ones.
HEAD_NORMS = (
    Slot(LAYER + "self_attn.q_norm.weight", ("head_dim",)),
    Slot(LAYER + "self_attn.k_norm.weight", ("head_dim",)),
)
HF_IGNORED = (
    Ignored(LAYER + "self_attn.rotary_emb.inv_freq", COMPUTED),
    Ignored("model.rotary_emb.inv_freq", COMPUTED),
)


def norm(name: str) -> Slot:
    """Return the slot of a norm in each layer."""
    return Slot(f"{LAYER}{name}.weight", (H,))


def biases(slots: tuple[Slot, ...], when: str = "") -> tuple[Slot, ...]:
    """Return the slots of the biases of linear layers or norms."""
    return tuple(Slot(s.key.removesuffix("weight") + "bias", s.shape[:1], when=when) for s in slots)


@dataclass(frozen=True)
class Naming:
    """What a program calls the parts of a decoder.

    Attributes:
        layout: Name of the layout.
        layers: What stands before a layer's parts.
        top: Embedding, final norm and head, without `.weight`.
        parts: Hugging Face's name of a part of a layer → its name here, without `.weight`.
        fused: Name of the tensor that holds q, k and v, without `.weight`; empty if they are three.
        norm_suffix: What a norm's weight is called.
        ignored: Known tensors that are no weights.
        head_always: True if the head is stored even when it is tied.
        source: Where the names were taken from.
        ranks: For each stored key that tensor-parallel ranks share, the dimension along which it is cut.
    """

    layout: str
    layers: str
    top: Mapping[str, str]
    parts: Mapping[str, str]
    fused: str = ""
    norm_suffix: str = "weight"
    ignored: tuple[Ignored, ...] = ()
    head_always: bool = False
    source: str = ""
    ranks: tuple[tuple[str, int], ...] = ()

    def of(
        self,
        slots: tuple[Slot, ...],
        *,
        pairs: bool,
        oracle: Oracle = Oracle.NONE,
        parts: Mapping[str, str] | None = None,
        source: str = "",
    ) -> Layout:
        """Return the layout of a family.

        Args:
            slots: The family's slots.
            pairs: True if rows of q and k lie in Meta's order.
            oracle: What it was checked against.
            parts: Names of the family's own.
            source: Where they were taken from.
        """
        names = {**self.top, **self.parts, **(parts or {})}
        rules = []
        for slot in slots:
            part, _, suffix = slot.key.removeprefix(LAYER).rpartition(".")
            if self.fused and part in _FUSED:
                if part == _FUSED[0]:
                    rules.append(self._fused_rule(suffix, pairs))
            elif part in names:
                rules.append(self._rule(slot, part, suffix, names, pairs))
        stored = {stored for rule in rules for stored in rule.storeds}
        ranks = tuple(row for row in self.ranks if row[0] in stored)
        return Layout(self.layout, tuple(rules), self.ignored, self.head_always, source or self.source, ranks, oracle)

    def _rule(self, slot: Slot, part: str, suffix: str, names: Mapping[str, str], pairs: bool) -> Rule:
        if part.endswith("norm") and suffix == "weight":
            suffix = self.norm_suffix
        before = self.layers if slot.key.startswith(LAYER) else ""
        return Rule(f"{before}{names[part]}.{suffix}", slot.key, _rows(part) if pairs else ())

    def _fused_rule(self, suffix: str, pairs: bool) -> Rule:
        hubs = tuple(f"{LAYER}{part}.{suffix}" for part in _FUSED)
        each = tuple(map(_rows, _FUSED)) if pairs else ()
        return Rule(f"{self.layers}{self.fused}.{suffix}", hubs, split=Split((Q, KV, KV)), each=each)


_FUSED = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
_HEADS = {"self_attn.q_proj": "heads", "self_attn.k_proj": "kv_heads"}


def _rows(part: str) -> tuple[Op, ...]:
    """Return what brings the rows of q and k from Meta's order into Hugging Face's."""
    return (RopePermute(_HEADS[part]),) if part in _HEADS else ()


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
    {k: v for k, v in _META_PARTS.items() if k not in _FUSED},
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


def hugging_face(slots: tuple[Slot, ...], source: str) -> Layout:
    """Return the hub as a layout, as transformers itself writes it."""
    return replace(hf_layout(slots, HF_IGNORED, source), oracle=Oracle.SAVED)
