"""OLMo 2: norms after the parts of a layer and none before, and norms over all heads of q and of k.

Sources: transformers 4.57 `modeling_olmo2.py`; litgpt 0.5.11 `scripts/convert_hf_checkpoint.py` and `model.py` (its way
back to Hugging Face, `convert_lit_checkpoint.py`, asks for a name that its own model does not have).
"""

from __future__ import annotations

from ckpt_gui.core.families.decoder import (
    ATTENTION,
    EMBEDDING,
    FINAL_NORM,
    GATED_MLP,
    HEAD,
    KV,
    LAYER,
    Q,
    biases,
    hugging_face,
    norm,
)
from ckpt_gui.core.families.decoder_names import LITGPT, LITGPT_FOUR_NORMS
from ckpt_gui.core.families.schema import Family, Oracle, Slot

SLOTS = (
    EMBEDDING,
    *ATTENTION,
    *biases(ATTENTION, "attention_bias"),
    Slot(LAYER + "self_attn.q_norm.weight", (Q,)),
    Slot(LAYER + "self_attn.k_norm.weight", (KV,)),
    norm("post_attention_layernorm"),
    *GATED_MLP,
    norm("post_feedforward_layernorm"),
    FINAL_NORM,
    HEAD,
)

FAMILIES = (
    Family(
        "olmo2",
        "OLMo 2",
        ("olmo2",),
        "Olmo2ForCausalLM",
        SLOTS,
        (
            hugging_face(SLOTS, "transformers 4.57 modeling_olmo2"),
            LITGPT.of(
                SLOTS,
                pairs=False,
                oracle=Oracle.LOADED,
                parts=LITGPT_FOUR_NORMS,
                source="litgpt 0.5.11 copy_weights_olmo2",
            ),
        ),
        tie_default=False,
        row_order=(("hf", "halves"), ("litgpt", "halves")),
        source="transformers 4.57 configuration_olmo2",
        scaling_kind="type",
    ),
)
