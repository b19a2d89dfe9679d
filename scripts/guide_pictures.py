"""Make a checkpoint with a fault of each kind, and draw the pictures of the user guide from them.

`python scripts/guide_pictures.py [--out docs/guide/pictures] [--only KIND …] [--keep FOLDER]`. Every page of docs/guide
has a picture of the window on such a checkpoint; they are drawn by the program itself, so that they never go stale.
With `--keep` the checkpoints are left in a folder, to try what the pages say.
"""

from __future__ import annotations

import argparse
import json
import os
import struct
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from screenshots import ROOT, SAMPLE, draw, save, split

Header = dict[str, dict]
Q = "model.layers.{}.self_attn.{}_proj.weight"


@dataclass(frozen=True, slots=True)
class Example:
    """A fault of a kind.

    Attributes:
        kind: Letter of the kind, as in `ckpt_gui.core.explain.KINDS`.
        name: Name of the picture, and of the checkpoint.
        make: Makes the checkpoint from a sound one in a folder of its own; returns what is to be opened.
        view: What the window is asked to show besides; {whole} is the sound one.
    """

    kind: str
    name: str
    make: Callable[[Path, Path], Path]
    view: tuple[str, ...] = ()


def make_whole(folder: Path) -> Path:
    """Write the sound checkpoint that the faulty ones are made from; return its folder."""
    from ckpt_gui import normalise, open_checkpoint, write

    with open_checkpoint(ROOT / SAMPLE) as source:
        write(normalise(source), folder, layout="hf")
    return folder


def cut_short(whole: Path, out: Path) -> Path:
    """Make a download that was interrupted."""
    file = out / "model.safetensors"
    file.write_bytes((whole / "model.safetensors").read_bytes()[:-50_000])
    return file


def head_trained_apart(whole: Path, out: Path) -> Path:
    """Make a model whose config ties a head that is not equal to the embedding."""
    header, data = split(whole / "model.safetensors")
    embedding = header["model.embed_tokens.weight"]
    begin, end = embedding["data_offsets"]
    head = bytes(b ^ 1 if i % 64 == 0 else b for i, b in enumerate(data[begin:end]))
    extra = {**embedding, "data_offsets": [len(data), len(data) + len(head)]}
    save(out / "model", {**header, "lm_head.weight": extra}, data + head, whole)
    return out / "model"


def names_of_torchtune(whole: Path, out: Path) -> Path:
    """Make a fine-tune as torchtune saves it."""
    from ckpt_gui import normalise, open_checkpoint, write

    with open_checkpoint(whole) as source:
        write(normalise(source), out / "model", layout="torchtune")
    return out / "model"


def compiled_and_wrapped(whole: Path, out: Path) -> Path:
    """Make a state dict saved from DDP around a compiled model."""
    header, data = split(whole / "model.safetensors")
    save(out / "model", {f"module._orig_mod.{key}": entry for key, entry in header.items()}, data, whole)
    return out / "model"


def one_rank_of_two(whole: Path, out: Path) -> Path:
    """Make a set of tensor-parallel files of which one was not copied."""
    from ckpt_gui import normalise, open_checkpoint, write

    with open_checkpoint(whole) as source:
        write(normalise(source), out / "model", layout="meta", model_parallel=2)
    (out / "model" / "consolidated.01.pth").unlink()
    return out / "model"


class _Runs:
    """What a hostile file holds: loading it would run a command."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return os.system, ("echo this would have run",)


def objects_in_the_pickle(whole: Path, out: Path) -> Path:
    """Make a checkpoint that would run a command when it is loaded, and holds arguments beside the weights."""
    import torch

    what = {"model": _tensors(whole), "args": SimpleNamespace(lr=0.001), "callback": _Runs()}
    torch.save(what, out / "last.ckpt")
    return out / "last.ckpt"


def slices_of_larger_tensors(whole: Path, out: Path) -> Path:
    """Make a file with a slice of a larger tensor: torch saves all of what it was cut from."""
    import torch

    name, tensors = "model.embed_tokens.weight", _tensors(whole)
    tensors[name] = torch.cat([tensors[name]] * 64)[: len(tensors[name])]
    torch.save(tensors, out / "pruned.pt")
    (out / "config.json").write_bytes((whole / "config.json").read_bytes())
    return out / "pruned.pt"


def adapter_without_scale(whole: Path, out: Path) -> Path:
    """Make a LoRA adapter that was saved apart from its config."""
    import torch
    from safetensors.torch import save_file

    header, _ = split(whole / "model.safetensors")
    tensors = {}
    for layer in range(3):
        rows, columns = header[Q.format(layer, "q")]["shape"]
        name = "base_model.model." + Q.format(layer, "q").removesuffix(".weight")
        tensors[f"{name}.lora_A.weight"] = torch.full((4, columns), 0.01 * (layer + 1))
        tensors[f"{name}.lora_B.weight"] = torch.full((rows, 4), 0.02 * (layer + 1))
    (out / "adapter").mkdir()
    save_file(tensors, out / "adapter" / "adapter_model.safetensors", metadata={"format": "pt"})
    return out / "adapter"


def shard_missing(whole: Path, out: Path) -> Path:
    """Make a sharded model of which a shard was not downloaded."""
    from ckpt_gui import normalise, open_checkpoint, write

    with open_checkpoint(whole) as source:
        write(normalise(source), out / "model", layout="hf", max_shard_bytes=60_000)
    sorted((out / "model").glob("*.safetensors"))[1].unlink()
    return out / "model"


def vocabulary_resized(whole: Path, out: Path) -> Path:
    """Make a model whose config was not told that tokens were added."""
    header, data = split(whole / "model.safetensors")
    save(out / "model", header, data, whole)
    config = json.loads((whole / "config.json").read_text(encoding="utf-8"))
    config["vocab_size"] -= 6
    (out / "model" / "config.json").write_text(json.dumps(config, indent=2), encoding="utf-8")
    return out / "model"


def rows_never_reordered(whole: Path, out: Path) -> Path:
    """Make a conversion that changed the names and left the rotary rows of q and k as they were."""
    header, data = split(whole / "model.safetensors")
    config = json.loads((whole / "config.json").read_text(encoding="utf-8"))
    changed = bytearray(data)
    for layer in range(config["num_hidden_layers"]):
        for name, heads in (("q", config["num_attention_heads"]), ("k", config["num_key_value_heads"])):
            entry = header[Q.format(layer, name)]
            begin, end = entry["data_offsets"]
            changed[begin:end] = _as_pairs(data[begin:end], entry["shape"], heads)
    save(out / "model", header, bytes(changed), whole)
    return out / "model"


def two_types(whole: Path, out: Path) -> Path:
    """Make a model half of which was saved in fp32."""
    header, data = split(whole / "model.safetensors")
    wide, more = dict(header), bytearray(data)
    for key, entry in header.items():
        if ".mlp." in key:
            begin, end = entry["data_offsets"]
            values = b"".join(b"\0\0" + data[i : i + 2] for i in range(begin, end, 2))  # bf16 is the upper half
            wide[key] = {**entry, "dtype": "F32", "data_offsets": [len(more), len(more) + len(values)]}
            more += values
    save(out / "model", wide, bytes(more), whole)
    return out / "model"


def quantised(whole: Path, out: Path) -> Path:
    """Make what a save of a 4-bit model leaves behind: codes, and the tables to read them."""
    header, data = split(whole / "model.safetensors")
    made, more = dict(header), bytearray(data)

    def add(key: str, dtype: str, shape: list[int], values: bytes) -> None:
        made[key] = {"dtype": dtype, "shape": shape, "data_offsets": [len(more), len(more) + len(values)]}
        more.extend(values)

    for layer in range(3):
        key = Q.format(layer, "q")
        rows, columns = header[key]["shape"]
        add(key, "U8", [rows * columns // 2, 1], bytes(i * 7 % 256 for i in range(rows * columns // 2)))
        add(f"{key}.absmax", "F32", [rows * columns // 64], struct.pack("<f", 0.5) * (rows * columns // 64))
        add(f"{key}.quant_map", "F32", [16], struct.pack("<16f", *(i / 8 - 1 for i in range(16))))
        state = json.dumps({"quant_type": "nf4", "blocksize": 64, "shape": [rows, columns]}).encode()
        add(f"{key}.quant_state.bitsandbytes__nf4", "U8", [len(state)], state)
    save(out / "model", made, bytes(more), whole)
    return out / "model"


def one_level_down(whole: Path, out: Path) -> Path:
    """Make a checkpoint of a trainer that keeps the weights twice: as trained, and averaged."""
    import torch

    weights = _tensors(whole)
    averaged = {key: tensor * 0.5 for key, tensor in weights.items()}
    torch.save({"state_dict": weights, "ema": averaged, "epoch": 3, "lr": 0.0003}, out / "last.pt")
    (out / "config.json").write_bytes((whole / "config.json").read_bytes())
    return out / "last.pt"


EXAMPLES: tuple[Example, ...] = (
    Example("A", "damaged-files", cut_short),
    Example("B", "tied-embeddings", head_trained_apart, ("--view", "tied")),
    Example("C", "names-of-another-program", names_of_torchtune),
    Example("D", "wrapper-prefixes", compiled_and_wrapped),
    Example("E", "parts-of-a-run", one_rank_of_two),
    Example("F", "pickles-and-old-containers", objects_in_the_pickle),
    Example("G", "rules-of-the-container", slices_of_larger_tensors),
    Example("H", "lora-adapters", adapter_without_scale),
    Example("I", "shards-and-index", shard_missing),
    Example("J", "vocabulary-rows", vocabulary_resized),
    Example("K", "values-in-another-order", rows_never_reordered, ("--against", "{whole}")),
    Example("L", "element-types", two_types),
    Example("M", "quantised-left-overs", quantised),
    Example("N", "one-level-down", one_level_down),
)


def make(example: Example, whole: Path, folder: Path) -> Path:
    """Make the checkpoint of an example in a folder; return what is to be opened."""
    place = folder / example.name
    place.mkdir(parents=True)
    return example.make(whole, place)


def _tensors(whole: Path) -> dict[str, Any]:
    from safetensors.torch import load_file

    return load_file(whole / "model.safetensors")


def _as_pairs(data: bytes, shape: list[int], heads: int) -> bytes:
    """Return rows of halves as Meta keeps them: those of a rotary pair beside each other."""
    rows, columns = shape
    wide, size = 2 * columns, rows // heads
    order = [h * size + (i % 2) * (size // 2) + i // 2 for h in range(heads) for i in range(size)]
    return b"".join(data[row * wide : (row + 1) * wide] for row in order)


def main() -> int:
    """Draw the pictures and print their names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "guide" / "pictures")
    parser.add_argument("--only", nargs="*", metavar="KIND", default=())
    parser.add_argument("--keep", type=Path, help="leave the checkpoints here")
    parser.add_argument("--schemes", nargs="*", default=("light", "dark"))
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.keep or Path(scratch)
        whole = make_whole(folder / "whole")
        for example in EXAMPLES:
            if not args.only or example.kind in args.only:
                opened = make(example, whole, folder)
                words = [str(opened.relative_to(folder)), *(word.format(whole="whole") for word in example.view)]
                for scheme in args.schemes:
                    draw(args.out / f"{example.name}-{scheme}.png", words, scheme, "1", Path(scratch), at=folder)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
