"""The short way for scripts: what is promised in the README holds, without torch and without Qt."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ckpt_gui import CheckpointError, compare, diff, normalise, open_checkpoint, stats, write
from tests.core import models

SAMPLE = Path(__file__).resolve().parents[2] / "resources" / "sample" / "tiny-llama-compiled.pt"
HEAD, EMBEDDING = "_orig_mod.output.weight", "_orig_mod.tok_embeddings.weight"

SCRIPT = """
import resource, sys
from ckpt_gui import normalise, open_checkpoint, write
with open_checkpoint(sys.argv[1]) as source:
    write(normalise(source), sys.argv[2], layout="hf")
heavy = {"torch", "PySide6", "matplotlib"} & sys.modules.keys()
assert not heavy, heavy
"""


def test_write_compares_the_pair_and_verifies(tmp_path: Path) -> None:
    with open_checkpoint(SAMPLE) as source:
        result = write(normalise(source), tmp_path / "out", layout="hf")
    assert (result.tensors, result.verified) == (29, 29)
    assert {"config.json", "model.safetensors", "EXPORT_REPORT.json"} == set(result.files)
    with open_checkpoint(tmp_path / "out") as again:
        assert normalise(again).findings == ()


def test_an_export_imports_neither_torch_nor_qt(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(SAMPLE), str(tmp_path / "out")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_diff_and_stats() -> None:
    with open_checkpoint(SAMPLE) as source:
        assert diff(normalise(source)).summary() == "29 match · 0 missing · 0 extra"
        assert stats(source, HEAD).count == 256 * 48
        assert stats(source, HEAD, EMBEDDING).relation == "same storage"
        with pytest.raises(CheckpointError, match="no tensor `nowhere`"):
            stats(source, "nowhere")


def test_two_checkpoints(tmp_path: Path) -> None:
    """The sample beside its own export: the head, tied by its bytes, is left out there."""
    with open_checkpoint(SAMPLE) as source:
        plan = normalise(source)
        write(plan, tmp_path / "out", layout="hf")
        with open_checkpoint(tmp_path / "out") as made:
            found = compare(plan, normalise(made), values=True, workers=1)
            assert (found.same, dict(found.counts)) == (True, {"equal": 29, "tied": 1})
            assert compare(plan, normalise(made)).values is False


def test_unknown_names_are_not_there() -> None:
    import ckpt_gui

    assert "write" in dir(ckpt_gui)
    with pytest.raises(AttributeError, match="nothing_like_this"):
        _ = ckpt_gui.nothing_like_this


def test_cut_for_ranks(tmp_path: Path) -> None:
    with open_checkpoint(SAMPLE) as source:
        result = write(normalise(source), tmp_path / "out", "meta", model_parallel=2)
    assert {"consolidated.00.pth", "consolidated.01.pth", "params.json"} <= set(result.files)
    with open_checkpoint(tmp_path / "out") as again:
        assert normalise(again).source.ranks == ("consolidated.00.pth", "consolidated.01.pth")
        back = write(normalise(again), tmp_path / "back", "hf")
    assert (back.tensors, back.verified) == (29, 29)


def test_decisions_of_a_script(tmp_path: Path) -> None:
    with open_checkpoint(SAMPLE) as source:
        plan = normalise(source)
        kept = write(plan, tmp_path / "kept", "hf", tie="keep", dtype="fp16", max_shard_bytes="20KB", sha256=True)
        assert kept.tensors == 30
        assert len([name for name in kept.files if name.endswith(".safetensors")]) > 1
        assert all("sha256" in row for row in kept.report["files"])
        with pytest.raises(CheckpointError, match="no tensor `nowhere`"):
            write(plan, tmp_path / "none", drop=["nowhere"])
        with pytest.raises(CheckpointError, match="choose auto, keep"):
            write(plan, tmp_path / "none", tie="maybe")
        with pytest.raises(CheckpointError, match="5 apples is no size"):
            write(plan, tmp_path / "none", max_shard_bytes="5 apples")
        with pytest.raises(CheckpointError, match="is no folder"):
            write(plan, tmp_path / "none", base=tmp_path / "nowhere")
        with pytest.raises(CheckpointError, match="not empty"):
            write(plan, tmp_path / "kept", "hf")
        again = write(plan, tmp_path / "kept", "hf", overwrite=True, container="torch")
    assert "pytorch_model.bin" in again.files
    assert not (tmp_path / "none").exists()


def test_a_tensor_left_out(tmp_path: Path) -> None:
    state = models.state("hf") | {"extra.weight": np.ones(3, np.float32)}
    with open_checkpoint(models.save(tmp_path / "in", state, config=models.config())) as source:
        write(normalise(source), tmp_path / "out", drop=["extra.weight"])
    assert models.opened(tmp_path / "out") == models.as_bytes(models.state("hf"))


def test_a_base_for_what_is_missing(tmp_path: Path) -> None:
    models.save(tmp_path / "base", models.state("hf"), config=models.config())
    (tmp_path / "base" / "tokenizer.json").write_text("{}")
    bare = models.save(tmp_path / "bare", models.state("meta"), name="consolidated.00.pth")
    with open_checkpoint(bare) as source:
        write(normalise(source), tmp_path / "out", "hf", base=tmp_path / "base")
    assert models.opened(tmp_path / "out") == models.as_bytes(models.state("hf"))
    assert {"config.json", "tokenizer.json"} <= {path.name for path in (tmp_path / "out").iterdir()}


def test_an_adapter_is_merged(tmp_path: Path) -> None:
    state = models.state("hf")
    base = models.save(tmp_path / "base", state, config=models.config())
    name = "model.layers.0.mlp.down_proj"
    rows, columns = state[f"{name}.weight"].shape
    lora = {
        f"base_model.model.{name}.lora_A.weight": np.ones((2, columns), np.float32),
        f"base_model.model.{name}.lora_B.weight": np.ones((rows, 2), np.float32),
    }
    adapter = models.save(tmp_path / "adapter", lora, name="adapter_model.safetensors")
    with open_checkpoint(base) as source:
        write(normalise(source), tmp_path / "out", adapter=adapter, lora_alpha=4.0)
    changed = state | {f"{name}.weight": state[f"{name}.weight"] + 4}
    assert models.opened(tmp_path / "out") == models.as_bytes(changed)
