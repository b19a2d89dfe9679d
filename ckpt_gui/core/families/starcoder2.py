"""StarCoder 2: layer norms with biases, a feed-forward part without gate, and biases everywhere by default.

Source: transformers 4.57 `modeling_starcoder2.py`, `configuration_starcoder2.py`.
"""

from __future__ import annotations

from ckpt_gui.core.families.decoder import (
    ATTENTION,
    EMBEDDING,
    FINAL_NORM,
    HEAD,
    LAYER,
    F,
    H,
    biases,
    hugging_face,
    norm,
)
from ckpt_gui.core.families.schema import Family, Slot

_MLP = (Slot(LAYER + "mlp.c_fc.weight", (F, H)), Slot(LAYER + "mlp.c_proj.weight", (H, F)))
_NORMS = (norm("input_layernorm"), norm("post_attention_layernorm"))
SLOTS = (
    EMBEDDING,
    *_NORMS,
    *biases(_NORMS),
    *ATTENTION,
    *biases(ATTENTION, "use_bias"),
    *_MLP,
    *biases(_MLP, "use_bias"),
    FINAL_NORM,
    *biases((FINAL_NORM,)),
    HEAD,
)

FAMILIES = (
    Family(
        "starcoder2",
        "StarCoder 2",
        ("starcoder2",),
        "Starcoder2ForCausalLM",
        SLOTS,
        (hugging_face(SLOTS, "transformers 4.57 modeling_starcoder2"),),
        tie_default=True,
        row_order=(("hf", "halves"),),
        source="transformers 4.57 configuration_starcoder2",
    ),
)
