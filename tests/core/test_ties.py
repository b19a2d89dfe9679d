"""The tied pair: the whole table of flag, what is stored, what the user wants, and where it goes."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ckpt_gui.core.errors import Cancelled
from ckpt_gui.core.export import Export, Target
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.formats.files import HeldFile
from ckpt_gui.core.normalise import normalise, probe, understand
from ckpt_gui.core.passes.ties import pair_key
from ckpt_gui.core.plan import Evidence, Plan, account
from ckpt_gui.core.policy import Policy
from ckpt_gui.core.retarget import retarget
from tests import builders
from tests.core import models

FLAGS = (True, False, "silent", None)  # stated, stated, a config that does not say (Llama: untied), no config
PAIRS = ("own", "equal", "same", "absent", "only", "neither", "shape", "type", "unchecked")
POLICIES = ("auto", "keep", "drop", "copy")
LAYOUTS = tuple(models.COLUMN)


def made(layout: str, flag: Any, pair: str, policy: str = "auto") -> Plan:
    whole = {"neither": "absent", "shape": "own", "type": "own", "unchecked": "equal"}.get(pair, pair)
    tensors = models.state(layout, head=whole)
    embedding, head = models.EMBEDDING[layout], models.HEAD[layout]
    if pair == "neither":
        del tensors[embedding]
    if pair == "shape":
        tensors[head] = np.ones((models.VOCAB + 2, models.HIDDEN), np.float32)
    if pair == "type":
        tensors[head] = tensors[embedding].astype(np.float64)
    config = None if flag is None else models.config(tie_word_embeddings=... if flag == "silent" else flag)
    source = models.source(tensors, config)
    settings = Policy(tie=policy, heads=models.HEADS if config is None else None)
    plan = normalise(source, settings) if pair == "unchecked" else understand(source, settings)
    account(plan)
    return plan


def verdict(layout: str, flag: Any, pair: str, policy: str) -> bool | None:
    """What an export says, written down a second time."""
    stated = False if flag == "silent" else flag
    if pair in ("equal", "same"):
        return stated is not False or policy == "drop"
    if pair in ("own", "shape", "type"):
        return False
    if pair == "unchecked":
        return False if stated is False else None
    if pair == "absent":
        if stated or policy == "copy":
            return True
        return True if stated is None and layout != "meta" else None
    return True if pair == "only" and stated else None


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("flag", FLAGS)
@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("policy", POLICIES)
def test_the_plan(layout: str, flag: Any, pair: str, policy: str) -> None:
    plan = made(layout, flag, pair, policy)
    tied = verdict(layout, flag, pair, policy)
    assert plan.tie.tied is tied
    assert plan.tie.flag is (False if flag == "silent" else flag)
    states = {"own": "different", "shape": "different", "type": "different", "equal": "equal", "same": "same-storage"}
    assert plan.tie.state == states.get(pair, "unchecked" if pair == "unchecked" else "absent")
    found = {f.code: f for f in plan.findings}
    assert ("tied-conflict" in found) == (pair in ("own", "shape", "type") and flag is True)
    assert ("tied-flag" in found) == (pair in ("equal", "same") and not tied)
    assert ("tied-redundant" in found) == (pair == "equal" and tied is True and layout != "meta")  # an alias is free
    assert ("tied-renamed" in found) == (pair == "only" and tied is True)
    assert ("tied-unchecked" in found) == (pair == "unchecked")
    assert ("shape-mismatch" in found) == (pair == "shape")
    lost = {"absent": [models.HEAD], "only": [models.EMBEDDING], "neither": [models.EMBEDDING, models.HEAD]}.get(
        pair, []
    )
    expected = {names[layout] for names in lost} if tied is None and pair != "unchecked" else set()
    assert set(found["missing-tensor"].keys if "missing-tensor" in found else ()) == expected
    severities = {"tied-conflict": "error", "tied-flag": "info", "tied-redundant": "warning", "tied-renamed": "warning"}
    assert all(found[code].severity == severity for code, severity in severities.items() if code in found)
    blocked = pair == "shape" or bool(expected)
    fixable = {"tied-conflict", "tied-redundant", "tied-renamed", "dtype-mixed"} & set(found)
    assert plan.status == ("blocked" if blocked else "fixable" if fixable else "clean")


@pytest.mark.parametrize(("layout", "target"), list(product(LAYOUTS, (*LAYOUTS, "same"))))
@pytest.mark.parametrize("flag", FLAGS)
@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("policy", POLICIES)
def test_the_export(layout: str, target: str, flag: Any, pair: str, policy: str) -> None:
    plan = made(layout, flag, pair, policy)
    export = retarget(plan, Target(target))
    into = layout if target == "same" else target
    refused = {f.code for f in export.blocked}
    untold = plan.tie.tied is None and pair != "unchecked"
    wanted = ({"missing-tensor"} if untold else set()) | ({"shape-mismatch"} if pair == "shape" else set())
    if policy == "drop" and pair in ("own", "shape", "type", "unchecked"):
        wanted.add("tied-conflict")
    assert refused == wanted
    check_accounting(export)
    if refused:
        return
    by_key = {e.key: e for e in export.entries}
    assert len(by_key) == len(export.entries)
    embedding, head = models.EMBEDDING[into], models.HEAD[into]
    assert embedding in by_key
    both = pair in ("own", "type", "unchecked") or not plan.tie.tied or into == "meta" or policy == "copy"
    both = both or (pair in ("equal", "same") and policy == "keep")
    both = both or (pair == "same" and target == "same" and policy != "drop")  # an alias takes no room
    assert (head in by_key) == both
    if pair in ("own", "type", "unchecked"):
        assert by_key[head].ref is plan.tie.head  # a head of its own goes everywhere
    gone = [d.ref.key for d in export.dropped]
    assert gone == ([models.HEAD[layout]] if pair in ("equal", "same") and not both else [])
    if "config.json" in export.texts:
        assert json.loads(export.texts["config.json"])["tie_word_embeddings"] is bool(plan.tie.tied)
    assert ("config.json" in export.texts) == (flag is not None and into != "meta")


def check_accounting(export: Export) -> None:
    used = {id(r) for e in export.entries for r in e.inputs}
    gone = {id(d.ref) for d in export.dropped}
    assert used.isdisjoint(gone)
    assert used | gone == {id(r) for r in export.plan.source.refs}


@pytest.mark.parametrize("step", ["buffers", "permute"])
def test_other_steps_do_not_matter(step: str) -> None:
    plan = models.model("meta", head="equal", skip=frozenset([step]))
    assert plan.tie.tied is True


def test_the_step_can_be_left_out() -> None:
    export = retarget(models.model("hf", head="equal", skip=frozenset(["tie"])), Target("hf"))
    assert "lm_head.weight" in {e.key for e in export.entries}
    assert export.dropped == ()


@pytest.mark.parametrize(
    ("top", "text", "wanted"),
    [(True, False, False), (False, True, True), (True, ..., True), (..., True, True), (..., ..., False)],
)
def test_the_level_of_the_text_model_decides(top: Any, text: Any, wanted: bool) -> None:
    inner = {"model_type": "llama"} | ({} if text is ... else {"tie_word_embeddings": text})
    config = models.config(tie_word_embeddings=top, text_config=inner)
    plan = models.plan(models.state("hf"), config)
    assert plan.tie.flag is wanted
    written = json.loads(retarget(plan, Target("hf")).texts["config.json"])
    assert written["tie_word_embeddings"] is False
    assert written["text_config"]["tie_word_embeddings"] is False


@pytest.mark.parametrize(("head", "policy", "wanted"), [("own", "auto", False), ("equal", "drop", True)])
@pytest.mark.parametrize("changes", [{"num_attention_heads": 5}, {"num_attention_heads": ...}])
def test_the_flag_is_true_even_where_head_counts_are_not(head: str, policy: str, wanted: bool, changes: Any) -> None:
    text = {"tie_word_embeddings": not wanted}
    config = models.config(tie_word_embeddings=not wanted, text_config=text, **changes)
    written = retarget(models.plan(models.state("hf", head=head), config, tie=policy), Target("same")).texts
    made = json.loads(written["config.json"])
    assert made["tie_word_embeddings"] is wanted
    assert made["text_config"]["tie_word_embeddings"] is wanted


def test_bytes_decide_and_not_values() -> None:
    tensors = models.state("hf", head="equal")
    for key in ("model.embed_tokens.weight", "lm_head.weight"):
        tensors[key][0, 0] = np.nan
    assert models.plan(tensors, models.config(tie_word_embeddings=True)).tie.state == "equal"
    tensors["model.embed_tokens.weight"][0, 1], tensors["lm_head.weight"][0, 1] = 0.0, -0.0
    assert models.plan(tensors, models.config(tie_word_embeddings=True)).tie.state == "different"


def test_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ckpt_gui.core.normalise.BLOCK", 64)
    tensors = models.state("hf", head="equal")
    plan = normalise(models.source(tensors, models.config(tie_word_embeddings=True)))
    size = tensors["lm_head.weight"].nbytes
    assert probe(plan, budget=2 * size - 1) is plan.evidence
    seen: list[tuple[int, int]] = []
    evidence = probe(plan, budget=2 * size, progress=lambda _, done, total: seen.append((done, total)))
    assert plan.tie.embedding is not None
    assert plan.tie.head is not None
    assert evidence.pairs == {pair_key(plan.tie.embedding, plan.tie.head): "equal"}
    assert seen[-1] == (size, size)
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})
    tensors["lm_head.weight"][-1, -1] += 1
    assert set(probe(plan).pairs.values()) == {"different"}
    calls = iter([False, False, True])
    with pytest.raises(Cancelled):
        probe(plan, cancelled=lambda: next(calls))
    settled = normalise(plan.source, plan.policy, evidence)
    assert probe(settled) is settled.evidence


def test_wrappers_do_not_hide_the_pair() -> None:
    tensors = {f"_orig_mod.{k}": v for k, v in models.state("hf", head="equal").items()}
    plan = models.plan(tensors, models.config(tie_word_embeddings=True))
    assert plan.tie.state == "equal"
    assert models.finding(plan, "tied-redundant").keys == (
        "_orig_mod.lm_head.weight",
        "_orig_mod.model.embed_tokens.weight",
    )


def test_evidence_of_other_tensors_says_nothing() -> None:
    source = models.source(models.state("hf", head="equal"), models.config(tie_word_embeddings=True))
    assert normalise(source, None, Evidence({("a", "b"): "equal"})).tie.state == "unchecked"


MIB = 1 << 20


@pytest.mark.parametrize(("at", "state"), [(None, "equal"), (5 * MIB, "different"), (0, "different")])
@pytest.mark.parametrize("container", ["safetensors", "torch"])
def test_holes_that_both_have_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, container: str, at: int | None, state: str
) -> None:
    """A sparse pair of 6 MiB each; the head has a byte of its own at `at`."""
    tensors = {key: np.zeros((96, 16384), np.float32) for key in (models.EMBEDDING["hf"], models.HEAD["hf"])}
    made = {"safetensors": builders.safetensors_bytes, "torch": builders.state_dict_bytes}[container](tensors)
    path = tmp_path / {"safetensors": "model.safetensors", "torch": "pytorch_model.bin"}[container]
    holes(path, made)
    (tmp_path / "config.json").write_text(json.dumps(models.config(tie_word_embeddings=True)))
    with open_checkpoint(tmp_path) as source:
        head = next(ref for ref in source.refs if ref.key == models.HEAD["hf"])
        begin, _ = source.readers[head.file].region(head)
    if at is not None:
        with path.open("r+b") as file:
            file.seek(begin + at)
            file.write(b"x")
    if HeldFile(path).next_data(MIB, 4 * MIB) == MIB:
        pytest.skip("this filesystem keeps no holes")
    read: list[int] = []
    plain = HeldFile.pread_into
    monkeypatch.setattr(HeldFile, "pread_into", lambda f, o, out: (read.append(len(out)), plain(f, o, out))[1])
    with open_checkpoint(tmp_path) as source:
        plan = understand(source)
    assert plan.tie.state == state
    assert sum(read) < 6 * MIB  # of 12; the first and the last block hold other bytes, too


def holes(path: Path, data: bytes) -> None:
    """Write a file; its pages of zeros stay holes."""
    with path.open("wb") as file:
        file.truncate(len(data))
        for start in range(0, len(data), 4096):
            if any(page := data[start : start + 4096]):
                file.seek(start)
                file.write(page)


def test_a_pair_of_two_types_is_told_apart() -> None:
    plan = made("hf", True, "type")
    found = models.finding(plan, "tied-conflict")
    assert "They have different types (fp64 and fp32) and count as different" in found.message
    assert "different types" not in models.finding(made("hf", True, "own"), "tied-conflict").message
