"""The configs of models that see images, and of their text models, from Meta's params.json and back.

Hugging Face keeps the text model's fields under `text_config` and the encoder's under `vision_config`. Meta's file has
all in one, and for Llama 3.2 Vision says little of the encoder, whose sizes its program has as constants: they are
taken from the tensors, and what no tensor shows from that program, if its sizes are the model's. Sources: Meta
llama-models `models/llama3/multimodal/model.py`, `models/llama4/args.py`; transformers 4.57
`configuration_mllama.py`, `configuration_llama4.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ckpt_gui.core import llama4_config
from ckpt_gui.core.errors import Finding
from ckpt_gui.core.families.numbering import spread
from ckpt_gui.core.families.schema import Family, Layout
from ckpt_gui.core.image_ops import image_shapes
from ckpt_gui.core.meta_config import crossing_layers, flat_params
from ckpt_gui.core.model_config import ModelConfig

# The encoder of every Llama 3.2 Vision: its sizes, and what goes with them and is stored nowhere.
_ENCODER = {"vision_hidden": 1280, "vision_layers": 32, "global_layers": 8, "vision_out": 7680}
_HEADS, _TAKEN = 16, [3, 7, 15, 23, 30]
_PADDING = 128004  # token of Llama 3.2 Vision, whose vocabulary is Llama 3's
_LLAMA3_VOCAB = 128256
LLAMA4 = ("llama4", "llama4-vision")
_MOST_TILES = 100  # what no model comes near
# Hugging Face's name of a field of the encoder ← the size as the tensors show it.
_MLLAMA_VISION = {
    "hidden_size": "vision_hidden",
    "intermediate_size": "vision_ffn",
    "num_hidden_layers": "vision_layers",
    "num_global_layers": "global_layers",
    "patch_size": "vision_patch",
    "num_channels": "vision_channels",
    "vision_output_dim": "vision_out",
}


def is_whole(family: Family) -> bool:
    """Return True for a family whose params.json tells of an encoder too."""
    return family.name == "mllama" or family.name in LLAMA4


def unknown_encoder(family: Family, config: ModelConfig, dims: Mapping[str, int]) -> str:
    """Return what params.json leaves open of the image encoder, in a sentence; empty if nothing."""
    if config.is_hf or family.name != "mllama" or all(dims.get(name) == size for name, size in _ENCODER.items()):
        return ""
    return (
        "params.json does not say how many heads the image encoder has and which of its layers are taken, and its "
        "sizes are not those of Meta's models."
    )


def vision_findings(
    family: Family, config: ModelConfig, dims: Mapping[str, int], layout: Layout, *, writes_config: bool
) -> list[Finding]:
    """Return what stands in the way of writing a model that sees images.

    Args:
        family: The architecture.
        config: What the source says.
        dims: True sizes.
        layout: Where it goes.
        writes_config: True if it gets a config.json.
    """
    found = []
    if writes_config and (text := unknown_encoder(family, config, dims)):
        fix = "Give the model's config.json with --config, or a folder that has it with --base DIR."
        found.append(Finding("config-mismatch", "error", text, fix=fix, blocking=True))
    if layout.numbering and config.is_hf and (text := _other_shapes(config)):
        fix = "Choose a layout that says what each row is for: hf."
        found.append(Finding("unknown-layout", "error", text, fix=fix, blocking=True))
    return found


def _other_shapes(config: ModelConfig) -> str:
    """Return what is odd about the shapes of images in a config, whose order the rows for tiles follow."""
    vision = config.raw.get("vision_config")
    vision = vision if isinstance(vision, Mapping) else {}
    shapes, tiles = vision.get("supported_aspect_ratios"), vision.get("max_num_tiles", 4)
    if not isinstance(shapes, list) or type(tiles) is not int or not 0 < tiles < _MOST_TILES:
        return ""
    if [list(shape) for shape in image_shapes(tiles)] == shapes:
        return ""
    return "The config has other shapes of images (supported_aspect_ratios), or another order, than Meta's programs."


def whole_config(
    family: Family, config: ModelConfig, dims: Mapping[str, int], text: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the config of a model that sees images.

    Args:
        family: The architecture.
        config: What params.json says.
        dims: True sizes, as the tensors have them.
        text: The fields of the text model, with `architectures` and `model_type` of the whole.
    """
    if family.name in LLAMA4:
        return _llama4(config, dims, dict(text))
    whole = {name: text[name] for name in ("architectures", "model_type")}
    inner = {name: value for name, value in text.items() if name not in whole}
    return whole | _mllama(config, dims, inner)


def _mllama(config: ModelConfig, dims: Mapping[str, int], text: dict[str, Any]) -> dict[str, Any]:
    flat = flat_params(config.raw)
    crossing = crossing_layers(flat)
    places = spread(dims.get("layers", 0) - crossing, crossing)
    tiles = flat.get("vision_max_num_chunks")
    tiles = tiles if type(tiles) is int and 0 < tiles < _MOST_TILES else 4
    text |= {"model_type": "mllama_text_model", "cross_attention_layers": [p + n for n, p in enumerate(places)]}
    if dims.get("vocab") == _LLAMA3_VOCAB:
        text["pad_token_id"] = _PADDING
    vision = {
        "model_type": "mllama_vision_model",
        **{name: dims[size] for name, size in _MLLAMA_VISION.items() if size in dims},
        "attention_heads": _HEADS,
        "image_size": flat.get("vision_chunk_size"),
        "intermediate_layers_indices": _TAKEN,
        "max_num_tiles": tiles,
        "supported_aspect_ratios": [list(shape) for shape in image_shapes(tiles)],
    }
    return {"image_token_index": dims.get("vocab"), "text_config": text, "vision_config": vision}


def _llama4(config: ModelConfig, dims: Mapping[str, int], text: dict[str, Any]) -> dict[str, Any]:
    text |= llama4_config.text_fields(config, dims)
    if text["model_type"] != "llama4":  # the text model by itself
        return text
    whole = {name: text.pop(name) for name in ("architectures", "model_type")}
    vision = llama4_config.vision_fields(config, dims)
    return whole | {"text_config": text | {"model_type": "llama4_text"}, "vision_config": vision}


def vision_params(family: Family, config: ModelConfig, dims: Mapping[str, int]) -> dict[str, Any]:
    """Return the fields of params.json on the encoder and on the layers that look at its images.

    Args:
        family: The architecture.
        config: What the source says.
        dims: True sizes.
    """
    if family.name in LLAMA4:
        return llama4_config.params_fields(config, dims) if config.is_hf else {}
    if not is_whole(family):
        return {}
    if not config.is_hf:
        return {"n_layers": dims.get("layers", 0) - crossing_layers(flat_params(config.raw))}
    text, vision = (config.raw.get(name) for name in ("text_config", "vision_config"))
    places = text.get("cross_attention_layers") if isinstance(text, Mapping) else None
    vision = vision if isinstance(vision, Mapping) else {}
    crossing = len(places) if isinstance(places, list) else 0
    return {
        "n_layers": dims.get("layers", 0) - crossing,
        "vision_num_cross_attention_layers": crossing,
        **({"vision_chunk_size": vision["image_size"]} if "image_size" in vision else {}),
        **({"vision_max_num_chunks": vision["max_num_tiles"]} if "max_num_tiles" in vision else {}),
    }
