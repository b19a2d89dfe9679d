"""Tensor-parallel ranks: cut by hand as Meta's programs do, opened as one model, and cut again by an export."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ckpt_gui.core.diffing import diff_expected
from ckpt_gui.core.export import Target
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.normalise import normalise, probe, understand
from ckpt_gui.core.plan import Plan
from ckpt_gui.core.rank_cut import refuse_ranks
from ckpt_gui.core.report import check_json
from ckpt_gui.core.retarget import retarget
from ckpt_gui.core.writer import write_export
from ckpt_gui.dataclasses import replace
from tests import builders
from tests.core import models

State = dict[str, np.ndarray]
COLUMN = ("wq", "wk", "wv", "w1", "w3", "output")  # cut along their rows, biases too
ROW = ("wo", "w2")  # cut along their columns
HIDDEN, HEADS, KV_HEADS, HEAD_DIM, FFN, VOCAB = 32, 8, 8, 8, 64, 48
PARAMS = {"dim": HIDDEN, "n_layers": 2, "n_heads": HEADS, "n_kv_heads": KV_HEADS, "head_dim": HEAD_DIM,
          "hidden_dim": FFN, "multiple_of": 8, "vocab_size": VOCAB, "norm_eps": 1e-5}  # fmt: skip


def whole(kv_heads: int = KV_HEADS, *, biases: bool = False, rope: bool = False) -> State:
    """A Meta model whose sizes 2, 4 and 8 divide."""
    shapes: dict[str, tuple[int, ...]] = {"tok_embeddings.weight": (VOCAB, HIDDEN)}
    for n in range(2):
        parts = {
            "attention.wq.weight": (HEADS * HEAD_DIM, HIDDEN), "attention.wk.weight": (kv_heads * HEAD_DIM, HIDDEN),
            "attention.wv.weight": (kv_heads * HEAD_DIM, HIDDEN), "attention.wo.weight": (HIDDEN, HEADS * HEAD_DIM),
            "feed_forward.w1.weight": (FFN, HIDDEN), "feed_forward.w2.weight": (HIDDEN, FFN),
            "feed_forward.w3.weight": (FFN, HIDDEN), "attention_norm.weight": (HIDDEN,), "ffn_norm.weight": (HIDDEN,),
        }  # fmt: skip
        if biases:
            parts |= {"attention.wq.bias": (HEADS * HEAD_DIM,), "attention.wk.bias": (kv_heads * HEAD_DIM,)}
            parts |= {"attention.wv.bias": (kv_heads * HEAD_DIM,), "attention.wo.bias": (HIDDEN,)}
        shapes |= {f"layers.{n}.{name}": shape for name, shape in parts.items()}
    shapes |= {"norm.weight": (HIDDEN,), "output.weight": (VOCAB, HIDDEN)}
    shapes |= {"rope.freqs": (HEAD_DIM // 2,)} if rope else {}
    made, begin = {}, 1
    for key, shape in shapes.items():
        size = int(np.prod(shape))
        made[key] = np.arange(begin, begin + size, dtype=np.float32).reshape(shape)
        begin += size
    return made


def cut(state: Mapping[str, np.ndarray], rank: int, ranks: int, embedding: int = 1, repeat: int = 1) -> State:
    """One rank's file, by hand."""
    made = {}
    for key, array in state.items():
        name = key.split(".")[-2]
        if name == "tok_embeddings":
            made[key] = np.split(array, ranks, embedding)[rank]
        elif name in ("wk", "wv"):
            made[key] = np.split(array, ranks // repeat)[rank // repeat]
        elif name in COLUMN:
            made[key] = np.split(array, ranks)[rank]
        elif name in ROW and array.ndim == 2:
            made[key] = np.split(array, ranks, 1)[rank]
        else:
            made[key] = array
    return made


def name(rank: int) -> str:
    return f"consolidated.{rank:02}.pth"


def save(folder: Path, state: State, ranks: int, *, params: Any = PARAMS, left_out: tuple[int, ...] = (),
         **how: int) -> Path:  # fmt: skip
    folder.mkdir()
    for rank in range(ranks):
        if rank not in left_out:
            data = builders.state_dict_bytes({k: v.copy() for k, v in cut(state, rank, ranks, **how).items()})
            (folder / name(rank)).write_bytes(data)
    if params:
        (folder / "params.json").write_text(json.dumps(params))
    return folder


def plan_of(path: Path) -> Plan:
    return understand(open_checkpoint(path))


@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("embedding", [0, 1])
@pytest.mark.parametrize("biases", [False, True])
def test_merged_is_whole_and_cut_again_is_the_same(tmp_path: Path, ranks: int, embedding: int, biases: bool) -> None:
    state = whole(biases=biases, rope=True)
    folder = save(tmp_path / "in", state, ranks, embedding=embedding)
    plan = plan_of(folder)
    assert plan.status == "clean", plan.findings
    assert (check_json(plan)["tensors"], plan.family.name, plan.layout.name) == (len(state) - 1, "llama", "meta")
    assert check_json(plan)["parameters"] == sum(a.size for k, a in state.items() if k != "rope.freqs")
    write_export(retarget(plan, Target("meta")), tmp_path / "one")
    one = {k: v for k, v in state.items() if k != "rope.freqs"} | {"rope.freqs": state["rope.freqs"]}
    assert models.opened(tmp_path / "one") == models.as_bytes(one)
    for target in (Target("same"), Target("meta", model_parallel=ranks)):
        out = tmp_path / target.layout / "out"
        export = retarget(plan, target)
        assert not any(op for e in export.entries for op in e.ops if op.name == "permute")
        write_export(export, out)
        assert sorted(p.name for p in out.glob("*.pth")) == [name(r) for r in range(ranks)]
        for rank in range(ranks):
            assert models.opened(out / name(rank)) == models.as_bytes(cut(state, rank, ranks, embedding))
    assert plan_of(tmp_path / "meta" / "out").status == "clean"
    report = json.loads((tmp_path / "meta" / "out" / "EXPORT_REPORT.json").read_text())
    assert report["use_with"] == {}  # torchtune reads one file of Meta's, not several
    assert len(report["tensors"]) == ranks * len(state)


@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("theta", [None, 500000.0])
def test_a_model_of_one_file_is_cut_as_its_release_is(tmp_path: Path, ranks: int, theta: float | None) -> None:
    state = whole()
    params = PARAMS | ({"rope_theta": theta} if theta else {})
    write_export(retarget(plan_of(models.save(tmp_path / "in", state, name=name(0), params=params)),
                          Target("hf")), tmp_path / "hf")  # fmt: skip
    write_export(retarget(plan_of(tmp_path / "hf"), Target("meta", model_parallel=ranks)), tmp_path / "cut")
    for rank in range(ranks):
        wanted = models.as_bytes(cut(state, rank, ranks, 0 if theta else 1))
        assert models.opened(tmp_path / "cut" / name(rank)) == wanted
    back = plan_of(tmp_path / "cut")
    assert back.status == "clean", back.findings
    write_export(retarget(back, Target("hf")), tmp_path / "back")
    assert models.opened(tmp_path / "back") == models.opened(tmp_path / "hf")


def test_to_hf_says_so(tmp_path: Path) -> None:
    export = retarget(plan_of(save(tmp_path / "in", whole(), 4)), Target("hf"))
    step = next(s for s in export.steps if s.id == "ranks")
    assert step.title == "Put the slices of 4 ranks together"
    assert "4 files hold the slices of 4 tensor-parallel ranks" in " ".join(export.plan.evidence_text)
    rows = diff_expected(export)
    assert rows.counts["missing"] == rows.counts["extra"] == rows.counts["error"] == 0
    assert {r.note for r in rows.rows if r.key == "layers.0.attention.wo.weight"} == {"put together along dimension 1"}


@pytest.mark.parametrize("stated", [2, 8])
@pytest.mark.parametrize("to", ["meta", "hf"])
def test_more_ranks_than_key_heads(tmp_path: Path, stated: int, to: str) -> None:
    """As the 405B for 16 ranks: params.json counts the copies of the key/value heads too, or does not."""
    state = whole(kv_heads=2)
    params = PARAMS | {"n_kv_heads": stated}
    plan = plan_of(save(tmp_path / "in", state, 8, params=params, repeat=4))
    assert plan.status == "clean", plan.findings
    assert plan.dims["kv_heads"] == 2
    assert "4 neighbours each hold the same" in " ".join(plan.evidence_text)
    write_export(retarget(plan, Target(to)), tmp_path / "one")
    if to == "meta":
        assert models.opened(tmp_path / "one") == models.as_bytes(state)
        assert json.loads((tmp_path / "one" / "params.json").read_text())["n_kv_heads"] == 2
    write_export(retarget(plan_of(tmp_path / "one"), Target("meta", model_parallel=8)), tmp_path / "cut")
    assert json.loads((tmp_path / "cut" / "params.json").read_text())["n_kv_heads"] == 8
    for rank in range(8):
        assert models.opened(tmp_path / "cut" / name(rank)) == models.as_bytes(cut(state, rank, 8, repeat=4))


def test_without_params_bytes_tell_of_copies(tmp_path: Path) -> None:
    plan = plan_of(save(tmp_path / "in", whole(kv_heads=2), 8, params=None, repeat=4))
    assert next(e for e in plan.entries if "k_proj" in e.key).output.shape == (2 * HEAD_DIM, HIDDEN)
    assert models.codes(plan) == ["config-missing", "family-ambiguous"]


def test_copies_of_heads_that_are_none(tmp_path: Path) -> None:
    """Twice as many key/value rows as params.json has heads for, and not the same ones."""
    plan = plan_of(save(tmp_path / "in", whole(), 8, params=PARAMS | {"n_kv_heads": 4}))
    found = models.finding(plan, "duplicate-tensor")
    assert len(found.keys) == 4
    assert plan.status == "blocked"


@pytest.mark.parametrize("key", ["norm.weight", "layers.1.attention.wo.bias"])
def test_what_ranks_hold_alike_must_be_equal(tmp_path: Path, key: str) -> None:
    state = whole(biases=True)
    folder = save(tmp_path / "in", state, 2)
    other = cut(state, 1, 2)
    other[key] = other[key] + 1
    (folder / name(1)).write_bytes(builders.state_dict_bytes(other))
    plan = plan_of(folder)
    found = models.finding(plan, "duplicate-tensor")
    assert (found.keys, found.severity, found.blocking) == ((key,), "error", True)


def test_nothing_is_written_before_copies_are_compared(tmp_path: Path) -> None:
    source = open_checkpoint(save(tmp_path / "in", whole(), 2))
    plan = normalise(source)
    assert models.codes(plan) == ["replica-unchecked", "tied-unchecked"]
    assert probe(plan, budget=10).replicas == {}
    with pytest.raises(Exception, match="compared before anything is written"):
        write_export(retarget(plan, Target("meta")), tmp_path / "out")
    again = normalise(source, None, probe(plan))
    assert models.codes(again) == []


@pytest.mark.parametrize(("left_out", "names"), [
    ((1,), ["consolidated.01.pth"]), ((0,), ["consolidated.00.pth"]), ((2, 3), ["consolidated.02.pth", "…03.pth"]),
    ((1, 3), ["consolidated.01.pth"]),
])  # fmt: skip
def test_a_missing_rank_is_named(tmp_path: Path, left_out: tuple[int, ...], names: list[str]) -> None:
    plan = plan_of(save(tmp_path / "in", whole(), 4, left_out=left_out))
    found = models.finding(plan, "shard-missing")
    assert found.blocking
    assert all(n.lstrip("…") in found.message for n in names)


def test_one_rank_opened_by_its_name(tmp_path: Path) -> None:
    folder = save(tmp_path / "in", whole(), 4)
    found = models.finding(plan_of(folder / name(2)), "shard-missing")
    assert "consolidated.00.pth, consolidated.01.pth, consolidated.03.pth" in found.message
    assert "Open the folder" in (found.fix or "")
    alone = save(tmp_path / "alone", whole(), 4, left_out=(1, 2, 3))
    assert "3 of 4" in models.finding(plan_of(alone), "shard-missing").message


def test_ranks_of_two_models(tmp_path: Path) -> None:
    folder = save(tmp_path / "in", whole(), 2)
    other = cut(whole(), 1, 2) | {"layers.0.attention.wq.weight": np.zeros((3, HIDDEN), np.float32)}
    (folder / name(1)).write_bytes(builders.state_dict_bytes(other))
    found = models.finding(plan_of(folder), "shape-mismatch")
    assert found.keys == ("layers.0.attention.wq.weight",)


def test_ranks_with_names_of_their_own_are_one_model(tmp_path: Path) -> None:
    state = whole()
    keys = list(state)
    folder = tmp_path / "in"
    folder.mkdir()
    for rank in range(2):
        part = {key: state[key] for key in keys[rank::2]}
        (folder / name(rank)).write_bytes(builders.state_dict_bytes(part))
    (folder / "params.json").write_text(json.dumps(PARAMS))
    plan = plan_of(folder)
    assert plan.status == "clean", plan.findings


def test_ranks_of_an_unknown_model(tmp_path: Path) -> None:
    folder = save(tmp_path / "in", {"a.b": np.ones((4, 4), np.float32)}, 2, params=None)
    plan = plan_of(folder)
    assert "partitioned-state" in models.codes(plan)
    assert retarget(plan, Target("same")).blocked


@pytest.mark.parametrize(("target", "code", "text"), [
    (Target("meta", model_parallel=3), "shape-mismatch", "8 heads can not be cut for 3 ranks"),
    (Target("meta", "safetensors", model_parallel=2), "partitioned-state", "torch files"),
    (Target("hf", model_parallel=2), "partitioned-state", "hf layout"),
    (Target("meta", model_parallel=16), "shape-mismatch", "8 heads can not be cut"),
])  # fmt: skip
def test_refused_cuts(tmp_path: Path, target: Target, code: str, text: str) -> None:
    export = retarget(plan_of(models.save(tmp_path / "in", whole(), name=name(0), params=PARAMS)), target)
    assert [(f.code, text in f.message) for f in export.blocked] == [(code, True)]


def test_a_tied_pair_that_is_cut(tmp_path: Path) -> None:
    """The embedding along hidden, the head along the vocabulary: equal as wholes only."""
    state = whole()
    state["output.weight"] = state["tok_embeddings.weight"].copy()
    plan = plan_of(save(tmp_path / "in", state, 4))
    assert (plan.tie.state, plan.status) == ("equal", "clean")
    write_export(retarget(plan, Target("hf")), tmp_path / "hf")
    assert "lm_head.weight" not in models.opened(tmp_path / "hf")


@pytest.mark.parametrize("sharded", [False, True])
def test_mistral_native_beside_hugging_face(tmp_path: Path, sharded: bool) -> None:
    """A Mistral repository: shards, and the same model as `consolidated.safetensors` with params.json."""
    native = models.state("meta")
    hf = models.state("hf")
    folder = tmp_path / "repository"
    if sharded:
        models.save_shards(folder, hf, 3, config=models.mistral_config())
    else:
        models.save(folder, hf, config=models.mistral_config())
    models.save(folder, native, name="consolidated.safetensors", params=models.params(sliding_window="4096"))
    plan = plan_of(folder)
    assert (plan.status, plan.family.name, plan.layout.name) == ("clean", "mistral", "hf")
    found = models.finding(plan, "several-models")
    assert (found.severity, "consolidated.safetensors" in found.message) == ("info", True)
    for path in (folder / "consolidated.safetensors", _apart(tmp_path, native)):
        plan = plan_of(path)
        assert (plan.status, plan.family.name, plan.layout.name) == ("clean", "mistral", "meta")
        out = tmp_path / f"out-{path.parent.name}"
        write_export(retarget(plan, Target("hf")), out)
        assert models.opened(out) == models.as_bytes(hf)


def _apart(tmp_path: Path, native: State) -> Path:
    params = models.params(sliding_window="4096")
    return models.save(tmp_path / "native" / "x", native, name="consolidated.safetensors", params=params)


EXPERTS, WIDTH = 3, 24
RELEASED = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
            "intermediate_size": WIDTH, "num_local_experts": EXPERTS, "vocab_size": 40, "rms_norm_eps": 1e-5,
            "rope_theta": 1000000.0, "sliding_window": "4096"}  # fmt: skip


def released() -> tuple[State, State]:
    """A Mixtral as it was released first, and the same under Hugging Face's names, derived by hand."""
    made: State = {}
    hub: State = {}
    begin = 1

    def take(*shape: int) -> np.ndarray:
        nonlocal begin
        array = np.arange(begin, begin + int(np.prod(shape)), dtype=np.float32).reshape(shape)
        begin += array.size
        return array

    for theirs, ours in (("tok_embeddings", "model.embed_tokens"), ("output", "lm_head")):
        made[f"{theirs}.weight"] = hub[f"{ours}.weight"] = take(40, 32)
    made["norm.weight"] = hub["model.norm.weight"] = take(32)
    for n in range(2):
        a, b = f"layers.{n}.", f"model.layers.{n}."
        for theirs, ours, rows in (("wq", "q", 32), ("wk", "k", 16), ("wv", "v", 16), ("wo", "o", 32)):
            array = take(rows, 32)
            made[f"{a}attention.{theirs}.weight"] = array
            turned = array.reshape(-1, 4, 2, 32).transpose(0, 2, 1, 3).reshape(rows, 32) if ours in "qk" else array
            hub[f"{b}self_attn.{ours}_proj.weight"] = np.ascontiguousarray(turned)
        made[a + "attention_norm.weight"] = hub[b + "input_layernorm.weight"] = take(32)
        made[a + "ffn_norm.weight"] = hub[b + "post_attention_layernorm.weight"] = take(32)
        made[a + "block_sparse_moe.gate.weight"] = hub[b + "block_sparse_moe.gate.weight"] = take(EXPERTS, 32)
        for w in ("w1", "w2", "w3"):
            stacked = made[f"{a}block_sparse_moe.{w}"] = take(EXPERTS * WIDTH, 32)
            for e in range(EXPERTS):
                block = stacked[e * WIDTH : (e + 1) * WIDTH]
                own = np.ascontiguousarray(block.T if w == "w2" else block)
                hub[f"{b}block_sparse_moe.experts.{e}.{w}.weight"] = own
    return made, hub


def test_mixtral_as_it_was_released_first(tmp_path: Path) -> None:
    """Eight `.pt` files that hold tensors of their own, experts under one another, w2 turned."""
    state, hub = released()
    folder = tmp_path / "in"
    folder.mkdir()
    keys = list(state)
    for rank in range(8):
        part = {key: state[key] for key in keys[rank::8]}
        (folder / f"consolidated.{rank:02}.pt").write_bytes(builders.state_dict_bytes(part))
    (folder / "params.json").write_text(json.dumps(RELEASED))
    plan = plan_of(folder)
    assert (plan.status, plan.family.name, plan.layout.name) == ("clean", "mixtral", "mixtral-release"), plan.findings
    assert (plan.dims["experts"], plan.dims["ffn"], plan.dims["heads"]) == (EXPERTS, WIDTH, 4)
    write_export(retarget(plan, Target("hf")), tmp_path / "hf")
    assert models.opened(tmp_path / "hf") == models.as_bytes(hub)
    config = json.loads((tmp_path / "hf" / "config.json").read_text())
    assert (config["num_local_experts"], config["rope_theta"], config["rms_norm_eps"]) == (EXPERTS, 1e6, 1e-5)
    back = retarget(plan_of(tmp_path / "hf"), Target("mixtral-release"))
    write_export(back, tmp_path / "back")
    assert models.opened(tmp_path / "back") == models.as_bytes(state)
    (folder / "consolidated.03.pt").unlink()
    assert "consolidated.03.pt" in models.finding(plan_of(folder), "shard-missing").message


def test_what_was_chosen_already_is_not_advised(tmp_path: Path) -> None:
    """How Mixtral's own files are cut for ranks is not known: to choose --to meta once more would not help."""
    folder = models.save(tmp_path / "in", whole(), name=name(0), params=PARAMS)
    known = plan_of(folder)
    assert known.layout is not None
    meta = replace(known.layout, rank_dims=())
    fixes = [
        refuse_ranks(known.entries, 2, layout, "torch", known)[0].fix for layout in (meta, replace(meta, name="hf"))
    ]
    assert fixes == [
        "Leave out --model-parallel: one file holds it whole.", "Leave out --model-parallel, or choose --to meta.",
    ]  # fmt: skip
