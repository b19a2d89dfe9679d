"""The real model, poisoned in its values: `check --deep` must point at each fault, and not at the healthy model."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

State = dict[str, torch.Tensor]
_MLP = "model.layers.{}.mlp.{}.weight"


@dataclass(frozen=True, slots=True)
class Poison:
    """A fault in the values.

    Attributes:
        name: What it is.
        key: The tensor concerned.
        change: Puts it into the state.
        code: The finding it must make.
        words: What the finding must say.
    """

    name: str
    key: str
    change: Callable[[State, str], None]
    code: str
    words: str


def nan(state: State, key: str) -> None:
    """One NaN."""
    state[key][411, 77] = float("nan")


def zero_row(state: State, key: str) -> None:
    """One row of zeros."""
    state[key][123] = 0


def scaled(state: State, key: str) -> None:
    """One matrix thirty times as large."""
    state[key] *= 30


def overflow(state: State, key: str) -> None:
    """A value that bf16 holds and fp16 does not, cast with the rest."""
    state[key][5, 6] = 70_000.0
    for name in state:
        state[name] = state[name].half()


POISONS = (
    Poison("one NaN", _MLP.format(7, "up_proj"), nan, "non-finite", "1 NaN, it stands at row 411, column 77"),
    Poison("one row of zeros", _MLP.format(12, "gate_proj"), zero_row, "dead-rows", "row 123, which is zero"),
    Poison("one matrix × 30", _MLP.format(20, "down_proj"), scaled, "outlier", "times as large as in other layers"),
    Poison("bf16 → fp16", _MLP.format(3, "down_proj"), overflow, "cast-overflow", "at row 5, column 6"),
)
# What the healthy model has, and so every copy: tokens 7 to 16 and five others were never in its training text.
USUAL = {"no-checksums", "untrained-rows"}


def deep(command: list[str], path: Path) -> list[dict[str, Any]]:
    """Return the findings of `check --deep`."""
    done = subprocess.run([*command, "check", path, "--deep", "--json", "-"], capture_output=True, text=True)
    return list(json.loads(done.stdout)["findings"])


def faults(command: list[str], model: Path, work: Path) -> list[str]:
    """Return what is wrong with the findings of the model and of its poisoned copies, a sentence each."""
    wrong = [f"healthy: {f['code']}: {f['message']}" for f in deep(command, model) if f["code"] not in USUAL]
    for poison in POISONS:
        folder = work / "poisoned"
        shutil.copytree(model, folder, dirs_exist_ok=True)
        state = load_file(model / "model.safetensors")
        poison.change(state, poison.key)
        save_file(state, folder / "model.safetensors", {"format": "pt"})
        found = [f for f in deep(command, folder) if f["code"] not in {*USUAL, "config-mismatch"}]
        if [(f["code"], f["keys"]) for f in found] != [(poison.code, [poison.key])]:
            wrong.append(f"{poison.name}: found {[(f['code'], f['message']) for f in found]}")
        elif poison.words not in found[0]["message"]:
            wrong.append(f"{poison.name}: said {found[0]['message']}")
        shutil.rmtree(folder)
    return wrong
