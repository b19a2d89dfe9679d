"""GPT-2, and nanoGPT, which has the same names and stores the four matrices of a layer the other way round.

Hugging Face's Conv1D keeps a weight as inputs × outputs, nanoGPT's Linear as outputs × inputs; only the shapes tell
which it is. nanoGPT trains without biases unless it is told to; Hugging Face has no such GPT-2. Sources: transformers
4.57 `modeling_gpt2.py`, `pytorch_utils.py`; nanoGPT `model.py` (`from_pretrained`).
"""

from __future__ import annotations

from ckpt_gui.core.families.rule_schema import Rule
from ckpt_gui.core.families.schema import Family, Ignored, Layout, Oracle, Slot, hf_layout
from ckpt_gui.core.shape_ops import Transpose
from ckpt_gui.dataclasses import replace

_L, _H, _F = "transformer.h.{layer}.", "hidden", "ffn"
# The matrices as Hugging Face has them: (name, inputs, outputs).
_MATRICES = (
    ("attn.c_attn", _H, "3*hidden"),
    ("attn.c_proj", _H, _H),
    ("mlp.c_fc", _H, _F),
    ("mlp.c_proj", _F, _H),
)
_NORMS = ("ln_1", "ln_2")
_MASK = "holds the causal mask, which every program makes by itself"

SLOTS = (
    Slot("transformer.wte.weight", ("vocab", _H), role="embedding"),
    Slot("transformer.wpe.weight", ("positions", _H)),
    *(Slot(f"{_L}{name}.weight", (_H,)) for name in _NORMS),
    *(Slot(f"{_L}{name}.bias", (_H,), when="biases") for name in _NORMS),
    *(Slot(f"{_L}{name}.weight", (ins, outs)) for name, ins, outs in _MATRICES),
    *(Slot(f"{_L}{name}.bias", (outs,), when="biases") for name, _, outs in _MATRICES),
    Slot("transformer.ln_f.weight", (_H,)),
    Slot("transformer.ln_f.bias", (_H,), when="biases"),
    Slot("lm_head.weight", ("vocab", _H), role="head"),
)
_MASKS = (Ignored(_L + "attn.bias", _MASK, normal=True), Ignored(_L + "attn.masked_bias", _MASK, normal=True))
_TURNED = {f"{_L}{name}.weight" for name, _, _ in _MATRICES}

FAMILIES = (
    Family(
        "gpt2",
        "GPT-2",
        ("gpt2",),
        "GPT2LMHeadModel",
        SLOTS,
        (
            replace(
                hf_layout(SLOTS, _MASKS, source="transformers 4.57 modeling_gpt2", oracle=Oracle.SAVED),
                always=("biases",),
            ),
            Layout(
                "nanogpt",
                tuple(Rule(s.key, s.key, (Transpose(),) if s.key in _TURNED else ()) for s in SLOTS),
                _MASKS,
                head_always=True,
                source="nanoGPT model.py",
                oracle=Oracle.DERIVED,
            ),
        ),
        tie_default=True,
        source="transformers 4.57 configuration_gpt2",
    ),
)
