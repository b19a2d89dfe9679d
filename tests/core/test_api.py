"""The short way for scripts: what is promised in the README holds, without torch and without Qt."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ckpt_gui import CheckpointError, diff, normalise, open_checkpoint, stats, write

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


def test_unknown_names_are_not_there() -> None:
    import ckpt_gui

    assert "write" in dir(ckpt_gui)
    with pytest.raises(AttributeError, match="nothing_like_this"):
        _ = ckpt_gui.nothing_like_this
