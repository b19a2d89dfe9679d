"""A checkpoint beside a reference: what names tell, what values tell, and what they can not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ckpt_gui.core.against import Against, against
from ckpt_gui.core.errors import Cancelled, CheckpointError
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.normalise import normalise, understand
from ckpt_gui.core.report import check_document, check_json
from ckpt_gui.core.text import plain_text
from tests.core import models
from tests.core.test_known import headers

Q = "model.layers.0.self_attn.q_proj.weight"
NORMS = ("model.layers.1.input_layernorm.weight", "model.layers.1.post_attention_layernorm.weight")
GATES = ("model.layers.2.mlp.gate_proj.weight", "model.layers.2.mlp.up_proj.weight")


def folder(tmp_path: Path, name: str, tensors: Any, config: Any = None, **how: Any) -> Path:
    file = how.pop("file", "model.safetensors")
    return models.save(tmp_path / name, tensors, name=file, config=config or models.config(), **how)


def compared(path: Path, reference: Path | str, **how: Any) -> Against:
    with open_checkpoint(path) as source:
        return against(understand(source), str(reference), **how)


def states(found: Against) -> dict[str, int]:
    return dict(found.counts)


TOTAL = len(models.names("hf"))


@pytest.mark.parametrize("layout", ["hf", "meta", "torchtune"])
@pytest.mark.parametrize("other", ["hf", "meta", "torchtune"])
def test_equal_through_any_layout(tmp_path: Path, layout: str, other: str) -> None:
    one = folder(tmp_path, "one", models.state(layout))
    two = folder(tmp_path, "two", models.state(other))
    found = compared(one, two)
    assert (states(found), found.findings, found.kind) == ({"equal": TOTAL}, (), "checkpoint")


def test_heads_of_the_reference_serve_both(tmp_path: Path) -> None:
    one = models.save(tmp_path / "one", models.state("meta"))  # no config: no head counts
    two = folder(tmp_path, "two", models.state("hf"))
    assert states(compared(one, two)) == {"equal": TOTAL}
    assert states(compared(two, one)) == {"equal": TOTAL}


def test_heads_that_nobody_knows(tmp_path: Path) -> None:
    one = models.save(tmp_path / "one", models.state("meta"))
    two = models.save(tmp_path / "two", models.state("hf"))
    found = compared(one, two)
    assert states(found) == {"equal": TOTAL - 2 * models.LAYERS, "unread": 2 * models.LAYERS}
    assert [f.code for f in found.findings] == ["values-unchecked"]


@pytest.mark.parametrize("wrong", ["ours", "theirs"])
def test_rows_in_the_other_rotary_order(tmp_path: Path, wrong: str) -> None:
    """Renamed by hand without the reordering: names, shapes, sums and norms are all right."""
    bad = models.state("hf") | {
        hub: models.state("meta")[name]
        for hub, name, _ in models.names("meta")
        if "self_attn.q_proj" in hub or "self_attn.k_proj" in hub
    }
    paths = [folder(tmp_path, "bad", bad), folder(tmp_path, "good", models.state("hf"))]
    found = compared(*(paths if wrong == "ours" else paths[::-1]))
    assert states(found) == {"equal": TOTAL - 2 * models.LAYERS, "permuted": 2 * models.LAYERS}
    (finding,) = found.findings
    assert (finding.code, finding.severity, len(finding.keys)) == ("rope-permuted", "warning", 2 * models.LAYERS)
    note = next(r.note for r in found.rows if r.state == "permuted")
    assert ("neighbouring pairs in A" in note) == (wrong == "ours")


@pytest.mark.parametrize("pair", [NORMS, GATES])
def test_tensors_that_have_changed_places(tmp_path: Path, pair: tuple[str, str]) -> None:
    state = models.state("hf")
    bad = state | {pair[0]: state[pair[1]], pair[1]: state[pair[0]]}
    found = compared(folder(tmp_path, "bad", bad), folder(tmp_path, "good", state))
    assert states(found) == {"equal": TOTAL - 2, "swapped": 2}
    (finding,) = found.findings
    assert (finding.code, finding.severity) == ("tensors-swapped", "warning")
    assert set(finding.keys) == set(pair)
    notes = {r.key: r.note for r in found.rows if r.state == "swapped"}
    assert notes == {one: f"has changed places with `{two}`" for one, two in (pair, pair[::-1])}


def test_one_that_differs(tmp_path: Path) -> None:
    state = models.state("hf")
    found = compared(folder(tmp_path, "a", state | {Q: state[Q] + 1}), folder(tmp_path, "b", state))
    assert states(found) == {"equal": TOTAL - 1, "differs": 1}
    assert found.findings == ()
    assert "1 different in values" in " ".join(found.sentences())


@pytest.mark.parametrize("swap", [False, True])
def test_equal_after_a_cast(tmp_path: Path, swap: bool) -> None:
    wide = models.state("hf")
    narrow = {key: value.astype(np.float16) for key, value in wide.items()}
    paths = [folder(tmp_path, "wide", wide), folder(tmp_path, "narrow", narrow)]
    found = compared(*(paths[::-1] if swap else paths))
    assert states(found) == {"cast": TOTAL}
    assert "where it has" in " ".join(found.sentences())


def test_missing_extra_and_other_shapes(tmp_path: Path) -> None:
    state = models.state("hf")
    ours = {k: v for k, v in state.items() if k != NORMS[0]} | {"more.weight": np.ones(3, np.float32)}
    ours[GATES[0]] = ours[GATES[0]][:-1]
    found = compared(folder(tmp_path, "a", ours), folder(tmp_path, "b", state))
    assert states(found) == {"equal": TOTAL - 2, "only-b": 1, "only-a": 1, "shape": 1}
    assert {f.code: f.keys for f in found.findings} == {
        "missing-tensor": (NORMS[0],), "shape-mismatch": (GATES[0],), "unexpected-tensor": ("more.weight",),
    }  # fmt: skip


def test_added_tokens_are_no_fault(tmp_path: Path) -> None:
    state = models.state("hf")
    more = state | {k: np.concatenate([state[k], state[k][:4]]) for k in (models.EMBEDDING["hf"], models.HEAD["hf"])}
    found = compared(folder(tmp_path, "a", more), folder(tmp_path, "b", state))
    assert states(found) == {"equal": TOTAL - 2, "vocab": 2}
    (finding,) = found.findings
    assert (finding.code, finding.severity) == ("vocab-padding", "info")


@pytest.mark.parametrize("head", ["absent", "equal", "same"])
def test_a_tied_head_counts_on_neither_side(tmp_path: Path, head: str) -> None:
    config = models.config(tie_word_embeddings=True)
    one = folder(tmp_path, "one", models.state("hf", head=head), config)
    two = folder(tmp_path, "two", models.state("hf", head="absent"), config)
    assert (
        states(compared(one, two))
        == states(compared(two, one))
        == {"equal": TOTAL - 1} | ({} if head == "absent" else {"tied": 1})
    )


def test_budget_and_cancel(tmp_path: Path) -> None:
    one, two = (folder(tmp_path, name, models.state("hf")) for name in ("one", "two"))
    found = compared(one, two, budget=10_000)
    assert states(found)["unread"] > 0
    assert [f.code for f in found.findings] == ["values-unchecked"]
    with pytest.raises(Cancelled):
        compared(one, two, cancelled=lambda: True)


# ---- sizes and configs


def test_a_known_model() -> None:
    plan = normalise(headers("Llama-3.2-1B", "meta"))
    found = against(plan, "llama-3.2-1b")
    assert (states(found), found.findings) == ({"fits": len(plan.entries)}, ())
    assert "Only names and shapes were compared" in found.sentences()[1]
    other = against(plan, "Llama-3.1-8B")
    assert {f.code for f in other.findings} == {"missing-tensor", "shape-mismatch"}


@pytest.mark.parametrize(("changes", "wrong"), [
    ({"rope_theta": 500000.0, "rope_scaling": {"rope_type": "llama3", "factor": 32.0}}, ""),
    ({"rope_theta": 10000.0, "rope_scaling": {"rope_type": "llama3", "factor": 32.0}}, "rope_theta 10,000"),
    ({"rope_theta": 500000.0, "rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, "scaling of 8.0"),
    ({"rope_theta": 500000.0}, "scaling of none"),
])  # fmt: skip
def test_rotary_frequencies_of_a_known_model(changes: dict[str, Any], wrong: str) -> None:
    source = headers("Llama-3.2-1B")
    config = {"model_type": "llama", "num_attention_heads": 32, "num_key_value_heads": 8, "tie_word_embeddings": True}
    plan = normalise(source.replace(sidecars=type(source.sidecars)(config=config | changes)))
    found = against(plan, "Llama-3.2-1B").findings
    assert [f.code for f in found] == (["config-mismatch"] if wrong else [])
    assert all(wrong in f.message for f in found)


@pytest.mark.parametrize("kind", ["config.json", "params.json"])
def test_a_config(tmp_path: Path, kind: str) -> None:
    path = tmp_path / kind
    value = models.config() if kind == "config.json" else models.params()
    path.write_text(json.dumps(value))
    one = models.save(tmp_path / "one", models.state("torchtune"))
    found = compared(one, path)
    assert (states(found), found.kind, found.findings) == ({"fits": TOTAL}, "config", ())
    value["num_hidden_layers" if kind == "config.json" else "n_layers"] = models.LAYERS + 1
    path.write_text(json.dumps(value))
    assert states(compared(one, path)) == {"fits": TOTAL, "only-b": 9}


def test_no_such_reference(tmp_path: Path) -> None:
    one = models.save(tmp_path / "one", models.state("hf"))
    with pytest.raises(CheckpointError, match="neither a file or folder nor the name of a known model"):
        compared(one, "nothing-like-it")
    config = tmp_path / "config.json"
    config.write_text('{"model_type": "never heard of"}')
    with pytest.raises(CheckpointError, match="without a table"):
        compared(one, config)


def test_reports(tmp_path: Path) -> None:
    state = models.state("hf")
    two = folder(tmp_path, "two", state)
    with open_checkpoint(folder(tmp_path, "one", state | {Q: state[Q] + 1})) as source:
        plan = understand(source)
        found = against(plan, str(two))
    value = check_json(plan, found)["against"]
    assert (value["kind"], value["counts"]) == ("checkpoint", {"equal": TOTAL - 1, "differs": 1})
    assert [(row["ours"], row["state"]) for row in value["rows"]] == [(Q, "differs")]
    text = plain_text(check_document(plan, found))
    assert f"Of {TOTAL} tensors {TOTAL - 1} equal byte for byte, 1 different in values." in text
    assert "against" not in check_json(plan)


def test_what_fix_does_not_mend_is_not_called_fixable(tmp_path: Path) -> None:
    """Rows in the other order stay in it; a wrapper that fix takes off is still offered."""
    right = models.state("hf")
    wrong = right | {Q: models.to_pairs(right[Q], models.HEADS)}
    two = folder(tmp_path, "two", right)
    for name, tensors, offered in (
        ("one", wrong, False),
        ("wrapped", {f"_orig_mod.{k}": v for k, v in wrong.items()}, True),
    ):
        with open_checkpoint(folder(tmp_path, name, tensors)) as source:
            plan = understand(source)
            document = check_document(plan.found(*against(plan, str(two)).findings))
        assert "Not mended by fix alone" in document.verdict
        assert bool(document.command) == offered
