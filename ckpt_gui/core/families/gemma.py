"""Gemma 1, 2 and 3, text models.

All are tied unless their config says otherwise. A norm's weight is stored as its distance from one, in Hugging Face's,
torchtune's and litgpt's files alike, so nothing is added anywhere. Gemma 1 has a Llama's names; 2 and 3 have a norm
before and after each part of a layer, and `post_attention_layernorm` means another one than in Gemma 1.
Sources: transformers 4.57 `modeling_gemma{,2,3}.py`; torchtune `models/gemma2/_convert_weights.py` as corrected by its
change 2853 (0.6.1 takes the two norms of the feed-forward part for each other); litgpt 0.5.11
`scripts/convert_hf_checkpoint.py`; google/gemma_pytorch `gemma/model.py`.
"""

from __future__ import annotations

from ckpt_gui.core.families.decoder import (
    ATTENTION,
    EMBEDDING,
    FINAL_NORM,
    GATED_MLP,
    HEAD,
    HEAD_NORMS,
    biases,
    hugging_face,
    norm,
)
from ckpt_gui.core.families.decoder_names import GOOGLE, LITGPT, LITGPT_FOUR_NORMS, TORCHTUNE
from ckpt_gui.core.families.schema import Family, Layout, Oracle, Slot
from ckpt_gui.dataclasses import replace

_LINEAR = (*ATTENTION, *biases(ATTENTION, "attention_bias"))
_FOUR_NORMS = (
    norm("input_layernorm"),
    norm("post_attention_layernorm"),
    norm("pre_feedforward_layernorm"),
    norm("post_feedforward_layernorm"),
)
GEMMA = (
    EMBEDDING,
    norm("input_layernorm"),
    *_LINEAR,
    norm("post_attention_layernorm"),
    *GATED_MLP,
    FINAL_NORM,
    HEAD,
)
GEMMA2 = (EMBEDDING, *_FOUR_NORMS, *_LINEAR, *GATED_MLP, FINAL_NORM, HEAD)
GEMMA3 = (EMBEDDING, *_FOUR_NORMS, *_LINEAR, *HEAD_NORMS, *GATED_MLP, FINAL_NORM, HEAD)
_TORCHTUNE2 = {
    "post_attention_layernorm": "sa_scale",
    "pre_feedforward_layernorm": "mlp_norm",
    "post_feedforward_layernorm": "mlp_scale",
    "model.norm": "norm.rms_norm",
}
# As torchtune 0.6.1's own converter has them, in both directions.
_TORCHTUNE2_MIXED = _TORCHTUNE2 | {"pre_feedforward_layernorm": "mlp_scale", "post_feedforward_layernorm": "mlp_norm"}
_ROW_ORDER = (("hf", "halves"), ("torchtune", "pairs"), ("litgpt", "halves"), ("google", "halves"))


def _google(slots: tuple[Slot, ...]) -> Layout:
    """Return Google's own layout, which has no biases and ties always."""
    made = GOOGLE.of(tuple(s for s in slots if not s.when), pairs=False, oracle=Oracle.DERIVED)
    return replace(made, always_ties=True)


_SWAPPED = (
    "torchtune 0.6.1 takes the two norms of a Gemma 2's feed-forward part for each other when it converts from Hugging "
    "Face; whether it made this file, neither names nor shapes tell. They are taken as its model computes with them.",
    "If torchtune 0.6.1 converted it, --from torchtune-0.6.1 puts them right; --against the original tells.",
)

FAMILIES = (
    Family(
        "gemma",
        "Gemma",
        ("gemma",),
        "GemmaForCausalLM",
        GEMMA,
        (
            hugging_face(GEMMA, "transformers 4.57 modeling_gemma"),
            replace(TORCHTUNE.of(GEMMA, pairs=True, oracle=Oracle.LOADED), program_type="GEMMA", always_ties=True),
            LITGPT.of(GEMMA, pairs=False, oracle=Oracle.LOADED),
            _google(GEMMA),
        ),
        tie_default=True,
        row_order=_ROW_ORDER,
        source="transformers 4.57 configuration_gemma",
    ),
    Family(
        "gemma2",
        "Gemma 2",
        ("gemma2",),
        "Gemma2ForCausalLM",
        GEMMA2,
        (
            hugging_face(GEMMA2, "transformers 4.57 modeling_gemma2"),
            replace(
                TORCHTUNE.of(
                    GEMMA2,
                    pairs=True,
                    oracle=Oracle.LOADED,
                    parts=_TORCHTUNE2,
                    source="torchtune change 2853 models/gemma2/_convert_weights.py",
                ),
                program_type="GEMMA2",
                always_ties=True,
                caution=_SWAPPED,
            ),
            LITGPT.of(
                GEMMA2,
                pairs=False,
                oracle=Oracle.LOADED,
                parts=LITGPT_FOUR_NORMS,
                source="litgpt 0.5.11 copy_weights_gemma_2",
            ),
            _google(GEMMA2),
            replace(
                TORCHTUNE.of(
                    GEMMA2,
                    pairs=True,
                    oracle=Oracle.CONVERTER,
                    parts=_TORCHTUNE2_MIXED,
                    source="torchtune 0.6.1 models/gemma2/_convert_weights.py",
                ),
                name="torchtune-0.6.1",
                program_type="GEMMA2",
                always_ties=True,
            ),
        ),
        tie_default=True,
        row_order=(*_ROW_ORDER, ("torchtune-0.6.1", "pairs")),
        source="transformers 4.57 configuration_gemma2",
    ),
    Family(
        "gemma3",
        "Gemma 3",
        ("gemma3_text",),
        "Gemma3ForCausalLM",
        GEMMA3,
        (
            hugging_face(GEMMA3, "transformers 4.57 modeling_gemma3"),
            LITGPT.of(
                GEMMA3,
                pairs=False,
                oracle=Oracle.LOADED,
                parts=LITGPT_FOUR_NORMS,
                source="litgpt 0.5.11 copy_weights_gemma_3",
            ),
            _google(GEMMA3),
        ),
        tie_default=True,
        row_order=(("hf", "halves"), ("litgpt", "halves"), ("google", "halves")),
        source="transformers 4.57 configuration_gemma3",
    ),
)
