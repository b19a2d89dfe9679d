"""The real model, broken in the ways in which training scripts break it, by torch and torchtune alone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torchtune.models import convert_weights
from torchtune.models.llama3_2 import llama3_2
from transformers import AutoModelForCausalLM

from scripts.make_real_model import CONFIG, HEADS, KV_HEADS

State = dict[str, torch.Tensor]
PARAMS = {
    "dim": 576,
    "multiple_of": 256,
    "n_heads": HEADS,
    "n_kv_heads": KV_HEADS,
    "n_layers": 30,
    "norm_eps": 1e-05,
    "rope_theta": 100000.0,
    "vocab_size": 49152,
}
EMBEDDING, HEAD = "tok_embeddings.weight", "output.weight"


@dataclass(frozen=True, slots=True)
class Case:
    """A broken checkpoint.

    Attributes:
        name: Its folder.
        file: The file in it.
        make: Writes it, from the model's folder into the case's.
        codes: Findings that `check` must have.
        options: Options of `fix` beside the usual ones; `{model}` stands for the model's folder.
    """

    name: str
    file: str
    make: Callable[[Path, Path], None]
    codes: frozenset[str] = frozenset()
    options: tuple[str, ...] = ()


def to_torchtune(model: Path) -> State:
    """Convert by torchtune's own function."""
    state = load_file(model / "model.safetensors")
    dim, head_dim = CONFIG["hidden_size"], CONFIG["head_dim"]
    return convert_weights.hf_to_tune(state, HEADS, KV_HEADS, dim, head_dim)  # type: ignore[no-any-return]


def compiled(model: Path, out: Path) -> None:
    """A compiled model's state dict, config.json beside it: the head is stored, as an alias of the embedding."""
    state = torch.compile(_load(model)).state_dict()
    torch.save(state, out / "compiled.pt")
    shutil.copy(model / "config.json", out)


def nested(model: Path, out: Path) -> None:
    """What a training loop with DDP and compile saves, beside the state of an optimizer that made steps."""
    module = _load(model)
    optimizer = torch.optim.AdamW(module.parameters(), lr=0.0, weight_decay=0.0)
    for parameter in module.parameters():
        parameter.grad = torch.full_like(parameter, 1e-3)
    optimizer.step()
    state = {f"module.{key}": value for key, value in torch.compile(module).state_dict().items()}
    torch.save({"step": 1, "optimizer": optimizer.state_dict(), "model": state}, out / "step-1.pt")


def meta_alias(model: Path, out: Path) -> None:
    """Meta's file of a tied model; both names share one storage."""
    state = convert_weights.tune_to_meta(to_torchtune(model))
    _save_meta(state | {HEAD: state[EMBEDDING]}, out)


def meta_copy(model: Path, out: Path) -> None:
    """Meta's file of a tied model; the head has bytes of its own."""
    state = convert_weights.tune_to_meta(to_torchtune(model))
    _save_meta(state | {HEAD: state[EMBEDDING].clone()}, out)


def torchtune_compiled(model: Path, out: Path) -> None:
    """torchtune's layout from torchtune's own model, compiled."""
    with torch.device("meta"):
        module = llama3_2(
            vocab_size=CONFIG["vocab_size"],
            num_layers=CONFIG["num_hidden_layers"],
            num_heads=HEADS,
            num_kv_heads=KV_HEADS,
            embed_dim=CONFIG["hidden_size"],
            max_seq_len=64,
            intermediate_dim=CONFIG["intermediate_size"],
        )
    module.load_state_dict(to_torchtune(model), strict=True, assign=True)
    torch.save(torch.compile(module).state_dict(), out / "torchtune.pt")


def _load(model: Path) -> Any:
    return AutoModelForCausalLM.from_pretrained(model, dtype=torch.bfloat16)


def _save_meta(state: State, out: Path) -> None:
    torch.save(state, out / "consolidated.00.pth")
    (out / "params.json").write_text(json.dumps(PARAMS), encoding="utf-8")


WRAPPED = frozenset({"wrapper-prefix"})
CASES = (
    Case("compiled", "compiled.pt", compiled, WRAPPED),
    Case("nested", "step-1.pt", nested, WRAPPED | {"nested-state-dict"}, ("--base", "{model}")),
    Case("meta-alias", "consolidated.00.pth", meta_alias),
    Case("meta-copy", "consolidated.00.pth", meta_copy),
    Case("torchtune-compiled", "torchtune.pt", torchtune_compiled, WRAPPED, ("--config", "{model}/config.json")),
)
