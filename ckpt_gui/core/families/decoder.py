"""What the usual decoder is made of, so that a family's table says only what is its own.

A family lists its slots under Hugging Face's names; a `Naming` says what another program calls the parts, whether it
keeps q, k and v in one tensor, and in which order it has their rows (see `decoder_names`). Source: transformers 4.57
`modeling_llama.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

from ckpt_gui.core.families.rule_schema import Rule, Split
from ckpt_gui.core.families.schema import Ignored, Layout, Oracle, Slot, hf_layout
from ckpt_gui.core.ops import Op, RopePermute
from ckpt_gui.dataclasses import dataclass, replace

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
            if self.fused and part in FUSED:
                if part == FUSED[0]:
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
        hubs = tuple(f"{LAYER}{part}.{suffix}" for part in FUSED)
        each = tuple(map(_rows, FUSED)) if pairs else ()
        return Rule(f"{self.layers}{self.fused}.{suffix}", hubs, split=Split((Q, KV, KV)), each=each)


FUSED = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
_HEADS = {"self_attn.q_proj": "heads", "self_attn.k_proj": "kv_heads"}


def _rows(part: str) -> tuple[Op, ...]:
    """Return what brings the rows of q and k from Meta's order into Hugging Face's."""
    return (RopePermute(_HEADS[part]),) if part in _HEADS else ()


def hugging_face(slots: tuple[Slot, ...], source: str) -> Layout:
    """Return the hub as a layout, as transformers itself writes it."""
    return replace(hf_layout(slots, HF_IGNORED, source), oracle=Oracle.SAVED)
