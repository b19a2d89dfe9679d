"""Families without a table, with transformers played by a stand-in: what it would write is what is expected."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ckpt_gui.core.against import against
from ckpt_gui.core.export import Target
from ckpt_gui.core.families import generic
from ckpt_gui.core.families.generic import Saved, family_of, saved_for
from ckpt_gui.core.families.schema_check import check_family
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.normalise import normalise, understand
from ckpt_gui.core.plan import Plan
from ckpt_gui.core.retarget import retarget
from ckpt_gui.core.writer import write_export
from tests.core import models

CONFIG = {"model_type": "mosaic", "hidden_size": 4, "num_hidden_layers": 2, "tie_word_embeddings": True}
SHAPES = {"backbone.wte.weight": (6, 4), "backbone.norm.weight": (4,)} | {
    f"backbone.blocks.{n}.experts.{e}.w.weight": (3 + e, 4) for n in range(2) for e in range(2)
}
ANSWER = {
    "version": "9.9", "class": "MosaicForCausalLM", "tensors": [[k, list(v)] for k, v in SHAPES.items()],
    "embedding": "backbone.wte.weight", "head": "lm_head.weight", "tied": None,  # as the config says
    "buffers": ["backbone.blocks.0.mask", "backbone.blocks.1.mask"], "ignorable": [r"attn\.masked_bias$", "(", 3],
}  # fmt: skip


def weights(**changes: Any) -> dict[str, np.ndarray]:
    made = {k: np.arange(np.prod(s), dtype=np.float32).reshape(s) for k, s in SHAPES.items()} | changes
    return {k: v for k, v in made.items() if v is not None}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Let a stand-in answer; return what it was asked."""
    questions: list[dict[str, Any]] = []

    def ask(text: str, cancelled: Any, waiting: Any) -> dict[str, Any]:
        questions.append(json.loads(text))
        tied = ANSWER["tied"] if ANSWER["tied"] is not None else questions[-1]["tie_word_embeddings"]
        return json.loads(json.dumps(ANSWER | {"tied": tied}))

    monkeypatch.setattr(generic, "_ask", ask)
    monkeypatch.setattr(generic, "available", lambda: True)
    monkeypatch.setattr(generic, "installed", lambda name: "9.9")
    return questions


def plan_of(tmp_path: Path, tensors: dict[str, np.ndarray], **changes: Any) -> Plan:
    return understand(open_checkpoint(models.save(tmp_path / "in", tensors, config=CONFIG | changes)))


def test_a_whole_model_is_clean(tmp_path: Path, asked: list[dict[str, Any]]) -> None:
    plan = plan_of(tmp_path, weights())
    assert plan.status == "clean", plan.findings
    assert (plan.family and plan.family.name, plan.layout and plan.layout.name) == ("mosaic", "hf")
    assert plan.tie.tied is True
    assert "6 of 6 keys are names that transformers 9.9 writes for MosaicForCausalLM." in plan.evidence_text
    assert asked == [CONFIG]
    write_export(retarget(plan, Target("hf")), tmp_path / "out")
    assert models.opened(tmp_path / "out") == models.as_bytes(weights())
    assert json.loads((tmp_path / "out" / "config.json").read_text())["model_type"] == "mosaic"


def test_the_answer_is_kept(tmp_path: Path, asked: list[dict[str, Any]]) -> None:
    for _ in range(3):
        saved_for(CONFIG)
    assert len(asked) == 1
    saved_for(CONFIG | {"hidden_size": 8})
    assert len(asked) == 2


def test_faults_are_told(tmp_path: Path, asked: list[dict[str, Any]]) -> None:
    lost, wrong = "backbone.blocks.1.experts.0.w.weight", "backbone.blocks.0.experts.1.w.weight"
    plan = plan_of(
        tmp_path, weights(**{lost: None, wrong: np.ones((9, 4), np.float32), "more": np.ones(2, np.float32)})
    )
    assert models.finding(plan, "missing-tensor").keys == (lost,)
    assert models.finding(plan, "shape-mismatch").keys == (wrong,)
    assert models.finding(plan, "unexpected-tensor").keys == ("more",)
    assert plan.status == "blocked"


def test_wrappers_and_a_bare_backbone(tmp_path: Path, asked: list[dict[str, Any]]) -> None:
    plan = plan_of(tmp_path, {f"_orig_mod.{k}": v for k, v in weights().items()})
    assert models.codes(plan) == ["wrapper-prefix"]
    bare = {k.removeprefix("backbone."): v for k, v in weights().items()}
    plan = understand(open_checkpoint(models.save(tmp_path / "bare", bare, config=CONFIG)))
    assert models.codes(plan) == ["renamed"]


@pytest.mark.parametrize(("equal", "flag", "code"), [
    (True, True, "tied-redundant"), (False, True, "tied-conflict"), (False, False, None),
])  # fmt: skip
def test_the_tied_pair(tmp_path: Path, asked: list[dict[str, Any]], equal: bool, flag: bool, code: str | None) -> None:
    head = weights()["backbone.wte.weight"] + (0 if equal else 1)
    plan = plan_of(tmp_path, weights(**{"lm_head.weight": head}), tie_word_embeddings=flag)
    assert models.codes(plan) == ([code] if code else [])


def test_weights_of_another_model(tmp_path: Path, asked: list[dict[str, Any]]) -> None:
    plan = plan_of(tmp_path, models.state("hf"))
    assert plan.family is None
    assert "1 of 30 keys are names that transformers 9.9 writes" in models.finding(plan, "unknown-layout").message


def test_transformers_that_can_not_build_it(tmp_path: Path, asked: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generic, "_ask", lambda *_: {"problem": "transformers could not build it (KeyError: 'mosaic')"})
    plan = plan_of(tmp_path, weights())
    assert "transformers could not build it" in models.finding(plan, "unknown-layout").message
    assert not retarget(plan, Target("same")).blocked


def test_without_transformers_the_finding_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generic, "available", lambda: False)
    plan = plan_of(tmp_path, weights())
    found = models.finding(plan, "unknown-layout")
    assert "pip install 'ckpt_gui[hf]'" in (found.fix or "")
    assert plan.evidence.saved is None


def test_normalise_asks_nobody(tmp_path: Path, asked: list[dict[str, Any]]) -> None:
    normalise(open_checkpoint(models.save(tmp_path / "in", weights(), config=CONFIG)))
    assert asked == []


def test_a_family_with_a_table_asks_nobody(tmp_path: Path, asked: list[dict[str, Any]]) -> None:
    understand(open_checkpoint(models.save(tmp_path / "in", models.state("hf"), config=models.config())))
    assert asked == []


def test_against_a_config(tmp_path: Path, asked: list[dict[str, Any]]) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG))
    found = against(plan_of(tmp_path, weights(**{"more": np.ones(2, np.float32)})), str(path))
    assert dict(found.counts) == {"fits": 6, "only-a": 1}


def test_the_family_keeps_the_rules_of_tables() -> None:
    saved = Saved("mosaic", tuple(SHAPES.items()), "backbone.wte.weight", "lm_head.weight", True, "Mosaic", "9.9")
    family = family_of(saved)
    assert check_family(family) == []
    assert family.role("head") == "lm_head.weight"


@pytest.mark.parametrize("answer", [b"", b"[]", b"{}", b'{"tensors": [[1]]}', b'{"tensors": 3}'])
def test_answers_that_can_not_be_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, answer: bytes) -> None:
    child = tmp_path / "ckpt_gui_child.py"
    child.write_text(f"import sys; sys.stdin.read(); sys.stdout.buffer.write({answer!r})")
    monkeypatch.setattr(generic, "CHILD", [str(child)])
    assert "can not be read" in saved_for({"model_type": "x"}).problem


def test_a_child_that_fails_or_hangs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    child = tmp_path / "child.py"
    monkeypatch.setattr(generic, "CHILD", [str(child)])
    child.write_text("raise SystemExit('no \\x1b[31m such model')")
    problem = saved_for({"model_type": "x"}).problem
    assert "no \\x1b[31m such model" in problem
    child.write_text("import time; time.sleep(60)")
    monkeypatch.setattr(generic, "TIMEOUT", 0.5)
    assert "did not answer" in saved_for({"model_type": "x"}).problem
    with pytest.raises(generic.Cancelled):
        saved_for({"model_type": "x"}, lambda: True)


def test_buffers_are_known_and_left_out(tmp_path: Path, asked: list[dict[str, Any]]) -> None:
    """What the model makes itself, what it leaves alone in a file, and what older versions saved."""
    names = ("backbone.blocks.0.mask", "backbone.blocks.1.attn.masked_bias", "backbone.rotary_emb.inv_freq")
    more = {name: np.ones(3, np.float32) for name in names}
    plan = plan_of(tmp_path, weights(**more, other=np.ones(2, np.float32)))
    assert set(models.finding(plan, "computed-buffer").keys) == set(names)
    assert models.finding(plan, "unexpected-tensor").keys == ("other",)
    assert plan.layout is plan.family.layout("hf")
    write_export(retarget(plan, Target("hf")), tmp_path / "out")
    assert models.opened(tmp_path / "out") == models.as_bytes(weights(other=np.ones(2, np.float32)))


def test_time_goes_by_while_it_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    child = tmp_path / "child.py"
    twice = tmp_path / "twice"
    child.write_text(
        "import pathlib, sys, time\nsys.stdin.read()\n"
        f"while not pathlib.Path({str(twice)!r}).exists():\n    time.sleep(0.01)\n"
        "print('{\"tensors\": []}')"
    )
    monkeypatch.setattr(generic, "CHILD", [str(child)])
    monkeypatch.setattr(generic, "_cache_file", lambda text: None)
    seconds: list[float] = []

    def waiting(elapsed: float) -> None:
        seconds.append(elapsed)
        if len(seconds) == 2:
            twice.touch()

    saved_for({"model_type": "x"}, None, waiting)
    assert seconds == sorted(seconds)
    assert len(seconds) >= 2


@pytest.mark.parametrize("tied", [True, False])
def test_what_was_built_decides_whether_the_pair_is_tied(
    tied: bool, tmp_path: Path, asked: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In version 5 the flag at the top of a Mistral 3 counts, and not that of its text; in others it is that one."""
    monkeypatch.setitem(ANSWER, "tied", tied)
    head = None if tied else np.full((6, 4), 7, np.float32)
    state = weights() if head is None else weights(**{"lm_head.weight": head})
    plan = plan_of(tmp_path, state, tie_word_embeddings=not tied)
    assert (plan.tie.flag, plan.tie.tied) == (tied, tied)
    assert [f.code for f in plan.findings if f.severity != "info"] == []
    write_export(retarget(plan, Target("hf")), tmp_path / "out")
    assert json.loads((tmp_path / "out" / "config.json").read_text())["tie_word_embeddings"] is tied
