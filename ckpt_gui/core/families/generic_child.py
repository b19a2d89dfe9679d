"""The child process of `generic`: builds a model without memory for it, and says what `save_pretrained` would write.

Reads a config.json from standard input and writes JSON to standard output. The model is made on torch's meta device
by transformers' own classes, never by code that comes with a checkpoint, and `save_pretrained` itself is run with its
last step, the writing of the file, replaced: so ties, renamed prefixes and version 5's fused experts come out as they
do on disk.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
from typing import Any

MEMORY = 24 << 30  # bytes of address space: torch alone maps several
SECONDS = 300
# What would make the model another one than its weights: code of others, and schemes of packed weights.
_LEFT_OUT = ("auto_map", "quantization_config", "_name_or_path", "torch_dtype", "dtype")


# Packages that transformers imports where they are installed, and that no model needs to be built: seconds.
_NOT_NEEDED = (
    "torchao", "torchaudio", "bitsandbytes", "peft", "datasets", "sklearn", "scipy", "pandas", "librosa", "cv2",
    "tensorflow", "flax", "jax",
)  # fmt: skip


def main() -> int:
    """Read, build, write."""
    _limit()
    sys.modules.update(dict.fromkeys(_NOT_NEEDED))  # type: ignore[arg-type]  # None: as if it was not installed
    config = json.loads(sys.stdin.buffer.read())
    with contextlib.redirect_stdout(sys.stderr):
        found = describe(config)
    sys.stdout.write(json.dumps(found))
    return 0


def _limit() -> None:
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))


def describe(raw: dict[str, Any]) -> dict[str, Any]:
    """Return names and shapes that a model of this config has on disk, and what it says of its tied pair."""
    os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1")
    import transformers
    from torch import device

    config = transformers.CONFIG_MAPPING[raw["model_type"]].from_dict(
        {name: value for name, value in raw.items() if name not in _LEFT_OUT}
    )
    with contextlib.suppress(Exception):
        config._attn_implementation = "eager"
    with device("meta"):
        model = _build(transformers, config, _class_names(raw))
    embedding, head = (_name_of(model, get) for get in ("get_input_embeddings", "get_output_embeddings"))
    saved = _saved(model)
    return {
        "version": transformers.__version__,
        "class": type(model).__name__,
        "tensors": [[name, list(shape)] for name, shape in saved.items()],
        "embedding": _on_disk(embedding, saved),
        "head": _on_disk(head, saved) or head,
        "tied": _tied(model),
        "prefix": getattr(type(model), "base_model_prefix", ""),
        "buffers": sorted({name for name, _ in model.named_buffers()} - saved.keys()),
        "ignorable": _ignorable(model),
    }


def _ignorable(model: Any) -> list[str]:
    """Return the patterns of names that transformers itself does not miss, or does not mind, in a file."""
    lists = (getattr(type(model), f"_keys_to_ignore_on_{name}", None) for name in ("load_unexpected", "save"))
    return sorted({pattern for found in lists for pattern in found or () if isinstance(pattern, str)})


def _class_names(raw: dict[str, Any]) -> list[str]:
    """Return what a config calls its model's class; version 4 keeps that of a Qwen 2 VL in the config of its text."""
    text = raw.get("text_config")
    lists = (raw.get("architectures"), text.get("architectures") if isinstance(text, dict) else None)
    return [found[0] for found in lists if isinstance(found, list) and found and isinstance(found[0], str)]


def _build(transformers: Any, config: Any, names: list[str]) -> Any:
    """Return a model of the first class named that takes the config; else a language model, else any."""
    for name in names:
        kind = getattr(transformers, name, None) if name.isidentifier() else None
        if not isinstance(kind, type) or not issubclass(kind, transformers.PreTrainedModel):
            continue
        if name is names[0] or getattr(kind, "config_class", None) is type(config):
            return kind(config)
    for auto in (transformers.AutoModelForCausalLM, transformers.AutoModel):
        with contextlib.suppress(ValueError, KeyError):
            return auto.from_config(config, trust_remote_code=False)
    raise ValueError(f"transformers has no model for {config.model_type}")


def _name_of(model: Any, get: str) -> str | None:
    """Return the name of the weight of the input or the output embedding."""
    try:
        weight = getattr(model, get)().weight
    except (AttributeError, NotImplementedError, TypeError):
        return None
    names = [n for n, p in model.named_parameters(remove_duplicate=False) if p is weight]
    modules = {id(module): name for name, module in model.named_modules(remove_duplicate=False)}
    own = modules.get(id(getattr(model, get)()))
    return f"{own}.weight" if own and f"{own}.weight" in names else next(iter(names), None)


def _tied(model: Any) -> bool:
    """Return True if input and output embedding are one once the model is built.

    Not what the config says at its top: where a model of images wraps one of text, the latter's flag decides.
    """
    model.tie_weights()
    try:
        return model.get_output_embeddings().weight is model.get_input_embeddings().weight
    except (AttributeError, NotImplementedError, TypeError):
        return False  # it has no output embedding


def _on_disk(name: str | None, saved: dict[str, tuple[int, ...]]) -> str | None:
    """Return the name on disk: itself, or one whose end is the same where prefixes are renamed or put before it."""
    if name is None or name in saved:
        return name
    parts = name.split(".")
    ends = [".".join(parts[i:]) for i in range(len(parts) - 1)]
    return next((key for end in ends for key in saved if key.endswith("." + end)), None)


def _saved(model: Any) -> dict[str, tuple[int, ...]]:
    """Run `save_pretrained` and return what it would write."""
    from transformers import modeling_utils

    found: dict[str, tuple[int, ...]] = {}

    def record(tensors: dict[str, Any], *_: Any, **__: Any) -> None:
        found.update({name: tuple(tensor.shape) for name, tensor in tensors.items()})

    writer, modeling_utils.safe_save_file = modeling_utils.safe_save_file, record
    try:
        _save(model)
    except AttributeError:  # version 4 looks meta tensors up by names that it has renamed, and not among buffers
        found.clear()
        _save_without_copies(model)
    finally:
        modeling_utils.safe_save_file = writer
    return found


def _save(model: Any, **more: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder, max_shard_size="1000000TB", **more)


def _save_without_copies(model: Any) -> None:
    """Leave copies of tied parameters out first, so that nothing has to be looked up."""
    kept = {id(p) for p in model.parameters()}
    state = {}
    named = dict(model.named_parameters(remove_duplicate=False))
    for name, tensor in model.state_dict().items():
        parameter = named.get(name)
        if parameter is None or id(parameter) in kept:
            state[name] = tensor
            kept.discard(id(parameter))
    apart = {name: object() for name in state}  # each an object of its own, that lives as long as it is looked at
    model.get_parameter = lambda name: apart.setdefault(name, object())
    _save(model, state_dict=state)


if __name__ == "__main__":
    sys.exit(main())
