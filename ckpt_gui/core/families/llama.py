"""Llama 1 to 3.3, and Mistral, which has the same tensors.

Sources: Meta `llama3/llama/model.py`; transformers `modeling_llama.py`, `convert_llama_weights_to_hf.py`; torchtune
`models/convert_weights.py`; mistral-inference `transformer.py`.
"""

from __future__ import annotations

from ckpt_gui.core.families.decoder import ATTENTION, EMBEDDING, FINAL_NORM, GATED_MLP, HEAD, biases, hugging_face, norm
from ckpt_gui.core.families.decoder_names import GPT_FAST, LITGPT, META, TORCHTITAN, TORCHTUNE
from ckpt_gui.core.families.schema import Family, Oracle
from ckpt_gui.dataclasses import replace

SLOTS = (
    EMBEDDING,
    norm("input_layernorm"),
    *ATTENTION,
    *biases(ATTENTION, "attention_bias"),
    norm("post_attention_layernorm"),
    *GATED_MLP,
    *biases(GATED_MLP, "mlp_bias"),
    FINAL_NORM,
    HEAD,
)
_PLAIN = tuple(s for s in SLOTS if not s.when)
# What transformers assumes of a Llama; written only where no source config says more.
_DEFAULTS = (("hidden_act", "silu"), ("attention_bias", False), ("mlp_bias", False))
_ROW_ORDER = (
    ("hf", "halves"),
    ("meta", "pairs"),
    ("torchtune", "pairs"),
    ("litgpt", "halves"),
    ("gpt-fast", "pairs"),
    ("torchtitan", "pairs"),
)

FAMILIES = (
    Family(
        "llama",
        "Llama",
        ("llama",),
        "LlamaForCausalLM",
        SLOTS,
        (
            hugging_face(SLOTS, "transformers 4.57 modeling_llama"),
            META.of(SLOTS, pairs=True, oracle=Oracle.CONVERTER),
            TORCHTUNE.of(SLOTS, pairs=True, oracle=Oracle.LOADED),
            LITGPT.of(SLOTS, pairs=False, oracle=Oracle.LOADED),
            GPT_FAST.of(_PLAIN, pairs=True, oracle=Oracle.DERIVED),
            TORCHTITAN.of(_PLAIN, pairs=True, oracle=Oracle.DERIVED),
        ),
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
        _PLAIN,
        (
            hugging_face(_PLAIN, "transformers 4.57 modeling_mistral"),
            META.of(_PLAIN, pairs=True, oracle=Oracle.CONVERTER, source="mistral-inference transformer.py"),
            replace(TORCHTUNE.of(_PLAIN, pairs=True, oracle=Oracle.LOADED), program_type="MISTRAL"),
            LITGPT.of(_PLAIN, pairs=False, oracle=Oracle.LOADED),
            GPT_FAST.of(_PLAIN, pairs=True, oracle=Oracle.DERIVED),
        ),
        tie_default=False,
        row_order=_ROW_ORDER[:-1],
        defaults=_DEFAULTS,
        source="transformers 4.57 configuration_mistral",
    ),
)
