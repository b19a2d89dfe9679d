"""Tiny models made by transformers itself, and ways to compare what comes back.

Every tensor has random values of its own, norms and biases too, so that two that are swapped are seen. The number of
heads is not that of the key/value heads, and in the usual sizes heads × head_dim is not the hidden size.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import load_file
from torch import Tensor

from ckpt_gui import open_checkpoint, write
from ckpt_gui.core.normalise import understand
from ckpt_gui.core.plan import Plan
from ckpt_gui.core.policy import Policy

torch.set_num_threads(1)

V5 = int(transformers.__version__.split(".")[0]) >= 5
SIZES: dict[str, Any] = {
    "hidden_size": 48,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "intermediate_size": 112,
    "num_hidden_layers": 3,
    "vocab_size": 80,
    "max_position_embeddings": 16384,
    "rms_norm_eps": 3e-6,
}
THETA = 54321.0
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
LINEAR = {"rope_type": "linear", "factor": 4.0}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
DYNAMIC = {"rope_type": "dynamic", "factor": 2.0}
CLASSES = {
    "llama": (transformers.LlamaConfig, transformers.LlamaForCausalLM),
    "mistral": (transformers.MistralConfig, transformers.MistralForCausalLM),
}
EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"
IDS = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6, 5, 35, 8, 79, 0, 32, 38, 46] * 3])
# What names a folder or a program, not a model.
_INCIDENTAL = {"_name_or_path", "transformers_version", "torch_dtype", "dtype", "_attn_implementation_autoset"}


def make_config(
    kind: str = "llama", *, tied: bool = False, scaling: dict[str, Any] | None = None, **changes: Any
) -> Any:
    """Return a transformers config; how the rotary settings are given depends on the version."""
    rope: dict[str, Any] = {"rope_theta": THETA, "rope_scaling": scaling}
    if V5:
        rope = {"rope_parameters": {"rope_type": "default", **(scaling or {}), "rope_theta": THETA}}
    return CLASSES[kind][0](**{**SIZES, **rope, "tie_word_embeddings": tied, **changes})


def make_model(config: Any, seed: int = 0, scale: float = 1.0) -> Any:
    """Return a model whose every parameter is random; a small scale makes it less sensitive to rounding."""
    model = CLASSES[config.model_type][1](config).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if parameter.ndim == 2:
                parameter.copy_(noise * scale * (1.0 if parameter.shape[0] == config.vocab_size else 0.3))
            else:
                parameter.copy_(1 + 0.2 * noise)
    return model


def logits_of(model: Any) -> Tensor:
    """Return the logits for fixed tokens."""
    with torch.no_grad():
        return model(IDS).logits


def logits_equal(left: Path, right: Path) -> bool:
    """Compare the logits of two folders bit for bit."""
    return torch.equal(logits_of(load(left)), logits_of(load(right)))


def load(folder: Path) -> Any:
    """Load a folder as its user would; every key must be used and found."""
    model, info = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype="auto", output_loading_info=True)
    assert not any(info[name] for name in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    return model.eval()


def read(folder: Path) -> dict[str, Tensor]:
    """Read every weight file of a folder with safetensors and torch."""
    found: dict[str, Tensor] = {}
    for path in sorted(folder.iterdir()):
        if path.suffix == ".safetensors":
            found |= load_file(path)
        elif path.suffix in (".bin", ".pt", ".pth"):
            found |= torch.load(path, weights_only=True)
    return found


def differing(left: dict[str, Tensor], right: dict[str, Tensor]) -> list[str]:
    """Return the keys that only one has, or whose type, shape or bytes are not equal."""
    wrong = sorted(left.keys() ^ right.keys())
    return wrong + [key for key in left.keys() & right.keys() if not same(left[key], right[key])]


def same(left: Tensor, right: Tensor) -> bool:
    """Compare bytes, not values: NaN and −0 count."""
    if (left.dtype, left.shape) != (right.dtype, right.shape):
        return False
    return _bytes(left) == _bytes(right)


def _bytes(tensor: Tensor) -> bytes:
    return tensor.detach().contiguous().view(torch.uint8).numpy().tobytes()


def config_of(folder: Path) -> dict[str, Any]:
    """Return the config as this version of transformers understands it."""
    kind = transformers.AutoConfig
    if raw_config(folder).get("model_type") == "mllama_text_model":  # which no Auto class of version 4 knows
        kind = transformers.models.mllama.configuration_mllama.MllamaTextConfig
    config = kind.from_pretrained(folder).to_dict()
    return {name: value for name, value in config.items() if name not in _INCIDENTAL}


def plan_of(path: Path, **policy: Any) -> Plan:
    """Return the plan of a checkpoint, its tied pair compared."""
    return understand(open_checkpoint(path), Policy(**policy))


def export(path: Path, out: Path, layout: str = "hf", **options: Any) -> Path:
    """Write a checkpoint to another layout and return the folder."""
    write(plan_of(path), out, layout, **options)
    return out


def assert_clean(path: Path) -> None:
    """Assert that nothing above an info is found."""
    plan = plan_of(path)
    assert [f for f in plan.findings if f.severity != "info"] == []
    assert plan.status == "clean"


def raw_config(folder: Path) -> dict[str, Any]:
    """Return config.json as it is spelled."""
    return dict(json.loads((folder / "config.json").read_text(encoding="utf-8")))


def write_config(folder: Path, config: dict[str, Any]) -> None:
    """Replace config.json."""
    (folder / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
