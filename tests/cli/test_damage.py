"""Damage on the command line: checksums compared on request, what is whole saved on request and named as a part."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from ckpt_gui.cli.main import main
from tests import builders as b

SAMPLE = Path(__file__).resolve().parents[2] / "resources" / "sample"


@pytest.fixture
def flipped(tmp_path: Path) -> Path:
    """The sample with one bit of a tensor flipped: torch loads it without a word."""
    raw = bytearray((SAMPLE / "tiny-llama-compiled.pt").read_bytes())
    raw[200_000] ^= 1
    path = tmp_path / "flipped.pt"
    path.write_bytes(raw)
    (tmp_path / "params.json").write_text((SAMPLE / "params.json").read_text())
    return path


def test_deep_finds_a_flipped_bit(flipped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(flipped), "--json", "-"]) == 1
    assert "crc-mismatch" not in capsys.readouterr().out
    assert main(["check", str(flipped), "--deep", "--json", "-"]) == 1
    found = {f["code"]: f for f in json.loads(capsys.readouterr().out)["findings"]}
    assert "layers.1.ffn_norm.weight" in found["crc-mismatch"]["message"]


def test_fix_refuses_a_flipped_bit(flipped: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fix", str(flipped), "-o", str(tmp_path / "out"), "--to", "hf"]) == 1
    assert "layers.1.ffn_norm.weight" in capsys.readouterr().err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["flipped.pt", "params.json"]


def test_salvage_writes_what_is_whole_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fix", str(SAMPLE / "tiny-llama-compiled.pt"), "-o", str(tmp_path / "hf"), "--to", "hf"]) == 0
    cut = tmp_path / "cut.safetensors"
    cut.write_bytes((tmp_path / "hf" / "model.safetensors").read_bytes()[:200_000])
    assert main(["fix", str(cut), "-o", str(tmp_path / "out"), "--to", "same"]) == 2
    assert not (tmp_path / "out").exists()
    capsys.readouterr()
    assert main(["fix", str(cut), "-o", str(tmp_path / "out"), "--to", "same", "--salvage"]) == 0
    out, err = capsys.readouterr()
    assert "out-partial" in out
    assert "20 of 29 tensors are whole" in err
    assert "With --salvage the export goes on without them" in out + err
    assert "nothing can be written" not in out + err
    assert not (tmp_path / "out").exists()
    report = json.loads((tmp_path / "out-partial" / "EXPORT_REPORT.json").read_text())
    assert len(report["tensors"]) == 20
    assert any("9 are lost" in note for note in report["notes"])
    assert "nothing can be written" not in json.dumps(report)


def test_a_tensor_without_a_name_is_called_something(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ones = np.ones((3, 2), np.float32)
    path = b.write(tmp_path / "x.safetensors", b.safetensors_bytes({"": ones, "w": ones}))
    assert main(["check", str(path), "--report", str(tmp_path / "r.md")]) == 1
    assert "it starts with `(no name)`, `w`." in capsys.readouterr().out
    assert "it starts with `(no name)`, `w`" in (tmp_path / "r.md").read_text()
