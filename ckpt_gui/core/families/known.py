"""Published models and their sizes: what a file without a config is recognised by, and compared with.

Names and sizes only; which tensors they have stands in their family. Sources: torchtune 0.6.1 `_model_builders.py`,
litgpt 0.5 `config.py`, Meta's params.json files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.shape_ops import size_of


@dataclass(frozen=True, slots=True)
class Known:
    """A published model.

    Attributes:
        name: As its makers call it.
        family: Name of its family.
        dims: Its sizes, by the names that slots use.
        tied: Whether the output head is the embedding.
        theta: Base of the rotary frequencies.
        factor: Factor of Llama 3's rotary scaling; None without.
    """

    name: str
    family: str
    dims: Mapping[str, int] = field(default_factory=dict)
    tied: bool = False
    theta: float | None = None
    factor: float | None = None


_COLUMNS = ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab")


def _models(
    family: str,
    rows: Mapping[str, tuple[int, ...]],
    *,
    tied: bool = False,
    theta: float | None = None,
    factor: float | None = None,
    **more: int,
) -> tuple[Known, ...]:
    """Return models of one family, a row of sizes each."""
    return tuple(
        Known(name, family, dict(zip(_COLUMNS, row, strict=True)) | more, tied, theta, factor)
        for name, row in rows.items()
    )


_LLAMA3_8B = (32, 4096, 32, 8, 128, 14336, 128256)
_LLAMA3_70B = (80, 8192, 64, 8, 128, 28672, 128256)

KNOWN: tuple[Known, ...] = (
    *_models(
        "llama",
        {
            "Llama-2-7B": (32, 4096, 32, 32, 128, 11008, 32000),
            "Llama-2-13B": (40, 5120, 40, 40, 128, 13824, 32000),
            "Llama-2-70B": (80, 8192, 64, 8, 128, 28672, 32000),
        },
        theta=10_000.0,
    ),
    *_models("llama", {"Llama-3-8B": _LLAMA3_8B, "Llama-3-70B": _LLAMA3_70B}, theta=500_000.0),
    *_models(
        "llama",
        {
            "Llama-3.1-8B": _LLAMA3_8B,
            "Llama-3.1-70B": _LLAMA3_70B,
            "Llama-3.3-70B": _LLAMA3_70B,
            "Llama-3.1-405B": (126, 16384, 128, 8, 128, 53248, 128256),
        },
        theta=500_000.0,
        factor=8.0,
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
    ),
    *_models("mistral", {"Mistral-7B-v0.1": (32, 4096, 32, 8, 128, 14336, 32000)}, theta=10_000.0),
    *_models(
        "mistral",
        {
            "Mistral-7B-v0.3": (32, 4096, 32, 8, 128, 14336, 32768),
            "Mistral-Large-2407": (88, 12288, 96, 8, 128, 28672, 32768),
        },
        theta=1_000_000.0,
    ),
    *_models(
        "mixtral",
        {
            "Mixtral-8x7B": (32, 4096, 32, 8, 128, 14336, 32000),
            "Mixtral-8x22B": (56, 6144, 48, 8, 128, 16384, 32768),
        },
        theta=1_000_000.0,
        experts=8,
    ),
    *_models(
        "qwen2",
        {
            "Qwen2.5-0.5B": (24, 896, 14, 2, 64, 4864, 151936),
            "Qwen2.5-1.5B": (28, 1536, 12, 2, 128, 8960, 151936),
            "Qwen2.5-3B": (36, 2048, 16, 2, 128, 11008, 151936),
        },
        tied=True,
        theta=1_000_000.0,
    ),
    *_models(
        "qwen2",
        {
            "Qwen2.5-7B": (28, 3584, 28, 4, 128, 18944, 152064),
            "Qwen2.5-14B": (48, 5120, 40, 8, 128, 13824, 152064),
            "Qwen2.5-32B": (64, 5120, 40, 8, 128, 27648, 152064),
            "Qwen2.5-72B": (80, 8192, 64, 8, 128, 29568, 152064),
        },
        theta=1_000_000.0,
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
    ),
    *_models(
        "qwen3",
        {
            "Qwen3-8B": (36, 4096, 32, 8, 128, 12288, 151936),
            "Qwen3-14B": (40, 5120, 40, 8, 128, 17408, 151936),
            "Qwen3-32B": (64, 5120, 64, 8, 128, 25600, 151936),
        },
        theta=1_000_000.0,
    ),
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
    *_models("gemma3", {"Gemma-3-1B": (26, 1152, 4, 1, 256, 6912, 262144)}, tied=True, theta=1_000_000.0),
    *_models("phi3", {"Phi-3-mini": (32, 3072, 32, 32, 96, 8192, 32064)}, theta=10_000.0),
    *_models("phi3", {"Phi-4": (40, 5120, 40, 10, 128, 17920, 100352)}, theta=250_000.0),
    *_models("phi3", {"Phi-4-mini": (32, 3072, 24, 8, 128, 8192, 200064)}, tied=True, theta=10_000.0),
    *_models(
        "gpt-neox",
        {
            "Pythia-14M": (6, 128, 4, 4, 32, 512, 50304),
            "Pythia-70M": (6, 512, 8, 8, 64, 2048, 50304),
            "Pythia-160M": (12, 768, 12, 12, 64, 3072, 50304),
            "Pythia-1B": (16, 2048, 8, 8, 256, 8192, 50304),
            "Pythia-12B": (36, 5120, 40, 40, 128, 20480, 50688),
        },
    ),
)


def find_known(name: str) -> Known:
    """Return the model of that name: an owner before it, case and dashes do not count.

    Raises:
        CheckpointError: There is none.

    >>> find_known("meta-llama/llama-3.2-1b").name
    'Llama-3.2-1B'
    """
    wanted = _plain(name.rpartition("/")[2])
    found = next((model for model in KNOWN if _plain(model.name) == wanted), None)
    if found is None:
        text = f"{safe_text(name, 80)} is neither a file or folder nor the name of a known model."
        names = ", ".join(model.name for model in KNOWN)
        raise CheckpointError("not-a-checkpoint", text, fix=f"Name a path, or one of {names}.")
    return found


def _plain(name: str) -> str:
    plain = name.lower().replace("-", "").replace("_", "").removeprefix("meta")
    return plain.removesuffix("hf").removesuffix("instruct")


def fitting(families: Iterable[str], sizes: Mapping[str, int], layers: int) -> tuple[Known, ...]:
    """Return the models of some families that have exactly these sizes.

    Args:
        families: Names of families that the tensors' names fit.
        sizes: Sizes by symbol, or product of symbols (`heads*head_dim`), as the slots have them.
        layers: Number of layers.
    """
    names = frozenset(families)
    return tuple(m for m in KNOWN if m.family in names and m.dims["layers"] == layers and _has(m, sizes))


def _has(model: Known, sizes: Mapping[str, int]) -> bool:
    told = {symbol: size for symbol, size in sizes.items() if _size(symbol, model) is not None}
    return {"hidden", "vocab"} <= told.keys() and all(_size(symbol, model) == size for symbol, size in told.items())


def _size(symbol: str, model: Known) -> int | None:
    try:
        return size_of(symbol, model.dims)
    except KeyError:
        return None
