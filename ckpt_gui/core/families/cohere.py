"""Cohere's Command R: one norm a layer, for attention and feed-forward part together, and tied unless told otherwise.

Larger ones have norms of each head of q and k by itself; the second series (Command R7B, Command A) has none, and
layers with a window. Their rotary embedding turns neighbouring rows in Hugging Face's own files too: there is no other
order to convert to. Sources: transformers 4.57 `modeling_cohere.py`, `modeling_cohere2.py`, `configuration_cohere2.py`.
"""

from __future__ import annotations

from ckpt_gui.core.families.decoder import (
    ATTENTION,
    EMBEDDING,
    FINAL_NORM,
    GATED_MLP,
    HEAD,
    LAYER,
    biases,
    hugging_face,
    norm,
)
from ckpt_gui.core.families.schema import Family, Slot

SLOTS = (
    EMBEDDING,
    norm("input_layernorm"),
    *ATTENTION,
    *biases(ATTENTION, "attention_bias"),
    Slot(LAYER + "self_attn.q_norm.weight", ("heads", "head_dim"), when="use_qk_norm"),
    Slot(LAYER + "self_attn.k_norm.weight", ("kv_heads", "head_dim"), when="use_qk_norm"),
    *GATED_MLP,
    FINAL_NORM,
    HEAD,
)

SLOTS2 = tuple(slot for slot in SLOTS if slot.when != "use_qk_norm")

FAMILIES = (
    Family(
        "cohere",
        "Cohere Command R",
        ("cohere",),
        "CohereForCausalLM",
        SLOTS,
        (hugging_face(SLOTS, "transformers 4.57 modeling_cohere"),),
        tie_default=True,
        row_order=(("hf", "pairs"),),
        source="transformers 4.57 configuration_cohere",
    ),
    Family(
        "cohere2",
        "Cohere Command A",
        ("cohere2",),
        "Cohere2ForCausalLM",
        SLOTS2,
        (hugging_face(SLOTS2, "transformers 4.57 modeling_cohere2"),),
        tie_default=True,
        row_order=(("hf", "pairs"),),
        source="transformers 4.57 configuration_cohere2",
    ),
)
