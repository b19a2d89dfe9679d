from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from ckpt_gui.core.errors import Cancelled, CheckpointError
from tests.cli.conftest import CONFIG, Run, hf_shapes, meta_shapes, write_folder, write_safetensors

HEADS = ("--heads", "2", "--kv-heads", "1")


def listed(folder: Path) -> set[str]:
    return set(os.listdir(folder))


def test_written_and_verified(run: Run, compiled: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    before = compiled.read_bytes()
    status, out, err = run("fix", compiled, "-o", tmp_path / "out", "--to", "hf")
    assert status == 0
    assert "Written and verified: 21/21 tensors" in out
    assert "tokenizer" in out
    assert "Take off `_orig_mod`" in err
    assert "Reorder the rows of q and k" in err
    assert {"model.safetensors", "config.json", "EXPORT_REPORT.json"} <= listed(tmp_path / "out")
    assert compiled.read_bytes() == before
    assert run("check", tmp_path / "out")[0] == 0


def test_head_counts_can_be_given_and_are_asked_for(run: Run, compiled: Path, tmp_path: Path) -> None:
    before = listed(tmp_path)
    status, out, err = run("fix", compiled, "-o", tmp_path / "out", "--to", "hf")
    assert (status, out) == (1, "")
    assert "heads-unknown" in err
    assert "--heads" in err
    assert listed(tmp_path) == before
    assert run("fix", compiled, "-o", tmp_path / "out", "--to", "hf", *HEADS)[0] == 0


def test_same_is_the_default(run: Run, compiled: Path, tmp_path: Path) -> None:
    assert run("fix", compiled, "-o", tmp_path / "out")[0] == 0
    status, out, _ = run("check", tmp_path / "out" / "last.safetensors", "--json", "-")
    assert json.loads(out)["wrappers"] == []
    assert status == 0


def test_torchtune_says_which_model_type(run: Run, model: Path, tmp_path: Path) -> None:
    status, out, _ = run("fix", model, "-o", tmp_path / "out", "--to", "torchtune")
    assert status == 0
    assert "model_type LLAMA2" in out


def test_dry_run_shows_everything_and_writes_nothing(run: Run, compiled: Path, tmp_path: Path) -> None:
    before = listed(tmp_path)
    status, out, err = run("fix", compiled, "-o", tmp_path / "out", "--to", "hf", "--dry-run", *HEADS)
    assert (status, err) == (0, "")
    assert "2 × _orig_mod.layers.N.attention.wq.weight → model.layers.N.self_attn.q_proj.weight" in out
    assert "rotary rows pairs → halves, 2 heads" in out
    assert "_orig_mod.layers.0.attention.wq.weight → model.layers.0.self_attn.q_proj.weight" in out
    assert "`model.safetensors`" in out
    assert out.rstrip().endswith("The export can be made.")
    assert listed(tmp_path) == before


def test_dry_run_needs_no_folder_and_says_no(run: Run, compiled: Path, tmp_path: Path) -> None:
    status, out, _ = run("fix", compiled, "--to", "hf", "--dry-run")
    assert status == 1
    assert "Refused" in out
    full = tmp_path / "full"
    full.mkdir()
    (full / "x").write_text("")
    status, out, _ = run("fix", compiled, "-o", full, "--dry-run")
    assert status == 1
    assert "not empty" in out


def test_dropped_tensors_are_listed_with_reasons(run: Run, tmp_path: Path) -> None:
    path = write_safetensors(tmp_path / "m.safetensors", meta_shapes() | {"rope.freqs": (2,)})
    status, out, _ = run("fix", path, "--to", "hf", "--dry-run", *HEADS)
    assert status == 0
    after = out.partition("Left out\n")[2]
    assert "rope.freqs\n" in after
    assert "rotary frequencies" in after


@pytest.mark.parametrize("breakage", ["missing", "collision"])
def test_blocked_is_refused_and_nothing_is_left(run: Run, tmp_path: Path, breakage: str) -> None:
    shapes = hf_shapes()
    if breakage == "missing":
        shapes = {k: s for k, s in shapes.items() if ".1.mlp" not in k}
    else:
        shapes["_orig_mod.model.norm.weight"] = (8,)
    folder = write_folder(tmp_path / "m", shapes)
    before = listed(tmp_path)
    status, out, err = run("fix", folder, "-o", tmp_path / "out", "--to", "hf")
    assert (status, out) == (1, "")
    assert "Refused" in err
    assert "→" in err
    assert listed(tmp_path) == before


def test_overwrite(run: Run, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "old.txt").write_text("")
    status, _, err = run("fix", model, "-o", out, "--to", "hf")
    assert status == 1
    assert "not empty" in err
    assert listed(out) == {"old.txt"}
    assert run("fix", model, "-o", out, "--to", "hf", "--overwrite")[0] == 0
    assert "old.txt" not in listed(out)


def test_the_source_is_never_the_target(run: Run, model: Path) -> None:
    before = {p.name: p.read_bytes() for p in model.iterdir()}
    for target in (model, model / "inside", model.parent):
        assert run("fix", model, "-o", target, "--to", "hf", "--overwrite")[0] == 1
    assert {p.name: p.read_bytes() for p in model.iterdir()} == before


def test_unreadable_and_usage_are_2(run: Run, model: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.safetensors").write_bytes(b"")
    assert run("fix", tmp_path / "empty.safetensors", "-o", tmp_path / "o")[0] == 2
    assert run("fix", model, "-o", tmp_path / "o", "--base", tmp_path / "absent")[0] == 2
    assert run("fix", model)[0] == 2
    assert run("fix", model, "-o", tmp_path / "o", "--to", "nonsense")[0] == 2
    assert not (tmp_path / "o").exists()


def test_base_gives_config_and_tokenizer(run: Run, compiled: Path, tmp_path: Path) -> None:
    base = tmp_path / "base"
    base.mkdir()
    (base / "config.json").write_text(json.dumps(CONFIG))
    (base / "tokenizer.json").write_text("{}")
    status, out, _ = run("fix", compiled, "-o", tmp_path / "out", "--to", "hf", "--base", base, *HEADS)
    assert status == 0
    assert {"config.json", "tokenizer.json"} <= listed(tmp_path / "out")
    assert "No tokenizer" not in out


def test_shards(run: Run, model: Path, tmp_path: Path) -> None:
    assert run("fix", model, "-o", tmp_path / "out", "--to", "hf", "--max-shard-size", "2kB")[0] == 0
    assert "model.safetensors.index.json" in listed(tmp_path / "out")
    assert run("check", tmp_path / "out")[0] == 0


def test_cast_and_tie_and_sha256(run: Run, model: Path, tmp_path: Path) -> None:
    words = ("--to", "hf", "--dtype", "bf16", "--sha256", "-j", "1", "--tie", "keep")
    assert run("fix", model, "-o", tmp_path / "out", *words)[0] == 0
    assert json.loads(run("check", tmp_path / "out", "--json", "-")[1])["dtypes"] == {"bf16": 21}
    assert "sha256" in (tmp_path / "out" / "EXPORT_REPORT.json").read_text()


def test_reports(run: Run, compiled: Path, tmp_path: Path) -> None:
    for ending in ("html", "md", "json", "sarif"):
        words = ("--to", "hf", "--overwrite", "--report", tmp_path / f"r.{ending}", *HEADS)
        assert run("fix", compiled, "-o", tmp_path / "out", *words)[0] == 0
    value = json.loads((tmp_path / "r.json").read_text())
    assert (value["outcome"], value["result"]["verified"]) == ("written", 21)
    assert len(value["tensors"]) == 21
    assert "q_proj" in (tmp_path / "r.html").read_text()
    assert "q_proj" in (tmp_path / "r.md").read_text()
    assert run("fix", compiled, "-o", tmp_path / "o2", "--to", "hf", "--report", tmp_path / "n.json")[0] == 1
    assert json.loads((tmp_path / "n.json").read_text())["outcome"] == "refused"


def test_a_failed_write_is_1(run: Run, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise CheckpointError("target-refused", "The disk is full.", fix="Free some space.")

    monkeypatch.setattr("ckpt_gui.core.writer.write_export", fail)
    status, out, err = run("fix", model, "-o", tmp_path / "out", "--report", tmp_path / "r.json")
    assert (status, out) == (1, "")
    assert err.endswith("ckpt-gui: The disk is full. Free some space.\n")
    assert json.loads((tmp_path / "r.json").read_text())["outcome"] == "failed"


def test_a_crash_is_1_and_one_sentence(run: Run, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: Any, **__: Any) -> None:
        raise RuntimeError("unforeseen\nthing")

    monkeypatch.setattr("ckpt_gui.core.writer.write_export", crash)
    status, _, err = run("fix", model, "-o", tmp_path / "out")
    assert status == 1
    assert "(RuntimeError: unforeseen thing)" in err
    log = Path(err.rpartition("details are in ")[2].strip().rstrip("."))
    assert "Traceback" in log.read_text()


def test_control_c_stops_and_leaves_nothing(
    run: Run, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ckpt_gui.core.shards as shards

    real = shards.fill_file

    def fill(*args: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        return real(*args)

    before = listed(tmp_path), signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(shards, "fill_file", fill)
    status, out, err = run("fix", model, "-o", tmp_path / "out", "--to", "hf")
    assert (status, out) == (130, "")
    assert err.endswith("ckpt-gui: stopped.\n")
    assert (listed(tmp_path), signal.getsignal(signal.SIGINT)) == before


def test_cancelled_while_comparing(run: Run, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cancel(*_: Any, **__: Any) -> None:
        raise Cancelled

    monkeypatch.setattr("ckpt_gui.cli.fix.understand", cancel)
    assert run("fix", model, "-o", tmp_path / "out")[0] == 130


def stop_in_the_third_file(patch: pytest.MonkeyPatch) -> None:
    """Press Control-C when two files of an export are whole."""
    import ckpt_gui.core.shards as shards

    real, names = shards.fill_file, []

    def fill(path: Path, file: Any, *rest: Any) -> Any:
        names.append(file.name)
        if len(names) == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return real(path, file, *rest)

    patch.setattr(shards, "fill_file", fill)


def test_resume_goes_on_where_it_was_stopped(
    run: Run, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("fix", model, "-o", tmp_path / "out", "--to", "hf", "--max-shard-size", "1kB")
    before = listed(tmp_path)
    with monkeypatch.context() as patch:
        stop_in_the_third_file(patch)
        assert run(*words, "--resume")[0] == 130
    assert len(listed(tmp_path)) > len(before)
    status, _, err = run(*words[:3], tmp_path / "other" / ".." / "out", *words[4:], "--dtype", "fp16", "--resume")
    assert (status, "another export of this source" in err) == (1, True)
    status, out, err = run(*words, "--resume")
    assert (status, "2 files of the interrupted export were whole, and kept." in out) == (0, True), err
    assert "can be removed" not in err
    assert {name for name in listed(tmp_path) if str(name).startswith(".")} == set()


def test_a_leftover_that_can_be_resumed_is_said_to_be(
    run: Run, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("fix", model, "-o", tmp_path / "out", "--to", "hf", "--max-shard-size", "1kB")
    with monkeypatch.context() as patch:
        stop_in_the_third_file(patch)
        run(*words, "--resume")
    status, _, err = run(*words)
    assert (status, "with 2 whole files: --resume goes on with it" in " ".join(err.split())) == (0, True), err


def test_a_cluster_that_is_none_is_said_before_anything_else(compiled: Path, tmp_path: Path, run: Run) -> None:
    status, out, err = run("fix", compiled, "-o", tmp_path / "out", "--to", "hf", "--cluster", "http://x")
    assert (status, out) == (2, "")
    assert "http://x names no cluster" in err
