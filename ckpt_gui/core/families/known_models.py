"""Published models and their sizes, a row each: the table that `known` looks things up in.

Only figures that stand in public configs are here. Sources: torchtune 0.6.1 `models/*/_model_builders.py` (Llama,
Llama 3.2 Vision, Mistral, Gemma, Phi); litgpt 0.5.11 `config.py` (these and Qwen 2.5 and 3, Pythia, OLMo 2, SmolLM 2,
TinyLlama, CodeLlama, Phi 1.5 and 2); Meta's params.json files; DeepSeek-V3 `inference/configs/`; gpt-oss
`gpt_oss/torch/model.py` and the 20B's config.json; transformers 4.57 `configuration_*.py` of models whose defaults are
a published one (SmolLM 3, Cohere, StarCoder 2 3B, Qwen 1.5 MoE, Llama 4 Scout, Mllama 11B), its converter of Gemma 3
(whose files with an image encoder have 64 rows more); nanoGPT `model.py` (GPT-2); the config.json of
Mistral-Nemo-Base-2407. A test counts their parameters and compares with what the model cards say.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ckpt_gui.dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Known:
    """A published model.

    Attributes:
        name: As its makers call it.
        family: Name of its family.
        dims: Its sizes, by the names that slots use.
        tied: Whether the output head is the embedding.
        theta: Base of the rotary frequencies; None where it is not known for sure.
        factor: Factor of Llama 3's rotary scaling; None without.
        eps: Epsilon of the norms; None where it is not known for sure.
        positions: Longest context; None where it is not known for sure.
        fields: Further fields of its config.json that say which tensors it has, or that its family needs.
    """

    name: str
    family: str
    dims: Mapping[str, int] = field(default_factory=dict)
    tied: bool = False
    theta: float | None = None
    factor: float | None = None
    eps: float | None = None
    positions: int | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)


_COLUMNS = ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab")


def _models(
    family: str,
    rows: Mapping[str, tuple[int, ...]],
    *,
    tied: bool = False,
    theta: float | None = None,
    factor: float | None = None,
    eps: float | None = None,
    positions: int | None = None,
    fields: Mapping[str, Any] | None = None,
    more: Mapping[str, int] | None = None,
) -> tuple[Known, ...]:
    """Return models of one family, a row of sizes each."""
    return tuple(
        Known(
            name, family, dict(zip(_COLUMNS, row, strict=True)) | dict(more or {}), tied, theta, factor, eps, positions,
            dict(fields or {}),
        )
        for name, row in rows.items()
    )  # fmt: skip


_8B, _70B = (32, 4096, 32, 8, 128, 14336, 128256), (80, 8192, 64, 8, 128, 28672, 128256)
_LLAMAS = (
    *_models(
        "llama",
        {
            "Llama-2-7B": (32, 4096, 32, 32, 128, 11008, 32000),
            "Llama-2-13B": (40, 5120, 40, 40, 128, 13824, 32000),
            "Llama-2-70B": (80, 8192, 64, 8, 128, 28672, 32000),
        },
        theta=10_000.0,
        eps=1e-5,
        positions=4096,
    ),
    *_models("llama", {"Llama-3-8B": _8B, "Llama-3-70B": _70B}, theta=500_000.0, eps=1e-5, positions=8192),
    *_models(
        "llama",
        {
            "Llama-3.1-8B": _8B,
            "Llama-3.1-70B": _70B,
            "Llama-3.3-70B": _70B,
            "Llama-3.1-405B": (126, 16384, 128, 8, 128, 53248, 128256),
        },
        theta=500_000.0,
        factor=8.0,
        eps=1e-5,
        positions=131072,
    ),
    *_models(
        "llama",
        {
            "Llama-3.2-1B": (16, 2048, 32, 8, 64, 8192, 128256),
            "Llama-3.2-3B": (28, 3072, 24, 8, 128, 8192, 128256),
        },
        tied=True,
        theta=500_000.0,
        factor=32.0,
        eps=1e-5,
        positions=131072,
    ),
    *_models(
        "llama",
        {
            "CodeLlama-7B": (32, 4096, 32, 32, 128, 11008, 32016),
            "CodeLlama-13B": (40, 5120, 40, 40, 128, 13824, 32016),
            "CodeLlama-34B": (48, 8192, 64, 8, 128, 22016, 32000),
        },
        theta=1_000_000.0,
        eps=1e-5,
        positions=16384,
    ),
    *_models(
        "llama",
        {"TinyLlama-1.1B": (22, 2048, 32, 4, 64, 5632, 32000)},
        theta=10_000.0,
        eps=1e-5,
        positions=2048,
    ),
    *_models(
        "llama",
        {
            "SmolLM2-135M": (30, 576, 9, 3, 64, 1536, 49152),
            "SmolLM2-360M": (32, 960, 15, 5, 64, 2560, 49152),
        },
        tied=True,
        theta=100_000.0,
        eps=1e-5,
        positions=8192,
    ),
    *_models(
        "llama",
        {"SmolLM2-1.7B": (24, 2048, 32, 32, 64, 8192, 49152)},
        tied=True,
        theta=130_000.0,
        eps=1e-5,
        positions=8192,
    ),
)
_VISION_11B = {"cross_attention_layers": list(range(3, 40, 5))}
_VISION_90B = {"cross_attention_layers": list(range(3, 100, 5))}
_MLLAMA = {
    "vision_layers": 32, "global_layers": 8, "vision_hidden": 1280, "vision_ffn": 5120, "vision_out": 7680,
    "vision_channels": 3, "vision_patch": 14, "vision_patches": 1025, "aspect_ratios": 9, "tile_patches": 5248000,
    "tile_width": 5120,
}  # fmt: skip
_LLAMA4 = (48, 5120, 40, 8, 128, 8192, 202048)
_LLAMA4_VISION = {
    "vision_layers": 34, "vision_hidden": 1408, "vision_ffn": 5632, "vision_patch": 588, "vision_patches": 577,
    "adapter_in": 5632, "adapter_middle": 4096, "adapter_out": 4096, "projector_in": 4096, "dense_ffn": 16384,
}  # fmt: skip
_LLAMAS_WITH_IMAGES = (
    *_models(
        "mllama",
        {"Llama-3.2-11B-Vision": (40, 4096, 32, 8, 128, 14336, 128256)},
        theta=500_000.0,
        factor=8.0,
        eps=1e-5,
        positions=131072,
        fields=_VISION_11B,
        more=_MLLAMA,
    ),
    *_models(
        "mllama",
        {"Llama-3.2-90B-Vision": (100, 8192, 64, 8, 128, 28672, 128256)},
        theta=500_000.0,
        factor=8.0,
        eps=1e-5,
        positions=131072,
        fields=_VISION_90B,
        more=_MLLAMA,
    ),
    *_models(
        "llama4-vision",
        {"Llama-4-Scout-17B-16E": _LLAMA4},
        theta=500_000.0,
        eps=1e-5,
        fields={"interleave_moe_layer_step": 1},
        more={"experts": 16, **_LLAMA4_VISION},
    ),
    *_models(
        "llama4-vision",
        {"Llama-4-Maverick-17B-128E": _LLAMA4},
        theta=500_000.0,
        eps=1e-5,
        fields={"interleave_moe_layer_step": 2},
        more={"experts": 128, **_LLAMA4_VISION},
    ),
)
_MISTRALS = (
    *_models(
        "mistral",
        {"Mistral-7B-v0.1": (32, 4096, 32, 8, 128, 14336, 32000)},
        theta=10_000.0,
        eps=1e-5,
        positions=32768,
        fields={"sliding_window": 4096},
    ),
    *_models(
        "mistral",
        {
            "Mistral-7B-v0.2": (32, 4096, 32, 8, 128, 14336, 32000),
            "Mistral-7B-v0.3": (32, 4096, 32, 8, 128, 14336, 32768),
            "Mistral-Large-2407": (88, 12288, 96, 8, 128, 28672, 32768),
        },
        theta=1_000_000.0,
        eps=1e-5,
        positions=32768,
        fields={"sliding_window": None},
    ),
    *_models(
        "mistral",
        {"Mistral-Nemo-2407": (40, 5120, 32, 8, 128, 14336, 131072)},
        theta=1_000_000.0,
        eps=1e-5,
        positions=128000,
        fields={"sliding_window": None},
    ),
    *_models(
        "mixtral",
        {"Mixtral-8x7B": (32, 4096, 32, 8, 128, 14336, 32000)},
        theta=1_000_000.0,
        eps=1e-5,
        positions=32768,
        fields={"num_experts_per_tok": 2, "sliding_window": None},
        more={"experts": 8},
    ),
    *_models(
        "mixtral",
        {"Mixtral-8x22B": (56, 6144, 48, 8, 128, 16384, 32768)},
        theta=1_000_000.0,
        eps=1e-5,
        positions=65536,
        fields={"num_experts_per_tok": 2, "sliding_window": None},
        more={"experts": 8},
    ),
)
_QWENS = (
    *_models(
        "qwen2",
        {
            "Qwen2.5-0.5B": (24, 896, 14, 2, 64, 4864, 151936),
            "Qwen2.5-1.5B": (28, 1536, 12, 2, 128, 8960, 151936),
            "Qwen2.5-3B": (36, 2048, 16, 2, 128, 11008, 151936),
        },
        tied=True,
        theta=1_000_000.0,
        eps=1e-6,
        positions=32768,
    ),
    *_models(
        "qwen2",
        {"Qwen2.5-7B": (28, 3584, 28, 4, 128, 18944, 152064)},
        theta=1_000_000.0,
        eps=1e-6,
        positions=131072,
    ),
    *_models(
        "qwen2",
        {
            "Qwen2.5-14B": (48, 5120, 40, 8, 128, 13824, 152064),
            "Qwen2.5-32B": (64, 5120, 40, 8, 128, 27648, 152064),
            "Qwen2.5-72B": (80, 8192, 64, 8, 128, 29568, 152064),
        },
        theta=1_000_000.0,
        eps=1e-5,
        positions=131072,
    ),
    *_models(
        "qwen3",
        {
            "Qwen3-0.6B": (28, 1024, 16, 8, 128, 3072, 151936),
            "Qwen3-1.7B": (28, 2048, 16, 8, 128, 6144, 151936),
            "Qwen3-4B": (36, 2560, 32, 8, 128, 9728, 151936),
        },
        tied=True,
        theta=1_000_000.0,
        eps=1e-6,
        positions=40960,
    ),
    *_models(
        "qwen3",
        {
            "Qwen3-8B": (36, 4096, 32, 8, 128, 12288, 151936),
            "Qwen3-14B": (40, 5120, 40, 8, 128, 17408, 151936),
            "Qwen3-32B": (64, 5120, 64, 8, 128, 25600, 151936),
        },
        theta=1_000_000.0,
        eps=1e-6,
        positions=40960,
    ),
    *_models(
        "qwen3-moe",
        {"Qwen3-30B-A3B": (48, 2048, 32, 4, 128, 6144, 151936)},
        theta=1_000_000.0,
        eps=1e-6,
        more={"experts": 128, "moe_ffn": 768},
    ),
    *_models(
        "qwen3-moe",
        {"Qwen3-235B-A22B": (94, 4096, 64, 4, 128, 12288, 151936)},
        theta=1_000_000.0,
        eps=1e-6,
        more={"experts": 128, "moe_ffn": 1536},
    ),
    *_models(
        "qwen2-moe",
        {"Qwen1.5-MoE-A2.7B": (24, 2048, 16, 16, 128, 5632, 151936)},
        eps=1e-6,
        more={"experts": 60, "moe_ffn": 1408, "shared_ffn": 5632},
    ),
)
_SIGLIP = {
    "blocks": 27, "vision_hidden": 1152, "vision_ffn": 4304, "channels": 3, "patch": 14, "image_patches": 4096,
}  # fmt: skip
_GEMMAS = (
    *_models(
        "gemma",
        {
            "Gemma-2B": (18, 2048, 8, 1, 256, 16384, 256000),
            "Gemma-7B": (28, 3072, 16, 16, 256, 24576, 256000),
        },
        tied=True,
        theta=10_000.0,
    ),
    *_models(
        "gemma2",
        {
            "Gemma-2-2B": (26, 2304, 8, 4, 256, 9216, 256000),
            "Gemma-2-9B": (42, 3584, 16, 8, 256, 14336, 256000),
            "Gemma-2-27B": (46, 4608, 32, 16, 128, 36864, 256000),
        },
        tied=True,
        theta=10_000.0,
    ),
    *_models(
        "gemma3",
        {
            "Gemma-3-270M": (18, 640, 4, 1, 256, 2048, 262144),
            "Gemma-3-1B": (26, 1152, 4, 1, 256, 6912, 262144),
        },
        tied=True,
        theta=1_000_000.0,
    ),
    *_models(
        "gemma3_vision",
        {
            "Gemma-3-4B": (34, 2560, 8, 4, 256, 10240, 262208),
            "Gemma-3-12B": (48, 3840, 16, 8, 256, 15360, 262208),
            "Gemma-3-27B": (62, 5376, 32, 16, 128, 21504, 262208),
        },
        tied=True,
        theta=1_000_000.0,
        fields={"vision_config": {"vision_use_head": False}},
        more=_SIGLIP,
    ),
)
_OTHERS = (
    *_models(
        "phi",
        {
            "Phi-1.5": (24, 2048, 32, 32, 64, 8192, 51200),
            "Phi-2": (32, 2560, 32, 32, 80, 10240, 51200),
        },
        theta=10_000.0,
    ),
    *_models("phi3", {"Phi-3-mini": (32, 3072, 32, 32, 96, 8192, 32064)}, theta=10_000.0),
    *_models("phi3", {"Phi-4": (40, 5120, 40, 10, 128, 17920, 100352)}, theta=250_000.0),
    *_models("phi3", {"Phi-4-mini": (32, 3072, 24, 8, 128, 8192, 200064)}, tied=True, theta=10_000.0),
    *_models("smollm3", {"SmolLM3-3B": (36, 2048, 16, 4, 128, 11008, 128256)}, tied=True, eps=1e-6),
    *_models(
        "olmo2",
        {
            "OLMo-2-1124-7B": (32, 4096, 32, 32, 128, 11008, 100352),
            "OLMo-2-1124-13B": (40, 5120, 40, 40, 128, 13824, 100352),
        },
        theta=500_000.0,
        eps=1e-6,
    ),
    *_models("cohere", {"Command-R": (40, 8192, 64, 64, 128, 22528, 256000)}, tied=True),
    *_models(
        "starcoder2",
        {"StarCoder2-3B": (30, 3072, 24, 2, 128, 12288, 49152)},
        tied=True,
        fields={"use_bias": True},
    ),
    *_models(
        "gpt-neox",
        {
            "Pythia-14M": (6, 128, 4, 4, 32, 512, 50304),
            "Pythia-31M": (6, 256, 8, 8, 32, 1024, 50304),
            "Pythia-70M": (6, 512, 8, 8, 64, 2048, 50304),
            "Pythia-160M": (12, 768, 12, 12, 64, 3072, 50304),
            "Pythia-410M": (24, 1024, 16, 16, 64, 4096, 50304),
            "Pythia-1B": (16, 2048, 8, 8, 256, 8192, 50304),
            "Pythia-1.4B": (24, 2048, 16, 16, 128, 8192, 50304),
            "Pythia-2.8B": (32, 2560, 32, 32, 80, 10240, 50304),
            "Pythia-6.9B": (32, 4096, 32, 32, 128, 16384, 50432),
            "Pythia-12B": (36, 5120, 40, 40, 128, 20480, 50688),
            "GPT-NeoX-20B": (44, 6144, 64, 64, 96, 24576, 50432),
        },
        fields={"attention_bias": True},
    ),
    *_models(
        "gpt2",
        {
            "GPT-2": (12, 768, 12, 12, 64, 3072, 50257),
            "GPT-2-medium": (24, 1024, 16, 16, 64, 4096, 50257),
            "GPT-2-large": (36, 1280, 20, 20, 64, 5120, 50257),
            "GPT-2-XL": (48, 1600, 25, 25, 64, 6400, 50257),
        },
        tied=True,
        fields={"n_positions": 1024},
    ),
    *_models(
        "gpt-oss",
        {"gpt-oss-20b": (24, 2880, 64, 8, 64, 2880, 201088)},
        theta=150_000.0,
        fields={"attention_bias": True},
        more={"experts": 32},
    ),
    *_models(
        "gpt-oss",
        {"gpt-oss-120b": (36, 2880, 64, 8, 64, 2880, 201088)},
        theta=150_000.0,
        fields={"attention_bias": True},
        more={"experts": 128},
    ),
)
_LATENT = {"kv_rank": 512, "nope_dim": 128, "rope_dim": 64, "v_dim": 128}
_DEEPSEEK_COLUMNS = ("layers", "hidden", "heads", "ffn", "vocab", "experts", "moe_ffn", "shared_ffn")


def _deepseek(name: str, family: str, sizes: tuple[int, ...], dense: int, q_rank: int | None) -> Known:
    """Return a DeepSeek: its first layers are dense, and all but the smallest make queries of fewer numbers."""
    dims = dict(zip(_DEEPSEEK_COLUMNS, sizes, strict=True)) | _LATENT | ({"q_rank": q_rank} if q_rank else {})
    fields = {"first_k_dense_replace": dense, "q_lora_rank": q_rank}
    return Known(name, family, dims, theta=10_000.0, fields=fields)


_DEEPSEEKS = (
    _deepseek("DeepSeek-V2-Lite", "deepseek-v2", (27, 2048, 16, 10944, 102400, 64, 1408, 2816), 1, None),
    _deepseek("DeepSeek-V2", "deepseek-v2", (60, 5120, 128, 12288, 102400, 160, 1536, 3072), 1, 1536),
    _deepseek("DeepSeek-V3", "deepseek-v3", (61, 7168, 128, 18432, 129280, 256, 2048, 2048), 3, 1536),
)
KNOWN: tuple[Known, ...] = (
    *_LLAMAS, *_LLAMAS_WITH_IMAGES, *_MISTRALS, *_QWENS, *_GEMMAS, *_OTHERS, *_DEEPSEEKS,
)  # fmt: skip
