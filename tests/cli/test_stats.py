from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run, hf_shapes


def test_every_tensor(run: Run, model: Path) -> None:
    status, out, err = run("stats", model)
    assert (status, err) == (0, "")
    for key in hf_shapes():
        assert key in out


def test_keys_by_stored_and_hub_name(run: Run, compiled: Path) -> None:
    for key in ("_orig_mod.layers.0.attention.wq.weight", "model.layers.0.self_attn.q_proj.weight"):
        status, out, _ = run("stats", compiled, key, "--json", "-")
        assert status == 0
        value = json.loads(out)
        assert [t["key"] for t in value["tensors"]] == ["_orig_mod.layers.0.attention.wq.weight"]


def test_the_pair(run: Run, model: Path) -> None:
    status, out, _ = run("stats", model, "--pair")
    assert status == 0
    assert "model.embed_tokens.weight and lm_head.weight: different" in out
    status, out, _ = run("stats", model, "--pair", "model.norm.weight", "model.norm.weight", "--json", "-")
    assert json.loads(out)["pair"]["relation"] == "same storage"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("lm_haed.weight",), "Did you mean `lm_head.weight`"),
        (("--pair", "lm_head.weight"), "--pair takes two"),
        (("--pair", "lm_head.weight", "model.norm.weight"), "only tensors of one shape"),
    ],
)
def test_mistakes_are_sentences(run: Run, model: Path, words: tuple[str, ...], sentence: str) -> None:
    status, out, err = run("stats", model, *words)
    assert (status, out) == (2, "")
    assert sentence in err


def test_a_path_that_is_none(run: Run, tmp_path: Path) -> None:
    assert run("stats", tmp_path / "absent")[0] == 2


def test_what_is_not_finite_is_null_in_json() -> None:
    from ckpt_gui.cli.terminal import json_text

    assert json.loads(json_text({"a": [float("nan"), float("inf"), 1.5]})) == {"a": [None, None, 1.5]}
