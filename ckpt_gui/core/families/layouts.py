"""What is true of a layout whatever the family: its title, its files, the config that goes with it."""

from __future__ import annotations

from collections.abc import Mapping

from ckpt_gui.dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LayoutKind:
    """A way of storing models.

    Attributes:
        name: As in flags and JSON.
        title: For people.
        container: The usual one, `safetensors` or `torch`.
        files: Name of the weights' file by container; `{suffix}` where shards are usual.
        config: The config file that its tools read: `config.json`, `params.json`, or empty.
        loader: What reads it, for people.
        section: Under which key of a torch file its tools look for the weights; empty if they are all there is.
    """

    name: str
    title: str
    container: str
    files: Mapping[str, str]
    config: str
    loader: str
    section: str = ""


KINDS: Mapping[str, LayoutKind] = {
    kind.name: kind
    for kind in (
        LayoutKind(
            "hf",
            "Hugging Face",
            "safetensors",
            {"safetensors": "model{suffix}.safetensors", "torch": "pytorch_model{suffix}.bin"},
            "config.json",
            "transformers and most others",
        ),
        LayoutKind(
            "meta",
            "Meta",
            "torch",
            {"torch": "consolidated.00.pth", "safetensors": "consolidated.safetensors"},
            "params.json",
            "Meta's own programs, mistral-inference",
        ),
        LayoutKind(
            "torchtune",
            "torchtune",
            "torch",
            {"torch": "torchtune_model.pt", "safetensors": "torchtune_model.safetensors"},
            "config.json",
            "torchtune",
        ),
        LayoutKind(
            "torchtune-0.6.1",
            "torchtune 0.6.1's converter",
            "torch",
            {"torch": "torchtune_model.pt", "safetensors": "torchtune_model.safetensors"},
            "config.json",
            "torchtune 0.6.1, to convert it back",
        ),
        LayoutKind(
            "litgpt",
            "litgpt",
            "torch",
            {"torch": "lit_model.pth", "safetensors": "lit_model.safetensors"},
            "config.json",
            "litgpt",
        ),
        LayoutKind(
            "gpt-fast",
            "gpt-fast",
            "torch",
            {"torch": "model.pth", "safetensors": "model.safetensors"},
            "config.json",
            "gpt-fast",
        ),
        LayoutKind(
            "torchtitan",
            "torchtitan",
            "torch",
            {"torch": "torchtitan_model.pt", "safetensors": "torchtitan_model.safetensors"},
            "config.json",
            "torchtitan",
        ),
        LayoutKind(
            "torchtitan-old",
            "torchtitan (older)",
            "torch",
            {"torch": "torchtitan_model.pt", "safetensors": "torchtitan_model.safetensors"},
            "config.json",
            "older torchtitan",
        ),
        LayoutKind(
            "nanogpt",
            "nanoGPT",
            "torch",
            {"torch": "nanogpt_model.pt", "safetensors": "nanogpt_model.safetensors"},
            "config.json",
            "nanoGPT",
        ),
        LayoutKind(
            "openai",
            "OpenAI",
            "safetensors",
            {"torch": "model.pt", "safetensors": "model{suffix}.safetensors"},
            "config.json",
            "OpenAI's gpt-oss",
        ),
        LayoutKind(
            "deepseek",
            "DeepSeek",
            "safetensors",
            {"torch": "model0-mp1.pt", "safetensors": "model0-mp1.safetensors"},
            "config.json",
            "DeepSeek's own programs, for one rank",
        ),
        LayoutKind(
            "google",
            "Google",
            "torch",
            {"torch": "model.ckpt", "safetensors": "model.safetensors"},
            "config.json",
            "gemma_pytorch",
            "model_state_dict",
        ),
        LayoutKind(
            "hf-v5",
            "Hugging Face (transformers 5)",
            "safetensors",
            {"safetensors": "model{suffix}.safetensors", "torch": "pytorch_model{suffix}.bin"},
            "config.json",
            "transformers 5 alone",
        ),
        LayoutKind(
            "hf-memory",
            "transformers 4 in memory",
            "safetensors",
            {"safetensors": "model{suffix}.safetensors", "torch": "pytorch_model{suffix}.bin"},
            "config.json",
            "transformers 4.52 and later",
        ),
        LayoutKind(
            "mixtral-release",
            "Mixtral's first release",
            "torch",
            {"torch": "consolidated.00.pt", "safetensors": "consolidated.safetensors"},
            "params.json",
            "nothing but converters of its time",
        ),
        LayoutKind(
            "hf-fused",
            "transformers 5 in memory",
            "safetensors",
            {"safetensors": "model{suffix}.safetensors", "torch": "pytorch_model{suffix}.bin"},
            "config.json",
            "transformers 5 with save_original_format=False",
        ),
        LayoutKind(
            "peft-adapter",
            "PEFT adapter",
            "safetensors",
            {"safetensors": "adapter_model.safetensors", "torch": "adapter_model.bin"},
            "adapter_config.json",
            "peft",
        ),
        LayoutKind(
            "torchtune-adapter",
            "torchtune adapter",
            "torch",
            {"torch": "adapter_model.pt", "safetensors": "adapter_model.safetensors"},
            "adapter_config.json",
            "torchtune",
        ),
        LayoutKind(
            "litgpt-adapter",
            "litgpt adapter",
            "torch",
            {"torch": "lit_model.pth.lora", "safetensors": "lit_model_lora.safetensors"},
            "",
            "litgpt",
        ),
    )
}


_READ_ONLY = {"gguf": "GGUF"}


def title_of(name: str) -> str:
    """Return a layout's name for people."""
    return KINDS[name].title if name in KINDS else _READ_ONLY.get(name, name)
