"""Gemma 3 with an image encoder (4B and larger), whose names have changed three times.

The hub's files, and all that transformers 4 saves, have `language_model.model.` and `vision_tower.vision_model.`;
transformers 5 saves the encoder as `vision_tower.`, which version 4 does not recognise: it loads such a file with an
encoder of random numbers. In memory, and in files of programs that save a state dict as it is, both versions have
`model.language_model.` since 4.52. What is written as `hf` are the hub's names, which both load.
Sources: transformers 4.57 `modeling_gemma3.py`, `modeling_siglip.py`; transformers 5.24 `conversion_mapping.py`; files
saved by both. litgpt holds the text model alone (0.5.11 `copy_weights_gemma_3`).
"""

from __future__ import annotations

from ckpt_gui.core.families.decoder import biases
from ckpt_gui.core.families.decoder_names import LITGPT, LITGPT_FOUR_NORMS
from ckpt_gui.core.families.gemma import GEMMA3
from ckpt_gui.core.families.rule_schema import Rule
from ckpt_gui.core.families.schema import Family, Layout, Oracle, Slot, hf_layout
from ckpt_gui.dataclasses import replace

_TOWER = "vision_tower.vision_model."
_BLOCK = _TOWER + "encoder.layers.{block}."
_HEAD = _TOWER + "head."
_V, _VF = "vision_hidden", "vision_ffn"
_NORMS = tuple(Slot(f"{_BLOCK}{name}.weight", (_V,)) for name in ("layer_norm1", "layer_norm2"))
_LINEAR = (
    *(Slot(f"{_BLOCK}self_attn.{name}_proj.weight", (_V, _V)) for name in ("q", "k", "v", "out")),
    Slot(_BLOCK + "mlp.fc1.weight", (_VF, _V)),
    Slot(_BLOCK + "mlp.fc2.weight", (_V, _VF)),
)
_PATCHES = Slot(_TOWER + "embeddings.patch_embedding.weight", (_V, "channels", "patch", "patch"))
_LAST = Slot(_TOWER + "post_layernorm.weight", (_V,))
# Pools the image's parts; Gemma's own files have none, a config that does not say so brings one.
_POOLING = (
    Slot(_HEAD + "attention.in_proj_weight", ("3*vision_hidden", _V)),
    Slot(_HEAD + "attention.in_proj_bias", ("3*vision_hidden",)),
    *(
        Slot(_HEAD + name, shape)
        for name, shape in (
            ("attention.out_proj.weight", (_V, _V)),
            ("attention.out_proj.bias", (_V,)),
            ("layernorm.weight", (_V,)),
            ("layernorm.bias", (_V,)),
            ("mlp.fc1.weight", (_VF, _V)),
            ("mlp.fc1.bias", (_VF,)),
            ("mlp.fc2.weight", (_V, _VF)),
            ("mlp.fc2.bias", (_V,)),
            ("probe", ("1", "1", _V)),
        )
    ),
)
VISION = (
    _PATCHES,
    *biases((_PATCHES, *_NORMS, *_LINEAR, _LAST)),
    Slot(_TOWER + "embeddings.position_embedding.weight", ("image_patches", _V)),
    *_NORMS,
    *_LINEAR,
    _LAST,
    *(replace(slot, when="vision_use_head") for slot in _POOLING),
)
SLOTS = (
    *(replace(slot, key="language_model." + slot.key) for slot in GEMMA3),
    *VISION,
    Slot("multi_modal_projector.mm_input_projection_weight", (_V, "hidden")),
    Slot("multi_modal_projector.mm_soft_emb_norm.weight", (_V,)),
)
# Beginnings of names: the hub's → those of other times. The first that fits is taken.
_V5 = (("vision_tower.vision_model.", "vision_tower."),)
_MEMORY = (
    ("language_model.model.", "model.language_model."),
    ("language_model.lm_head.", "lm_head."),
    ("vision_tower.", "model.vision_tower."),
    ("multi_modal_projector.", "model.multi_modal_projector."),
)
_MEMORY_V5 = (("vision_tower.vision_model.", "model.vision_tower."), *_MEMORY)


def _named(name: str, beginnings: tuple[tuple[str, str], ...], source: str, oracle: Oracle) -> Layout:
    """Return the layout in which names begin otherwise."""
    rules = []
    for slot in SLOTS:
        old, new = next((pair for pair in beginnings if slot.key.startswith(pair[0])), ("", ""))
        rules.append(Rule(new + slot.key.removeprefix(old), slot.key))
    return Layout(name, tuple(rules), source=source, oracle=oracle)


def _litgpt() -> Layout:
    """Return litgpt's layout, which has the text model's part and no place for the rest."""
    text = LITGPT.of(
        GEMMA3,
        pairs=False,
        oracle=Oracle.LOADED,
        parts=LITGPT_FOUR_NORMS,
        source="litgpt 0.5.11 copy_weights_gemma_3",
    )
    rules = tuple(replace(rule, hub=_below(rule.hub)) for rule in text.rules)
    parts = (("vision_tower.", "the image encoder"), ("multi_modal_projector.", "the projector of images"))
    return replace(text, rules=rules, leaves=parts)


def _below(hub: str | tuple[str, ...]) -> str | tuple[str, ...]:
    return "language_model." + hub if isinstance(hub, str) else tuple("language_model." + name for name in hub)


FAMILIES = (
    Family(
        "gemma3_vision",
        "Gemma 3 with images",
        ("gemma3",),
        "Gemma3ForConditionalGeneration",
        SLOTS,
        (
            replace(hf_layout(SLOTS, (), "transformers 4.57 modeling_gemma3"), oracle=Oracle.SAVED),
            _named("hf-v5", _V5, "files that transformers 5.24 saves", Oracle.SAVED),
            _named("hf-memory", _MEMORY, "state dict of transformers 4.57", Oracle.SAVED),
            _named("hf-fused", _MEMORY_V5, "state dict of transformers 5.24", Oracle.SAVED),
            _litgpt(),
        ),
        tie_default=True,
        row_order=tuple((name, "halves") for name in ("hf", "hf-v5", "hf-memory", "hf-fused", "litgpt")),
        source="transformers 4.57 configuration_gemma3",
    ),
)
