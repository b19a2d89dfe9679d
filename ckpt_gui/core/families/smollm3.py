"""SmolLM 3: a Llama whose every fourth layer has no rotary embedding, which its tensors do not show.

Source: transformers 4.57 `modeling_smollm3.py`, `configuration_smollm3.py`.
"""

from __future__ import annotations

from ckpt_gui.core.families.decoder import hugging_face
from ckpt_gui.core.families.llama import SLOTS
from ckpt_gui.core.families.schema import Family

FAMILIES = (
    Family(
        "smollm3",
        "SmolLM 3",
        ("smollm3",),
        "SmolLM3ForCausalLM",
        SLOTS,
        (hugging_face(SLOTS, "transformers 4.57 modeling_smollm3"),),
        tie_default=True,
        row_order=(("hf", "halves"),),
        source="transformers 4.57 configuration_smollm3",
    ),
)
