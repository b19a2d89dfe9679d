from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ckpt_gui.cli import terminal
from ckpt_gui.core.plan import Plan
from ckpt_gui.core.scan import Scan, scan
from tests.cli.conftest import CONFIG, Run, fill, hf_shapes, meta_shapes, write_folder, write_safetensors

FIELDS: dict[str, type | tuple[type, ...]] = {
    "schema": int, "path": str, "status": str, "container": (str, type(None)), "layout": (str, type(None)),
    "family": (str, type(None)), "dims": dict, "section": list, "wrappers": list, "files": list, "tensors": int,
    "parameters": int, "bytes": int, "dtypes": dict, "tied": dict, "findings": list,
}  # fmt: skip


def assert_schema(value: dict[str, Any]) -> None:
    """Hold a JSON report to schema 1."""
    assert list(value) == list(FIELDS)
    for name, kind in FIELDS.items():
        assert isinstance(value[name], kind), name
    assert value["schema"] == 1
    assert value["status"] in ("clean", "fixable", "blocked", "unreadable")
    assert list(value["tied"]) == ["flag", "embedding", "head", "state"]
    assert value["tied"]["state"] in ("absent", "same-storage", "equal", "different", "unchecked")
    for finding in value["findings"]:
        assert list(finding) == ["code", "severity", "message", "keys", "count", "fix"]
        assert finding["severity"] in ("info", "warning", "error")
        assert len(finding["keys"]) == min(finding["count"], 20)


def check_json(run: Run, *words: object) -> tuple[int, dict[str, Any]]:
    status, out, err = run("check", *words, "--json", "-")
    assert err == ""
    value = json.loads(out)
    assert_schema(value)
    return status, value


def codes(value: dict[str, Any]) -> list[str]:
    return [f["code"] for f in value["findings"]]


def test_a_clean_model(run: Run, model: Path) -> None:
    status, value = check_json(run, model)
    assert status == 0
    assert value["status"] == "clean"
    assert (value["container"], value["layout"], value["family"]) == ("safetensors", "hf", "llama")
    assert (value["files"], value["section"], value["wrappers"]) == (["model.safetensors"], [], [])
    assert value["dims"]["heads"] == 2
    assert value["tensors"] == len(hf_shapes())
    assert value["bytes"] == 4 * value["parameters"]
    assert value["dtypes"] == {"fp32": value["tensors"]}
    assert value["tied"] == {
        "flag": False, "embedding": "model.embed_tokens.weight", "head": "lm_head.weight", "state": "different",
    }  # fmt: skip
    assert all(f["severity"] == "info" for f in value["findings"])


def test_wrappers_are_fixable(run: Run, compiled: Path) -> None:
    status, value = check_json(run, compiled)
    assert (status, value["status"], value["wrappers"]) == (1, "fixable", ["_orig_mod"])
    wrapper = next(f for f in value["findings"] if f["code"] == "wrapper-prefix")
    assert (wrapper["count"], len(wrapper["keys"])) == (len(meta_shapes()), 20)


def test_a_missing_layer_blocks(run: Run, tmp_path: Path) -> None:
    shapes = {k: s for k, s in hf_shapes(3).items() if ".1." not in k}
    status, value = check_json(run, write_folder(tmp_path / "m", shapes, CONFIG | {"num_hidden_layers": 3}))
    assert (status, value["status"]) == (1, "blocked")
    assert "missing-tensor" in codes(value)


def test_a_collision_blocks(run: Run, tmp_path: Path) -> None:
    shapes = hf_shapes() | {"_orig_mod.model.norm.weight": (8,)}
    status, value = check_json(run, write_folder(tmp_path / "m", shapes))
    assert (status, value["status"]) == (1, "blocked")
    assert "key-collision" in codes(value)


def bad_files(folder: Path) -> dict[str, Path]:
    whole = write_safetensors(folder / "whole.safetensors", hf_shapes()).read_bytes()
    contents = {
        "truncated": ("model.safetensors", whole[:-100]),
        "lfs-pointer": (
            "model.safetensors",
            b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 5\n",
        ),
        "empty-file": ("model.safetensors", b""),
        "not-a-checkpoint": ("model.safetensors", b"<!DOCTYPE html><html><body>404</body></html>"),
        "zero-filled": ("pytorch_model.bin", bytes(4096)),
    }
    found = {}
    for code, (name, data) in contents.items():
        found[code] = folder / code / name
        found[code].parent.mkdir()
        found[code].write_bytes(data)
    return found


@pytest.mark.case(37)
@pytest.mark.parametrize("code", ["truncated", "lfs-pointer", "empty-file", "not-a-checkpoint", "zero-filled"])
def test_bad_files_are_unreadable(run: Run, tmp_path: Path, code: str) -> None:
    path = bad_files(tmp_path)[code]
    status, value = check_json(run, path)
    assert (status, value["status"], codes(value)) == (2, "unreadable", [code])
    assert value["container"] is None
    assert value["path"] == str(path)
    status, out, err = run("check", path)
    assert (status, err) == (2, "")
    assert f"✗ error · {code}" in out
    assert out.endswith("Unreadable: the file can not be used as it is.\n")


def test_an_absent_path(run: Run, tmp_path: Path) -> None:
    status, value = check_json(run, tmp_path / "nothing")
    assert (status, value["status"]) == (2, "unreadable")


GOLDEN = """\
last.safetensors

  A safetensors file of 8.86 KiB. The keys carry `_orig_mod`. Llama in the Meta layout: 2 layers,
  hidden 8, feed-forward 16, vocabulary 32. 21 tensors, 1,704 parameters, 6.66 KiB (fp32).

Why
  · All 21 keys carry names of wrappers: `_orig_mod` (torch.compile).
  · 21 of 21 keys are Meta names, such as layers.N.attention_norm.weight.
  · Nothing names the family; Llama is assumed.
  · The rotary rows of q and k are taken to lie as neighbouring pairs, as Meta has them; --against
    can prove it.

Embedding and output head
  `_orig_mod.tok_embeddings.weight` and `_orig_mod.output.weight` differ: both are trained; no
  config says whether the two are tied.

Findings: 1 warning, 2 notes
  ! warning · wrapper-prefix
    All 21 keys carry names of wrappers: `_orig_mod` (torch.compile).
    → fix takes them off, as whole segments; no value changes.
  i info · family-ambiguous
    The names fit Llama and Mistral alike; taken as Llama. Only their configs differ.
    → Give a config.json with --config, or name the family with --family.
  i info · config-missing
    No config.json or params.json lies beside the weights: head counts and rotary base can not be
    known.
    → Name one with --config FILE (fix takes a folder that has it, too, with --base DIR); head
      counts alone with --heads.

Fixable: fix writes it whole into a new folder and leaves the source as it is.
  ckpt-gui fix last.safetensors -o last-hf --to hf --config FILE
"""


def test_golden_text(run: Run, compiled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(compiled.parent)
    monkeypatch.setenv("COLUMNS", "100")
    status, out, err = run("check", compiled.name)
    assert (status, err) == (1, "")
    assert out == GOLDEN


@pytest.mark.parametrize("columns", [50, 70, 500])
def test_lines_fit_the_terminal(run: Run, model: Path, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setattr(terminal, "WIDEST", 120)
    monkeypatch.setenv("COLUMNS", str(columns))
    _, out, _ = run("check", model)
    longest = max(len(line) for line in out.splitlines() if "/" not in line)
    assert longest <= min(columns, 120)


HOSTILE = {
    "esc\x1b[31m.weight": "\x1b",
    "bidi\u202eabc.weight": "\u202e",
    "<script>alert(1)</script>.weight": "<script>",
}


@pytest.mark.case(25, 110)
def test_hostile_names_are_escaped_everywhere(run: Run, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "m\x1b]0;x\x07", hf_shapes() | dict.fromkeys(HOSTILE, (2,)))
    for key in HOSTILE:
        write_folder(folder, hf_shapes() | {key: (2,)})
        _, out, _ = run("check", folder, "--report", tmp_path / "r.html")
        page = (tmp_path / "r.html").read_text(encoding="utf-8")
        run("check", folder, "--report", tmp_path / "r.md")
        notes = (tmp_path / "r.md").read_text(encoding="utf-8")
        for text in (out, page, notes):
            assert not {"\x1b", "\x07", "\u202e"} & set(text)
        assert "<script" not in page
        assert "<script" not in notes.replace("\\<", "")
        _, printed, _ = run("check", folder, "--json", "-")
        assert not {"\x1b", "\x07"} & set(printed)
        assert any(key in finding["keys"] for finding in json.loads(printed)["findings"])
        run("check", folder, "--report", tmp_path / "r.sarif")
        raw = (tmp_path / "r.sarif").read_text(encoding="ascii")
        assert not {"\x1b", "\x07"} & set(raw)
        results = json.loads(raw)["runs"][0]["results"]
        assert any(key == place["fullyQualifiedName"] for r in results for place in names_of(r))


def names_of(result: dict[str, Any]) -> list[dict[str, str]]:
    found: list[dict[str, str]] = result["locations"][0].get("logicalLocations", [])
    return found


def test_reports(run: Run, compiled: Path, tmp_path: Path) -> None:
    for ending in ("html", "md", "json", "sarif"):
        status, out, _ = run("check", compiled, "--report", tmp_path / f"report.{ending}")
        assert (status, "Fixable" in out) == (1, True)
    assert_schema(json.loads((tmp_path / "report.json").read_text()))
    log = json.loads((tmp_path / "report.sarif").read_text())
    assert log["version"] == "2.1.0"
    assert log["runs"][0]["results"][0]["ruleId"] == "wrapper-prefix"
    page = (tmp_path / "report.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "http" not in page.replace('http-equiv="', "")
    assert (tmp_path / "report.md").read_text().startswith("# ")


def test_a_report_never_overwrites_the_checkpoint(run: Run, model: Path) -> None:
    before = (model / "config.json").read_bytes(), (model / "model.safetensors").read_bytes()
    for target in (model / "config.json", model / "model.safetensors"):
        status, _, err = run("check", model, "--json", target)
        assert status == 2
        assert "belongs to the checkpoint" in err
    assert ((model / "config.json").read_bytes(), (model / "model.safetensors").read_bytes()) == before


def test_an_unreadable_file_is_not_overwritten_by_its_report(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.write_text("[]")
    assert run("check", path, "--json", path)[0] == 2
    assert path.read_text() == "[]"


def test_a_report_that_can_not_be_written(run: Run, model: Path, tmp_path: Path) -> None:
    status, _, err = run("check", model, "--json", tmp_path / "no" / "such" / "folder.json")
    assert status == 2
    assert err.count("\n") == 1


def test_the_budget_leaves_the_pair_unchecked(run: Run, tmp_path: Path) -> None:
    key, shape = "model.embed_tokens.weight", (32, 8)
    write_safetensors(tmp_path / "m" / "model.safetensors", hf_shapes(), {"lm_head.weight": fill(key, shape)})
    (tmp_path / "m" / "config.json").write_text(json.dumps(CONFIG | {"tie_word_embeddings": True}))
    assert check_json(run, tmp_path / "m")[1]["tied"]["state"] == "equal"
    status, value = check_json(run, tmp_path / "m", "--budget", "100")
    assert value["tied"]["state"] == "unchecked"
    assert status == 0


def test_tied_redundant_is_fixable(run: Run, tmp_path: Path) -> None:
    write_safetensors(
        tmp_path / "m" / "model.safetensors",
        hf_shapes(),
        {"lm_head.weight": fill("model.embed_tokens.weight", (32, 8))},
    )
    (tmp_path / "m" / "config.json").write_text(json.dumps(CONFIG | {"tie_word_embeddings": True}))
    status, value = check_json(run, tmp_path / "m")
    assert (status, value["status"]) == (1, "fixable")
    assert "tied-redundant" in codes(value)


def test_heads_and_config_can_be_given(run: Run, compiled: Path, tmp_path: Path) -> None:
    assert "heads" not in check_json(run, compiled)[1]["dims"]
    given = check_json(run, compiled, "--heads", "2", "--kv-heads", "1")[1]
    assert (given["dims"]["heads"], given["dims"]["kv_heads"]) == (2, 1)
    (tmp_path / "other.json").write_text(json.dumps(CONFIG))
    assert check_json(run, compiled, "--config", tmp_path / "other.json")[1]["dims"]["heads"] == 2
    assert check_json(run, compiled, "--family", "mistral")[1]["family"] == "mistral"
    status, value = check_json(run, compiled, "--config", tmp_path / "absent.json")
    assert (status, value["status"]) == (2, "unreadable")


def test_sections(run: Run, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    weights = {k: torch.full(s, float(len(k))) for k, s in hf_shapes().items()}
    path = tmp_path / "ckpt.pt"
    torch.save({"a": {"model": weights, "ema": {k: v + 1 for k, v in weights.items()}}, "step": 3}, path)
    status, value = check_json(run, path)
    assert (status, value["status"]) == (1, "blocked")
    assert "several-sections" in codes(value)
    status, value = check_json(run, path, "--section", "a.ema")
    assert (status, value["section"]) == (0, ["a", "ema"])
    assert check_json(run, path, "--section", "nothing.here")[1]["status"] == "blocked"


def test_aliases_count_once(run: Run, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    weights = {k: torch.ones(s) for k, s in hf_shapes().items()}
    weights["lm_head.weight"] = weights["model.embed_tokens.weight"]
    torch.save(weights, tmp_path / "model.bin")
    _, value = check_json(run, tmp_path / "model.bin")
    assert value["tied"]["state"] == "same-storage"
    assert value["tensors"] == len(weights)
    assert value["parameters"] == sum(w.numel() for w in weights.values()) - 32 * 8


def test_a_closed_pipe_is_no_error(model: Path) -> None:
    command = [sys.executable, "-m", "ckpt_gui.cli.main", "check", str(model)]
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, timeout=60, check=False)
    os.close(write)
    assert done.stderr == b""
    assert done.returncode == 0


def test_an_ascii_terminal(model: Path) -> None:
    command = [sys.executable, "-m", "ckpt_gui.cli.main", "check", str(model)]
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, capture_output=True, timeout=60, check=False, env=environment)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"\\u" in done.stdout or b"\\xb7" in done.stdout


def test_against_a_checkpoint_and_a_name(run: Run, model: Path, tmp_path: Path) -> None:
    status, out, err = run("check", model, "--against", model, "--json", "-")
    assert (status, err) == (0, "")
    value = json.loads(out)
    assert value["against"]["counts"] == {"equal": len(hf_shapes())}
    status, out, _ = run("check", model, "--against", "Llama-3.2-1B")
    assert status == 1
    assert "Against Llama-3.2-1B" in out
    assert "shape-mismatch" in out
    status, out, _ = run("check", model, "--against", "no-such-model")
    assert status == 2
    assert "neither a file or folder nor the name of a known model" in out


# --------------------------------------------------------------------------------------------------------------- deep


def test_deep_finds_a_nan_and_points_at_it(run: Run, tmp_path: Path) -> None:
    key = "model.layers.1.mlp.up_proj.weight"
    shapes = hf_shapes()
    values = bytearray(fill(key, shapes[key]))
    values[4 * (3 * 8 + 5) : 4 * (3 * 8 + 6)] = struct.pack("<f", float("nan"))
    folder = write_folder(tmp_path / "model", shapes)
    write_safetensors(folder / "model.safetensors", shapes, {key: bytes(values)})
    status, out, _ = run("check", folder, "--deep", "-j", "1")
    assert status == 1
    assert "non-finite" in out
    assert f"`{key}` holds 1 NaN, it stands at row 3, column 5" in out.replace("\n    ", " ")
    status, out, _ = run("check", folder, "--deep", "--json", "-")
    value = json.loads(out)
    assert value["status"] == "fixable"
    assert value["values"]["places"] == [{"key": key, "index": [3, 5], "value": "NaN"}]
    assert value["values"]["tensors"] == len(shapes)
    (found,) = [f for f in value["findings"] if f["code"] == "non-finite"]
    assert (found["severity"], found["keys"], found["count"]) == ("warning", [key], 1)


def test_deep_on_a_good_model_is_clean(run: Run, model: Path) -> None:
    status, out, _ = run("check", model, "--deep")
    assert status == 0
    assert f"Every weight was read: {len(hf_shapes())} tensors" in out


def test_all_cores_by_choice(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_safetensors(tmp_path / "model.safetensors", hf_shapes())
    monkeypatch.setattr("ckpt_gui.core.cores.every_core", lambda: 7)
    wanted: list[int] = []

    def look(plan: Plan, *, workers: int, **options: Any) -> Scan:
        wanted.append(workers)
        return scan(plan, workers=workers, **options)

    monkeypatch.setattr("ckpt_gui.core.scan.scan", look)
    for words in ((), ("-j", "5"), ("-j", "all")):
        run("check", path, "--deep", *words)
    assert wanted == [2, 5, 7]
    assert run("check", path, "--deep", "-j", "most")[0] == 2
