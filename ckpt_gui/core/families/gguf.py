"""How llama.cpp names the tensors of some families in GGUF files: read and turned into the hub, never written.

Only families whose values it leaves as they are, but for the rows of q and k, which a `llama` has in Meta's order.
Sources: gguf-py `tensor_mapping.py` (names), llama.cpp `convert_hf_to_gguf.py` (`LlamaModel.permute`; none for Qwen).
"""

from __future__ import annotations

from ckpt_gui.core.families.decoder import Naming
from ckpt_gui.core.families.registry import BY_NAME
from ckpt_gui.core.families.schema import Family, Ignored, Layout
from ckpt_gui.dataclasses import replace

NAME = "gguf"
ROPE_FACTORS = "rope_freqs.weight"
_NAMES = Naming(
    NAME,
    "blk.{layer}.",
    {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"},
    {
        "input_layernorm": "attn_norm",
        "self_attn.q_proj": "attn_q",
        "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output",
        "self_attn.q_norm": "attn_q_norm",
        "self_attn.k_norm": "attn_k_norm",
        "post_attention_layernorm": "ffn_norm",
        "mlp.gate_proj": "ffn_gate",
        "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down",
    },
    ignored=(
        Ignored(ROPE_FACTORS, "holds factors of the rotary frequencies, which follow from the config", normal=True),
    ),
    source="gguf-py tensor_mapping.py, llama.cpp convert_hf_to_gguf.py",
)
# Architecture as GGUF names it → the families that it may be, and whether the rows of q and k are in Meta's order.
_ARCHITECTURES = {
    "llama": (("llama", "mistral"), True),
    "qwen2": (("qwen2",), False),
    "qwen3": (("qwen3",), False),
}


def gguf_layout(arch: str, model_type: str | None) -> tuple[Family, Layout] | None:
    """Return the family of a GGUF architecture and the layout of its tensors; None if it is not known.

    Args:
        arch: `general.architecture` of the metadata.
        model_type: What config.json says, where there is one: GGUF calls a Mistral a Llama.
    """
    names, pairs = _ARCHITECTURES.get(arch, ((), False))
    families = [BY_NAME[name] for name in names]
    family = next((f for f in families if model_type in f.model_types), families[0] if families else None)
    if family is None:
        return None
    order = "pairs" if pairs else "halves"
    return replace(family, row_order=(*family.row_order, (NAME, order))), _NAMES.of(family.slots, pairs=pairs)


def known_architectures() -> tuple[str, ...]:
    """Return the architectures whose names are known."""
    return tuple(_ARCHITECTURES)
