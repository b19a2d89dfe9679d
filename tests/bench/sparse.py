"""Whole models as headers and holes.

A file that is set to its length and never written to takes no room on disk; its header is true, and its weights read as
zeros. So the names and shapes of 70 to 671 billion parameters can be opened, planned and checked on any machine.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ckpt_gui.core.formats import safetensors
from ckpt_gui.core.tensors import TensorSpec
from tests.bench.shapes import SHAPES, config, specs


@dataclass(frozen=True)
class Shape:
    """A model and its files.

    Attributes:
        name: As in the table of known models, or a size that no model has.
        shards: Files of weights.
        status: Exit status of `check`: the FP8 release of DeepSeek is known, and no weights that can be converted.
    """

    name: str
    shards: int
    status: int = 0


SHARDED = Shape("Llama-3.1-70B", 30)
MODELS = (SHARDED, Shape("Llama-3.1-405B", 191), Shape("DeepSeek-V3", 163, 1))
BF16 = Shape("DeepSeek-V3-bf16", 163)
EIGHT = Shape("Llama-3.1-8B", 4)
GROWING = (Shape("1 GB", 1), Shape("10 GB", 1), Shape("100 GB", 24))
_LLAMAS = {
    "Llama-3.1-8B": "8b", "Llama-3.1-70B": "70b", "Llama-3.1-405B": "405b",
    "1 GB": "1gb", "10 GB": "10gb", "100 GB": "100gb",
}  # fmt: skip


def tensors(name: str) -> Iterator[TensorSpec]:
    """Yield the tensors of a model, under Hugging Face's names."""
    if name in _LLAMAS:
        size = _LLAMAS[name]
        yield from specs(size)
        yield TensorSpec("lm_head.weight", "bf16", (SHAPES[size][-1], SHAPES[size][0]))
    elif name == BF16.name:
        yield from _without_scales(_deepseek())
    else:
        yield from _deepseek()


def _without_scales(fp8: Iterator[TensorSpec]) -> Iterator[TensorSpec]:
    """Yield the tensors of a model as its weights are in bf16: no codes, no scales."""
    for spec in fp8:
        if not spec.key.endswith("_scale_inv"):
            yield TensorSpec(spec.key, "bf16" if spec.dtype == "fp8_e4m3" else spec.dtype, spec.shape)


def _deepseek() -> Iterator[TensorSpec]:
    """DeepSeek-V3 as it was released: FP8 matrices a scale for each block of 128 x 128, an MTP layer at the end."""
    yield TensorSpec("model.embed_tokens.weight", "bf16", (129280, 7168))
    for layer in range(62):
        at = f"model.layers.{layer}."
        yield TensorSpec(at + "input_layernorm.weight", "bf16", (7168,))
        yield TensorSpec(at + "post_attention_layernorm.weight", "bf16", (7168,))
        yield TensorSpec(at + "self_attn.q_a_layernorm.weight", "bf16", (1536,))
        yield TensorSpec(at + "self_attn.kv_a_layernorm.weight", "bf16", (512,))
        for part, rows, columns in (
            ("q_a_proj", 1536, 7168), ("q_b_proj", 24576, 1536), ("kv_a_proj_with_mqa", 576, 7168),
            ("kv_b_proj", 32768, 512), ("o_proj", 7168, 16384),
        ):  # fmt: skip
            yield from _fp8(f"{at}self_attn.{part}", rows, columns)
        if layer < 3:
            yield from _mlp(at + "mlp", 18432)
        else:
            yield TensorSpec(at + "mlp.gate.weight", "bf16", (256, 7168))
            yield TensorSpec(at + "mlp.gate.e_score_correction_bias", "fp32", (256,))
            yield from _mlp(at + "mlp.shared_experts", 2048)
            for expert in range(256):
                yield from _mlp(f"{at}mlp.experts.{expert}", 2048)
        if layer == 61:
            yield TensorSpec(at + "embed_tokens.weight", "bf16", (129280, 7168))
            yield TensorSpec(at + "eh_proj.weight", "bf16", (7168, 14336))
            for part in ("enorm", "hnorm", "shared_head.norm"):
                yield TensorSpec(f"{at}{part}.weight", "bf16", (7168,))
            yield TensorSpec(at + "shared_head.head.weight", "bf16", (129280, 7168))
    yield TensorSpec("model.norm.weight", "bf16", (7168,))
    yield TensorSpec("lm_head.weight", "bf16", (129280, 7168))


def _mlp(at: str, width: int) -> Iterator[TensorSpec]:
    for part, rows, columns in (("gate_proj", width, 7168), ("up_proj", width, 7168), ("down_proj", 7168, width)):
        yield from _fp8(f"{at}.{part}", rows, columns)


def _fp8(at: str, rows: int, columns: int) -> Iterator[TensorSpec]:
    yield TensorSpec(at + ".weight", "fp8_e4m3", (rows, columns))
    yield TensorSpec(at + ".weight_scale_inv", "fp32", (-(-rows // 128), -(-columns // 128)))


def configuration(name: str) -> dict[str, Any]:
    """Return the model's config.json."""
    if name in _LLAMAS:
        return config(_LLAMAS[name]) | {"tie_word_embeddings": False}
    return {
        "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "hidden_size": 7168,
        "num_hidden_layers": 61, "num_attention_heads": 128, "num_key_value_heads": 128, "intermediate_size": 18432,
        "moe_intermediate_size": 2048, "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8,
        "first_k_dense_replace": 3, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64, "v_head_dim": 128, "vocab_size": 129280, "rms_norm_eps": 1e-6, "rope_theta": 10000,
        "tie_word_embeddings": False, "torch_dtype": "bfloat16", "max_position_embeddings": 163840,
    }  # fmt: skip


def make_sparse(folder: Path, model: Shape) -> Path:
    """Write a model's folder; one that exists is kept."""
    return write_holes(folder, list(tensors(model.name)), model.shards, configuration(model.name))


def write_holes(folder: Path, listed: Sequence[TensorSpec], shards: int, config: dict[str, Any]) -> Path:
    """Write a folder of shards with an index: headers, and holes for weights; one that exists is kept."""
    index = folder / "model.safetensors.index.json"
    if index.exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    places: dict[str, str] = {}
    total = 0
    for number, part in enumerate(_shards(listed, shards), 1):
        name = f"model-{number:05}-of-{shards:05}.safetensors"
        layout = safetensors.layout(part, {"format": "pt"})
        with (folder / name).open("wb") as file:
            for offset, data in layout.patches({}):
                file.seek(offset)
                file.write(data)
            file.truncate(layout.nbytes)
        places |= {spec.key: name for spec in part}
        total += sum(spec.nbytes for spec in part)
    (folder / "config.json").write_text(json.dumps(config))
    index.write_text(json.dumps({"metadata": {"total_size": total}, "weight_map": places}))
    return folder


def _shards(all_of_them: Sequence[TensorSpec], count: int) -> Iterator[list[TensorSpec]]:
    """Yield as many runs of tensors, of about equal bytes."""
    each = sum(spec.nbytes for spec in all_of_them) / count
    part: list[TensorSpec] = []
    done, made = 0.0, 1
    for spec in all_of_them:
        if part and done + spec.nbytes / 2 > each * made and made < count:
            yield part
            part, made = [], made + 1
        part.append(spec)
        done += spec.nbytes
    yield part
