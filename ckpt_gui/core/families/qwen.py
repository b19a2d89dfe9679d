"""Qwen 2 and 2.5, and Qwen 3: dense models.

Qwen 2 has biases on q, k and v, Qwen 3 norms of the heads of q and k instead. torchtune and torchtitan keep the rows of
both in Hugging Face's order. Sources: transformers 4.57 `modeling_qwen2.py`, `modeling_qwen3.py`; torchtune 0.6.1
`models/qwen2/_convert_weights.py`, and its later `models/qwen3/_convert_weights.py`; litgpt 0.5.11
`scripts/convert_hf_checkpoint.py`; torchtitan `models/qwen3/state_dict_adapter.py`.
"""

from __future__ import annotations

from ckpt_gui.core.families.decoder import (
    ATTENTION,
    EMBEDDING,
    FINAL_NORM,
    GATED_MLP,
    HEAD,
    HEAD_NORMS,
    QKV,
    biases,
    hugging_face,
    norm,
)
from ckpt_gui.core.families.decoder_names import LITGPT, TORCHTITAN, TORCHTITAN_OLD, TORCHTUNE
from ckpt_gui.core.families.schema import Family, Oracle
from ckpt_gui.dataclasses import replace

_AROUND = (norm("post_attention_layernorm"), *GATED_MLP, FINAL_NORM, HEAD)
QWEN2 = (EMBEDDING, norm("input_layernorm"), *ATTENTION, *biases(QKV), *_AROUND)
QWEN3 = (EMBEDDING, norm("input_layernorm"), *ATTENTION, *biases(ATTENTION, "attention_bias"), *HEAD_NORMS, *_AROUND)
_QWEN3_PLAIN = tuple(s for s in QWEN3 if not s.when)
_TITAN = "torchtitan models/qwen3/state_dict_adapter.py"
_ROW_ORDER = (("hf", "halves"), ("torchtune", "halves"), ("litgpt", "halves"))

FAMILIES = (
    Family(
        "qwen2",
        "Qwen 2",
        ("qwen2",),
        "Qwen2ForCausalLM",
        QWEN2,
        (
            hugging_face(QWEN2, "transformers 4.57 modeling_qwen2"),
            replace(
                TORCHTUNE.of(
                    QWEN2, pairs=False, oracle=Oracle.LOADED, source="torchtune 0.6.1 models/qwen2/_convert_weights.py"
                ),
                program_type="QWEN2",
            ),
            LITGPT.of(QWEN2, pairs=False, oracle=Oracle.LOADED, source="litgpt 0.5.11 copy_weights_qwen_2_5"),
        ),
        tie_default=False,
        row_order=_ROW_ORDER,
        source="transformers 4.57 configuration_qwen2",
    ),
    Family(
        "qwen3",
        "Qwen 3",
        ("qwen3",),
        "Qwen3ForCausalLM",
        QWEN3,
        (
            hugging_face(QWEN3, "transformers 4.57 modeling_qwen3"),
            replace(
                TORCHTUNE.of(
                    QWEN3, pairs=False, oracle=Oracle.DERIVED, source="torchtune main models/qwen3/_convert_weights.py"
                ),
                program_type="QWEN3",
            ),
            LITGPT.of(QWEN3, pairs=False, oracle=Oracle.LOADED, source="litgpt 0.5.11 copy_weights_qwen_3"),
            TORCHTITAN.of(_QWEN3_PLAIN, pairs=False, oracle=Oracle.DERIVED, source=_TITAN),
            TORCHTITAN_OLD.of(_QWEN3_PLAIN, pairs=False, oracle=Oracle.DERIVED, source=_TITAN),
        ),
        tie_default=False,
        row_order=(*_ROW_ORDER, ("torchtitan", "halves"), ("torchtitan-old", "halves")),
        source="transformers 4.57 configuration_qwen3",
    ),
)
