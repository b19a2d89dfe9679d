"""`diff` on the command line: exit status, text, JSON, reports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ckpt_gui.cli import diff as command
from tests.cli.conftest import Run
from tests.core import models

TOTAL = len(models.names("hf"))
V = "model.layers.{}.self_attn.v_proj.weight"


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """A model in Meta's layout, and the same in Hugging Face's with v of the last two layers trained."""
    state = models.state("hf")
    tuned = state | {V.format(n): state[V.format(n)] * np.float32(1.5) for n in (1, 2)}
    one = models.save(tmp_path / "base", models.state("meta"), name="consolidated.00.pth", params=models.params())
    two = models.save(tmp_path / "tuned", tuned, config=models.config(rope_theta=10000.0))
    return one, two


def told(run: Run, *words: object) -> tuple[int, dict[str, Any]]:
    status, out, _ = run("diff", *words, "--json", "-")
    return status, json.loads(out)


def test_same(run: Run, pair: tuple[Path, Path]) -> None:
    status, out, _ = run("diff", *pair)
    assert status == 0
    assert f"Of {TOTAL} tensors: {TOTAL} of the same name, shape and type." in " ".join(out.split())
    assert out.endswith("Same: names, shapes and dtypes; values not compared.\n")
    status, out, _ = run("diff", pair[0], pair[0], "--values")
    assert (status, out.splitlines()[-1]) == (0, "Same: names, shapes, dtypes and values.")


def test_different(run: Run, pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    status, out, _ = run("diff", *pair, "--values")
    assert status == 1
    start = out.index("Tensors\n")
    assert out[start:] == GOLDEN_TEXT


GOLDEN_TEXT = """\
Tensors
  model.layers.1-2.self_attn.v_proj.weight
    2 × different in values; A `layers.1-2.attention.wv.weight`; ‖Δ‖/‖W‖ 0.5, largest |Δ| 6.61e+03,
      768 of 768 elements

What has changed, by role
  role                                    different  ‖Δ‖/‖W‖ least  median  most  elements changed
  model.layers.N.self_attn.v_proj.weight     2 of 3              0     0.5   0.5             66.7%

What has changed, by layer
  layer           different  ‖Δ‖/‖W‖ least  median  most  elements changed
  model.layers.1     1 of 9              0       0   0.5              7.3%
  model.layers.2     1 of 9              0       0   0.5              7.3%

Configs (for information)
                    A       B
  norm_eps      1e-05   1e-06
  rope_theta  500,000  10,000

Different: 2 of 30 tensors.
"""


def test_a_nan_is_a_change_of_its_role_and_its_layer(run: Run, tmp_path: Path) -> None:
    state = models.state("hf")
    odd = state[V.format(1)].copy()
    odd[0, 0] = np.nan
    one = models.save(tmp_path / "base", state, config=models.config())
    two = models.save(tmp_path / "odd", state | {V.format(1): odd}, config=models.config())
    status, out, _ = run("diff", one, two, "--values")
    assert status == 1
    assert f"different in values; 1 of {odd.size:,} elements, 1 not finite" in out
    assert "‖Δ‖/‖W‖ 0," not in out  # nothing that is finite has changed
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "model.layers.N.self_attn.v_proj.weight 1 of 3 0 0 0 < 0.1%" in lines
    assert "model.layers.1 1 of 9 0 0 0 < 0.1%" in lines


def test_markdown(run: Run, pair: tuple[Path, Path], tmp_path: Path) -> None:
    assert run("diff", *pair, "--values", "--report", tmp_path / "r.md")[0] == 1
    text = (tmp_path / "r.md").read_text()
    assert text[text.index("## Tensors") : text.index("## What has changed, by layer")] == GOLDEN_MARKDOWN


GOLDEN_MARKDOWN = """\
## Tensors

- `model.layers.1-2.self_attn.v_proj.weight`: 2 × different in values; A `layers.1-2.attention.wv.weight`; \
‖Δ‖/‖W‖ 0.5, largest \\|Δ\\| 6.61e+03, 768 of 768 elements

## What has changed, by role

| role | different | ‖Δ‖/‖W‖ least | median | most | elements changed |
| --- | ---: | ---: | ---: | ---: | ---: |
| `model.layers.N.self_attn.v_proj.weight` | 2 of 3 | 0 | 0.5 | 0.5 | 66.7% |

"""


def test_json(run: Run, pair: tuple[Path, Path]) -> None:
    status, value = told(run, *pair, "--values")
    assert status == 1
    assert list(value) == [
        "schema", "a", "b", "same", "values", "stopped", "counts", "rows", "by_role", "by_layer", "config", "ranks",
        "findings",
    ]  # fmt: skip
    assert (value["schema"], value["same"], value["values"], value["stopped"]) == (1, False, True, False)
    assert value["a"] == {
        "name": str(pair[0]), "kind": "checkpoint", "family": "llama", "layout": "meta", "tied": False,
        "tensors": TOTAL,
    }  # fmt: skip
    assert value["counts"] == {"equal": TOTAL - 2, "differs": 2}
    assert len(value["rows"]) == TOTAL
    (row,) = [r for r in value["rows"] if r["key"] == V.format(1)]
    assert row["a"] == {"key": "layers.1.attention.wv.weight", "shape": [16, 24], "dtype": "fp32"}
    assert (row["state"], row["how"]) == ("differs", "name")
    assert (row["delta"]["elements"], row["delta"]["changed"]) == (384, 384)
    assert row["delta"]["relative"] == pytest.approx(0.5)
    assert [f["code"] for f in value["findings"]] == ["tensor-differs"]


def test_filter_compares_less_and_only_shows_less(run: Run, pair: tuple[Path, Path]) -> None:
    status, value = told(run, *pair, "--values", "--filter", "Q_PROJ", "--filter", "wk")
    assert (status, value["counts"]) == (0, {"equal": 6})
    status, value = told(run, *pair, "--values", "--filter", "layer:1 v_proj !norm")
    assert (status, [row["key"] for row in value["rows"]]) == (1, [V.format(1)])
    status, value = told(run, *pair, "--values", "--filter", "v_proj state:differs")
    assert (status, len(value["rows"]), sum(value["counts"].values())) == (1, 2, 3)
    status, value = told(run, *pair, "--values", "--only", "differs")
    assert (status, len(value["rows"]), value["counts"]["equal"]) == (1, 2, TOTAL - 2)
    status, out, _ = run("diff", *pair, "--values", "--only", "equal")
    assert "equal byte for byte" in out[out.index("Tensors\n") :]
    assert "v_proj.weight\n    2 ×" not in out


@pytest.mark.parametrize("words", [("--filter", "nothing-like-it"), ("--rank", "x"), ("--rank-of", "*.bias")])
def test_names_that_are_not_there(run: Run, pair: tuple[Path, Path], words: tuple[str, str]) -> None:
    status, out, err = run("diff", *pair, *words)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert words[1] in err


def test_a_filter_that_can_not_be_read(run: Run, pair: tuple[Path, Path]) -> None:
    status, out, err = run("diff", *pair, "--filter", "wq layers:0")
    assert (status, out) == (2, "")
    assert "`layers:0` at character 4 of the filter: there is no layers:; did you mean layer:?" in err


def test_ranks(run: Run, pair: tuple[Path, Path]) -> None:
    status, value = told(run, *pair, "--rank", V.format(1), "--rank-of", "*.2.*.v_proj.weight")
    assert (status, value["values"]) == (0, False)
    assert [r["key"] for r in value["ranks"]] == [V.format(1), V.format(2)]
    assert {r["rank"] for r in value["ranks"]} == {2}  # rising rows are a ramp: two directions
    out = run("diff", *pair, "--rank", V.format(1))[1]
    assert "Method: exact singular values." in out


def test_a_known_model_and_a_config(run: Run, pair: tuple[Path, Path]) -> None:
    status, out, _ = run("diff", pair[0], pair[1] / "config.json")
    assert status == 0
    assert out.endswith("Same: names and shapes; a config or a published size does not tell dtypes or values.\n")
    assert "B: what its config tells" in out
    status, out, _ = run("diff", pair[1] / "config.json", "Llama-3.2-1B", "--values")
    assert status == 1
    assert "the published sizes of `Llama-3.2-1B` (Llama), 146 tensors" in " ".join(out.split())
    assert run("diff", "Llama-3.1-8B", "llama-3.1-8b")[0] == 0


def test_trouble(run: Run, pair: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "bad.safetensors").write_bytes(b"\x00" * 4)
    status, out, err = run("diff", pair[0], tmp_path / "bad.safetensors")
    assert (status, out, err.count("\n")) == (2, "", 1)
    status, value = told(run, pair[0], tmp_path / "bad.safetensors")
    assert (status, value["same"], len(value["findings"])) == (2, None, 1)
    assert list(value) == list(told(run, *pair)[1])
    assert run("diff", pair[0], "nobody-has-this")[0] == 2
    assert run("diff", pair[0])[0] == 2
    assert run("diff", *pair, "--only", "nonsense")[0] == 2


def test_what_was_not_compared_is_trouble(run: Run, pair: tuple[Path, Path]) -> None:
    status, out, _ = run("diff", pair[0], pair[0], "--values", "--budget", "20kB")
    assert status == 2
    assert "No difference was found so far, but" in out


def test_stopped(run: Run, pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """What was compared before Control-C is printed."""
    whole = command.compare
    monkeypatch.setattr(command, "compare", lambda *a, **k: whole(*a, **{**k, "cancelled": lambda: True}))
    status, out, _ = run("diff", *pair, "--values")
    assert status == 130
    assert f"Stopped: no difference was found so far, but {TOTAL} tensors could not be compared." in out


@pytest.mark.parametrize("ending", ["html", "json", "sarif"])
def test_reports(run: Run, pair: tuple[Path, Path], tmp_path: Path, ending: str) -> None:
    report = tmp_path / f"r.{ending}"
    assert run("diff", *pair, "--values", "--report", report)[0] == 1
    text = report.read_text()
    if ending == "html":
        assert "<details" in text
        assert text.count("<svg") == 2
        assert "http" not in text.replace("http-equiv", "")
    elif ending == "json":
        assert json.loads(text) == told(run, *pair, "--values")[1]
    else:
        (one,) = json.loads(text)["runs"][0]["results"]
        assert one["ruleId"] == "tensor-differs"


@pytest.mark.parametrize("other", [True, False])
@pytest.mark.parametrize("how", ["--json", "--report"])
def test_a_checkpoint_is_not_overwritten(run: Run, pair: tuple[Path, Path], other: bool, how: str) -> None:
    """Nor where the other side can not be read."""
    before = (pair[1] / "config.json").read_text()
    status, _, err = run("diff", pair[0] if other else "nobody-has-this", pair[1], how, pair[1] / "config.json")
    assert status == 2
    assert "belongs to the checkpoint" in err
    assert (pair[1] / "config.json").read_text() == before
