"""What adapters have beside pairs: trained biases, rows of embeddings, and kinds that are only named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ckpt_gui import normalise, open_checkpoint, write
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.export import Target
from ckpt_gui.core.merge_ops import MergeBias
from ckpt_gui.core.merging import merge_adapter
from ckpt_gui.core.normalise import understand
from ckpt_gui.core.ops import RefStream
from ckpt_gui.core.plan import Plan, account
from ckpt_gui.core.replace_ops import PutRows
from ckpt_gui.core.report import check_json
from ckpt_gui.core.retarget import retarget
from tests.core import models
from tests.core.test_adapters import (
    EMBEDDING,
    HEAD,
    PREFIX,
    SCALE,
    adapter_plan,
    all_modules,
    base,
    codes,
    module,
    numbers,
    pairs,
    peft,
    peft_config,
    written,
)

ROWS = (4, 49, 0)
DELTA = "model.embed_tokens.token_adapter.trainable_tokens_delta"


def with_biases() -> tuple[models.State, Plan]:
    tensors = {k: v % 7 - 3 for k, v in models.state("hf", biases=True).items()}
    return tensors, models.plan(tensors, models.config(attention_bias=True))


def biased(tensors: models.State, names: list[str], *, inner: str = "") -> models.State:
    made = peft(pairs(tensors, names), name=inner)
    dot = f".{inner}" if inner else ""
    for i, name in enumerate(names):
        made[f"{PREFIX}{name}.lora_B{dot}.bias"] = numbers(tensors[f"{name}.weight"].shape[:1], 50 + i)
    return made


# ------------------------------------------------------------------------------------------------------------- biases


@pytest.mark.parametrize("to", ["hf", "meta"])
def test_a_bias_of_the_pair(to: str, tmp_path: Path) -> None:
    tensors, plan = with_biases()
    names = [module(1, "q_proj"), module(2, "o_proj")]
    adapter = adapter_plan(biased(tensors, names), peft_config())
    assert adapter.status == "clean"
    found = written(merge_adapter(plan, adapter), tmp_path / "out", to)
    if to == "meta":
        with open_checkpoint(tmp_path / "out") as source:
            found = written(understand(source), tmp_path / "back")
    for i, name in enumerate(names):
        wanted = tensors[f"{name}.bias"] + np.float32(SCALE) * numbers(tensors[f"{name}.bias"].shape, 50 + i)
        assert found[f"{name}.bias"] == wanted.tobytes()
    assert found[f"{module(0, 'q_proj')}.bias"] == tensors[f"{module(0, 'q_proj')}.bias"].tobytes()


def test_a_base_without_biases() -> None:
    tensors, plan = base()
    merged = merge_adapter(plan, adapter_plan(biased(tensors, [module(0, "q_proj")]), peft_config()))
    (found,) = (f for f in merged.findings if f.blocking)
    assert found.code == "adapter-unmatched"
    assert "lora_bias" in found.message
    assert retarget(merged, Target("hf")).blocked


def test_torchtune_has_no_place_for_it() -> None:
    tensors, _ = with_biases()
    plan = adapter_plan(biased(tensors, [module(0, "v_proj")]), peft_config(), models.config(attention_bias=True))
    assert any("trained bias" in f.message for f in retarget(plan, Target("torchtune")).blocked)


def unmerged(tensors: models.State, made: models.State) -> models.State:
    names = {key.removeprefix(PREFIX).partition(".lora_")[0] for key in made}
    wrapped = {
        PREFIX + (f"{m}.base_layer.{leaf}" if (m := key.rpartition(".")[0]) in names else key): value
        for key, value in tensors.items()
        if (leaf := key.rpartition(".")[2])
    }
    return wrapped | made


def test_a_bias_of_an_unmerged_model() -> None:
    tensors, _ = with_biases()
    names = all_modules()
    names = [n for n in names if "self_attn" in n]
    found = normalise_state_dict_of(unmerged(tensors, biased(tensors, names, inner="default")))
    for i, name in enumerate(names):
        wanted = tensors[f"{name}.bias"] + np.float32(SCALE) * numbers(tensors[f"{name}.bias"].shape, 50 + i)
        assert np.array_equal(found[f"{name}.bias"], wanted)


def normalise_state_dict_of(tensors: models.State) -> dict[str, Any]:
    """Merge a whole in memory, through the same plan that `normalise_state_dict` follows."""
    torch = pytest.importorskip("torch")
    state = {key: torch.from_numpy(value) for key, value in tensors.items()}
    from ckpt_gui.core import state_dict

    source = state_dict.from_state_dict(state)
    sidecars = type(source.sidecars)(adapter=peft_config(), config=models.config(attention_bias=True))
    plan = normalise(source.replace(sidecars=sidecars))
    account(plan)
    assert not any(f.blocking for f in plan.findings)
    paths = {ref.path: state[ref.key] for ref in source.refs}
    return {e.key: state_dict._made(e.expr, paths, plan.dims).numpy() for e in plan.entries}


# --------------------------------------------------------------------------------------------------------------- rows


def rows_of(width: int = models.HIDDEN, count: int = len(ROWS)) -> np.ndarray:
    return numbers((count, width), 9) + 100


@pytest.mark.parametrize("stated", [list(ROWS), {"embed_tokens": list(ROWS)}, {"model.embed_tokens": list(ROWS)}])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows(stated: Any, dtype: Any, tmp_path: Path) -> None:
    tensors, plan = base()
    made = {PREFIX + DELTA: rows_of().astype(dtype)} | peft(pairs(tensors, all_modules()))
    adapter = adapter_plan(made, peft_config(trainable_token_indices=stated))
    assert codes(adapter, "warning") == ([] if dtype is np.float32 else ["dtype-mixed"])
    assert adapter.status != "blocked"
    assert check_json(adapter)["adapter"]["tokens"] == [{"module": "model.embed_tokens", "rows": ROWS}]
    found = written(merge_adapter(plan, adapter), tmp_path / "out")
    wanted = tensors[EMBEDDING].copy()
    wanted[list(ROWS)] = rows_of()
    assert found[EMBEDDING] == wanted.tobytes()
    assert found[HEAD] == tensors[HEAD].tobytes()


@pytest.mark.parametrize("head", ["absent", "equal"])
@pytest.mark.parametrize("to", ["hf", "meta"])
def test_rows_of_a_tied_pair_stay_tied(head: str, to: str, tmp_path: Path) -> None:
    tensors, plan = base(head)
    adapter = adapter_plan({PREFIX + DELTA: rows_of()}, peft_config(trainable_token_indices=list(ROWS)))
    merged = merge_adapter(plan, adapter)
    found = written(merged, tmp_path / "out", to)
    wanted = tensors[EMBEDDING].copy()
    wanted[list(ROWS)] = rows_of()
    ends = {models.EMBEDDING[to], models.HEAD[to]} if to == "meta" else {EMBEDDING}
    assert {k: v for k, v in found.items() if k in (*ends, HEAD)} == dict.fromkeys(ends, wanted.tobytes())


@pytest.mark.parametrize(
    "config",
    [{}, {"trainable_token_indices": [1, 2]}, {"trainable_token_indices": [1, 1, 2]}, {"trainable_token_indices": "x"}],
)
def test_rows_of_which_nothing_tells_the_numbers(config: dict[str, Any]) -> None:
    plan = adapter_plan({PREFIX + DELTA: rows_of()}, peft_config(**config))
    assert [f.code for f in plan.findings if f.blocking] == ["adapter-unmatched"]
    assert "trainable_token_indices" in (models.finding(plan, "adapter-unmatched").fix or "")


@pytest.mark.parametrize(("rows", "width"), [((4, 50, 0), models.HIDDEN), (ROWS, models.HIDDEN + 1)])
def test_rows_that_do_not_fit(rows: tuple[int, ...], width: int) -> None:
    _, plan = base()
    tensors = models.state("hf")
    made = {PREFIX + DELTA: rows_of(width)} | peft(pairs(tensors, all_modules()))
    adapter = adapter_plan(made, peft_config(trainable_token_indices=list(rows)))
    merged = merge_adapter(plan, adapter)
    assert [f.code for f in merged.findings if f.blocking] == ["adapter-unmatched"]


def test_torchtune_trains_no_rows() -> None:
    tensors, _ = base()
    made = {PREFIX + DELTA: rows_of()} | peft(pairs(tensors, all_modules()))
    plan = adapter_plan(made, peft_config(trainable_token_indices=list(ROWS)), models.config())
    assert any("rows of an embedding" in f.message for f in retarget(plan, Target("torchtune")).blocked)


# ---------------------------------------------------------------------------------------------------------------- ops


def streams(*arrays: np.ndarray) -> list[RefStream]:
    source = models.source({str(i): a for i, a in enumerate(arrays)})
    return [RefStream(source, ref) for ref in source.refs]


@pytest.mark.parametrize("count", [1, 3, 11])
def test_the_ops_by_any_block(count: int) -> None:
    whole, rows, bias, more = numbers((11, 5), 1), numbers((3, 5), 2), numbers((11,), 3), numbers((11,), 4)
    for op, parts in ((PutRows((10, 2, 0)), (whole, rows)), (MergeBias(1.5), (bias, more))):
        made = op.apply(streams(*parts), {})
        out = np.empty(parts[0].nbytes, np.uint8)
        step = made.unit * count
        for start in range(0, len(out), step):
            made.read_into(start, out[start : start + step])
        wanted = parts[0].copy()
        if isinstance(op, PutRows):
            wanted[[10, 2, 0]] = rows
        else:
            wanted += np.float32(1.5) * more
        assert out.tobytes() == wanted.tobytes()
        assert op.describe({})
        assert op.needs == ()
        assert op.inverse() is op


@pytest.mark.parametrize(
    ("op", "shapes"),
    [(MergeBias(1.0), [(3,), (4,)]), (PutRows((5,)), [(5, 2), (1, 2)]), (PutRows((1,)), [(5, 2), (2, 2)])],
)
def test_shapes_that_do_not_fit(op: Any, shapes: list[tuple[int, ...]]) -> None:
    with pytest.raises(CheckpointError):
        op.shape(shapes, {})


# -------------------------------------------------------------------------------------------------------- other kinds

MARKS = {
    "IA3": "self_attn.k_proj.ia3_l", "LOHA": "self_attn.q_proj.hada_w1_a", "LOKR": "self_attn.q_proj.lokr_w1",
    "VERA": "self_attn.q_proj.vera_lambda_b", "OFT": "self_attn.q_proj.oft_r", "ADALORA": "self_attn.q_proj.lora_E",
}  # fmt: skip


@pytest.mark.parametrize("kind", MARKS)
@pytest.mark.parametrize("told", [False, True])
def test_other_kinds(kind: str, told: bool) -> None:
    _, plan = base()
    made = {f"{PREFIX}model.layers.{n}.{MARKS[kind]}": np.full((2, 2), n, np.float32) for n in range(2)}
    adapter = adapter_plan(made, {"peft_type": kind} if told else None)
    assert adapter.adapter is not None
    assert adapter.adapter.kind == kind
    assert codes(adapter) == ["adapter-unmatched"]
    assert adapter.status == "fixable"
    with pytest.raises(CheckpointError, match=kind):
        merge_adapter(plan, adapter)
    assert not retarget(adapter, Target("same")).blocked
    assert retarget(adapter, Target("torchtune")).blocked
    inside = adapter_plan({PREFIX + "model.norm.base_layer.weight": np.ones(2, np.float32)} | made)
    assert inside.status == "blocked"


def test_pairs_on_packed_experts() -> None:
    tensors, plan = base()
    made = peft(pairs(tensors, [module(0, "q_proj")]))
    made |= {f"{PREFIX}model.layers.0.mlp.experts.lora_{half}.weight": np.ones((4, 4), np.float32) for half in "AB"}
    config = peft_config(target_parameters=["mlp.experts.gate_up_proj"], r=4)
    adapter = adapter_plan(made, config)
    assert "target_parameters" in models.finding(adapter, "adapter-unmatched").message
    merged = merge_adapter(plan, adapter)
    assert any(f.code == "adapter-unmatched" and f.blocking for f in merged.findings)


def test_merging_from_a_script(tmp_path: Path) -> None:
    tensors, plan = base()
    adapter = adapter_plan(peft(pairs(tensors, all_modules())), peft_config())
    write(adapter, tmp_path / "adapter")
    write(plan, tmp_path / "out", "hf", adapter=tmp_path / "adapter")
    name = f"{all_modules()[0]}.weight"
    a, b = pairs(tensors, all_modules())[all_modules()[0]]
    assert models.opened(tmp_path / "out")[name] == (tensors[name] + np.float32(SCALE) * (b @ a)).tobytes()
    strange = peft({"other.module": (np.ones((2, 3), np.float32), np.ones((4, 2), np.float32))})
    write(adapter_plan(strange, peft_config()), tmp_path / "other")
    with pytest.raises(CheckpointError, match="0 of"):
        write(plan, tmp_path / "no", "hf", adapter=tmp_path / "other")
