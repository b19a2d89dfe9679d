"""Adapters: names, scales, merging against numpy, conversion between PEFT and torchtune."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ckpt_gui import normalise_state_dict
from ckpt_gui.core.adapters import untried_patterns
from ckpt_gui.core.beside import Sidecars
from ckpt_gui.core.casts import cast
from ckpt_gui.core.diffing import diff_expected
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.export import Export, Target
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.formats.memory import from_state_dict
from ckpt_gui.core.merge_ops import MergeLora
from ckpt_gui.core.merging import merge_adapter
from ckpt_gui.core.normalise import normalise
from ckpt_gui.core.ops import RefStream
from ckpt_gui.core.plan import Plan
from ckpt_gui.core.policy import Policy
from ckpt_gui.core.report import check_document, check_json
from ckpt_gui.core.retarget import retarget
from ckpt_gui.core.text import plain, plain_text
from ckpt_gui.core.writer import write_export
from tests.core import models

Arrays = dict[str, np.ndarray]
PREFIX = "base_model.model."
RANK, ALPHA = 2, 6
SCALE = ALPHA / RANK
KINDS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "down_proj")
EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"


def module(layer: int, kind: str) -> str:
    return f"model.layers.{layer}.{'mlp' if kind in ('gate_proj', 'up_proj', 'down_proj') else 'self_attn'}.{kind}"


def numbers(shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Small whole numbers: sums of their products are exact in fp32, in any order."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float32)


def pairs(base: Arrays, names: list[str], rank: int = RANK) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """A and B for modules, by name."""
    return {
        name: (numbers((rank, base[f"{name}.weight"].shape[1]), 2 * i), numbers((len(base[f"{name}.weight"]), rank), i))
        for i, name in enumerate(names)
    }


def all_modules() -> list[str]:
    return [module(n, kind) for n in range(models.LAYERS) for kind in KINDS]


def peft(made: dict[str, tuple[np.ndarray, np.ndarray]], *, name: str = "", prefix: str = PREFIX) -> Arrays:
    """Pairs under PEFT's names."""
    inner = f".{name}" if name else ""
    return {
        f"{prefix}{module}.{part}{inner}.weight": array
        for module, both in made.items()
        for part, array in zip(("lora_A", "lora_B"), both, strict=True)
    }


def peft_config(**changes: Any) -> dict[str, Any]:
    return {"peft_type": "LORA", "r": RANK, "lora_alpha": ALPHA, "target_modules": list(KINDS)} | changes


def adapter_plan(tensors: Arrays, config: Any = None, model: Any = None, **policy: Any) -> Plan:
    source = from_state_dict(tensors).replace(sidecars=Sidecars(adapter=config, config=model))
    return normalise(source, Policy(**policy))


def merged_by_numpy(base: Arrays, made: dict[str, tuple[np.ndarray, np.ndarray]], scale: float = SCALE) -> Arrays:
    done = dict(base)
    for name, (a, b) in made.items():
        done[f"{name}.weight"] = base[f"{name}.weight"] + np.float32(scale) * (b @ a)
    return done


def written(plan: Plan, folder: Path, layout: str = "hf", **target: Any) -> dict[str, bytes]:
    export = retarget(plan, Target(layout, **target))
    assert export.blocked == ()
    write_export(export, folder)
    return models.opened(folder)


def base(head: str = "own", layout: str = "hf", scale: float = 1.0) -> tuple[Arrays, Plan]:
    """A base in small whole numbers, and its plan."""
    tensors = {k: (v % 7 - 3) * np.float32(scale) for k, v in models.state(layout, head=head).items()}
    tied = head in ("absent", "equal")
    if tied and head == "equal":
        tensors[models.HEAD[layout]] = tensors[models.EMBEDDING[layout]].copy()
    return tensors, models.plan(tensors, models.config(tie_word_embeddings=tied))


def codes(plan: Plan | Export, severity: str = "") -> list[str]:
    return sorted(f.code for f in plan.findings if not severity or f.severity == severity)


# ------------------------------------------------------------------------------------------------------- recognition


@pytest.mark.parametrize(("name", "prefix"), [("", PREFIX), ("default", PREFIX), ("mine", PREFIX), ("", "")])
def test_peft_names(name: str, prefix: str) -> None:
    tensors, _ = base()
    plan = adapter_plan(peft(pairs(tensors, all_modules()), name=name, prefix=prefix), peft_config())
    assert plan.adapter is not None
    assert plan.layout is not None
    assert plan.layout.name == "peft-adapter"
    assert [lora.module for lora in plan.adapter.loras] == all_modules()
    assert {(x.rank, x.alpha, x.scale) for x in plan.adapter.loras} == {(RANK, ALPHA, SCALE)}
    assert ("renamed" in codes(plan)) == (not prefix)
    assert plan.status == ("clean" if prefix else "fixable")


def test_wrappers_go_and_the_prefix_comes(tmp_path: Path) -> None:
    tensors, _ = base()
    made = peft(pairs(tensors, all_modules()), prefix="")
    for lead in ("_orig_mod.", "_orig_mod.base_model.model.", "base_model.model._orig_mod."):
        plan = adapter_plan({lead + key: value for key, value in made.items()}, peft_config())
        assert "wrapper-prefix" in codes(plan)
        export = retarget(plan, Target("same", "safetensors"))
        assert {e.key for e in export.entries} == {PREFIX + key for key in made}
        assert json.loads(export.texts["adapter_config.json"])["lora_alpha"] == ALPHA


def test_torchtune_names() -> None:
    made: Arrays = {}
    for name in ("layers.0.attn.q_proj", "layers.0.mlp.w1", "output"):
        made |= {f"{name}.lora_a.weight": numbers((RANK, 4), 1), f"{name}.lora_b.weight": numbers((8, RANK), 2)}
    made["layers.0.attn.q_proj.magnitude"] = numbers((8,), 3)
    plan = adapter_plan(made, peft_config())
    assert plan.adapter is not None
    assert plan.layout is not None
    assert plan.layout.name == "torchtune-adapter"
    assert [x.lengths is not None for x in plan.adapter.loras] == [True, False, False]


def test_scales() -> None:
    tensors, _ = base()
    q, v = module(0, "q_proj"), module(1, "v_proj")
    made = peft(pairs(tensors, [q, v]))

    def scale(**changes: Any) -> list[float | None]:
        plan = adapter_plan(made, peft_config(**changes))
        assert plan.adapter is not None
        return [x.scale for x in plan.adapter.loras]

    assert scale() == [3, 3]
    assert scale(use_rslora=True) == [ALPHA / RANK**0.5] * 2
    assert scale(alpha_pattern={"v_proj": 8}) == [3, 4]
    assert scale(alpha_pattern={"layers.1.self_attn.v_proj": 8}) == [3, 4]
    assert scale(alpha_pattern={".*0.self_attn.q_proj": 8}) == [4, 3]
    assert scale(alpha_pattern={"q_proj|v_proj": 8}) == [4, 4]
    assert scale(alpha_pattern={"roj": 8}) == [3, 3]


def test_costly_patterns_are_not_tried_and_said() -> None:
    tensors, _ = base()
    config = peft_config(alpha_pattern={"(a+)+b": 1, "[": 2, "q_proj": 8})
    assert untried_patterns(config) == ("(a+)+b", "[")
    plan = adapter_plan(peft(pairs(tensors, all_modules())), config)
    assert "adapter-scale" in codes(plan, "warning")


@pytest.mark.parametrize(
    ("changes", "text"), [({"lora_alpha": None}, "--lora-alpha"), ({"lora_alpha": 0}, "Alpha is 0")]
)
def test_alpha_absent_or_nothing(changes: dict[str, Any], text: str) -> None:
    tensors, _ = base()
    plan = adapter_plan(peft(pairs(tensors, all_modules())), peft_config(**changes))
    found = models.finding(plan, "adapter-empty")
    assert found.severity == "error"
    assert found.blocking
    assert text in f"{found.message} {found.fix}"
    given = adapter_plan(peft(pairs(tensors, all_modules())), peft_config(**changes), lora_alpha=4.0)
    assert codes(given, "error") == []
    assert given.adapter is not None
    assert given.adapter.loras[0].scale == 2.0


def test_empty_adapters() -> None:
    tensors, _ = base()
    made = {k: v if "lora_A" in k else np.zeros(0, np.float32) for k, v in peft(pairs(tensors, all_modules())).items()}
    assert codes(adapter_plan(made, peft_config()), "error") == ["adapter-empty"]
    none = adapter_plan({"x.weight": np.zeros(1, np.float32)}, None)
    assert none.adapter is None


def test_the_stated_rank() -> None:
    tensors, _ = base()
    plan = adapter_plan(peft(pairs(tensors, all_modules())), peft_config(r=8))
    assert "adapter-scale" in codes(plan, "warning")
    fine = peft_config(r=8, rank_pattern=dict.fromkeys(KINDS, RANK))
    assert "adapter-scale" not in codes(adapter_plan(peft(pairs(tensors, all_modules())), fine))


def test_halves_and_several_block() -> None:
    tensors, _ = base()
    made = peft(pairs(tensors, all_modules()))
    del made[next(iter(made))]
    assert "adapter-unmatched" in codes(adapter_plan(made, peft_config()), "error")
    two = peft(pairs(tensors, all_modules()), name="a") | peft(pairs(tensors, all_modules()), name="b")
    assert "several-sections" in codes(adapter_plan(two, peft_config()), "error")


def test_report() -> None:
    tensors, _ = base()
    plan = adapter_plan(peft(pairs(tensors, all_modules())), peft_config())
    text = " ".join("".join(line.text for line in plain(check_document(plan), 400)).split())
    assert f"on {len(all_modules())} modules (q_proj, k_proj" in text
    assert "rank 2, alpha 6, scale 3" in text
    value = check_json(plan)
    assert value["layout"] == "peft-adapter"
    assert value["adapter"]["modules"][0] == {
        "module": all_modules()[0], "rank": RANK, "alpha": ALPHA, "scale": SCALE, "dora": False,
    }  # fmt: skip


def test_a_model_without_pairs_loses_the_prefix() -> None:
    tensors, _ = base()
    plan = models.plan({PREFIX + k: v for k, v in tensors.items()}, models.config())
    assert "renamed" in codes(plan)
    assert plan.missing == ()
    assert plan.unmapped == ()


# -------------------------------------------------------------------------------------------------------- arithmetic


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("dora", [False, True])
@pytest.mark.parametrize("rows", [1, 3, 64])
def test_the_op_by_any_block(dtype: str, dora: bool, rows: int) -> None:
    rng = np.random.default_rng(0)
    weight, a, b = (rng.standard_normal(s).astype(np.float32) for s in ((64, 24), (3, 24), (64, 3)))
    lengths = rng.uniform(0.5, 2, 64).astype(np.float32)
    raw, _ = cast(weight.reshape(-1).view(np.uint8), "fp32", dtype)
    stored = cast(raw, dtype, "fp32")[0].view(np.float32).reshape(64, 24)
    wanted = stored + np.float32(0.75) * (b @ a)
    if dora:
        wanted = wanted * (lengths / np.linalg.norm(wanted, axis=1))[:, None]
    kinds = {"fp32": np.float32, "fp16": np.float16, "bf16": np.uint16}
    arrays = {"w": raw.view(kinds[dtype]).reshape(64, 24), "a": a, "b": b, "m": lengths}
    source = from_state_dict(arrays)
    refs = [r if r.key != "w" else r.__class__("w", dtype, r.shape, storage=r.storage) for r in source.refs]
    op = MergeLora(0.75, dora)
    stream = op.apply([RefStream(source, r) for r in refs[: 4 if dora else 3]], {})
    out = np.zeros(raw.nbytes, np.uint8)
    step = rows * stream.unit
    for start in range(0, out.nbytes, step):
        stream.read_into(start, out[start : start + step])
    found = cast(out, dtype, "fp32")[0].view(np.float32).reshape(64, 24)
    exact = cast(wanted.reshape(-1).view(np.uint8), "fp32", dtype)[0]
    near = cast(exact, dtype, "fp32")[0].view(np.float32).reshape(64, 24)
    tolerance = {"fp32": 1e-6, "bf16": 2**-7, "fp16": 2**-10}[dtype]
    np.testing.assert_allclose(found, near, rtol=tolerance, atol=tolerance)
    assert np.mean(found == near) > (0.5 if dtype == "fp32" else 0.99)


def test_shapes_that_do_not_fit() -> None:
    for shapes in (
        [(4, 3), (2, 3), (5, 2)],
        [(4, 3), (2, 4), (4, 2)],
        [(4, 3), (2, 3), (4, 1)],
        [(4,), (2, 3), (4, 2)],
    ):
        with pytest.raises(CheckpointError, match="does not fit"):
            MergeLora(1.0).shape(shapes, {})


# ------------------------------------------------------------------------------------------------ merging into a base


@pytest.mark.parametrize("to", ["hf", "meta", "torchtune"])
@pytest.mark.parametrize("stored", ["hf", "meta", "torchtune"])
def test_merge_in_every_order(stored: str, to: str, tmp_path: Path) -> None:
    """B lies in Hugging Face's order, whatever the base has and the export wants."""
    hf, _ = base()
    made = pairs(hf, all_modules())
    theirs = retarget(base()[1], Target(stored))
    write_export(theirs, tmp_path / "base")
    with open_checkpoint(tmp_path / "base") as source:
        plan = merge_adapter(models.understand(source, Policy()), adapter_plan(peft(made), peft_config()))
        found = written(plan, tmp_path / "out", to)
    wanted_plan = models.plan(merged_by_numpy(hf, made), models.config())
    wanted = written(wanted_plan, tmp_path / "wanted", to)
    assert found == wanted
    report = json.loads((tmp_path / "out" / "EXPORT_REPORT.json").read_text())
    assert any(step["id"] == "merge" and "18 of 18 modules" in step["evidence"] for step in report["steps"])


def test_torchtune_adapters_are_in_pairs(tmp_path: Path) -> None:
    tune, plan = base(layout="torchtune")
    names = ["layers.0.attn.q_proj", "layers.1.attn.k_proj", "layers.0.mlp.w2", "layers.1.attn.output_proj"]
    made = pairs(tune, names)
    tensors = {
        f"{name}.{part}.weight": array
        for name, both in made.items()
        for part, array in zip(("lora_a", "lora_b"), both, strict=True)
    }
    plan = merge_adapter(plan, adapter_plan(tensors, peft_config()))
    found = written(plan, tmp_path / "out", "hf")
    wanted = written(models.plan(merged_by_numpy(tune, made), models.config()), tmp_path / "wanted", "hf")
    assert found == wanted


def test_dora(tmp_path: Path) -> None:
    hf, plan = base()
    names = [module(0, "q_proj"), module(1, "down_proj")]
    made = pairs(hf, names)
    lengths = {name: np.abs(numbers((len(hf[f"{name}.weight"]),), 9)) + 1 for name in names}
    tensors = peft(made) | {f"{PREFIX}{name}.lora_magnitude_vector": value for name, value in lengths.items()}
    found = written(merge_adapter(plan, adapter_plan(tensors, peft_config())), tmp_path / "out")
    sums = merged_by_numpy(hf, made)
    for name in names:
        summed = sums[f"{name}.weight"]
        wanted = summed * (lengths[name] / np.linalg.norm(summed, axis=1))[:, None]
        got = np.frombuffer(found[f"{name}.weight"], np.float32).reshape(wanted.shape)
        np.testing.assert_allclose(got, wanted, rtol=1e-6)


def test_bf16_is_rounded_once(tmp_path: Path) -> None:
    hf, plan = base()
    write_export(retarget(plan, Target("hf", dtype="bf16")), tmp_path / "base")
    names = all_modules()
    made = {k: (a / 16, b / 64) for k, (a, b) in pairs(hf, names).items()}
    with open_checkpoint(tmp_path / "base") as source:
        merged = merge_adapter(models.understand(source, Policy()), adapter_plan(peft(made), peft_config()))
        found = written(merged, tmp_path / "out")
    for name, array in merged_by_numpy(hf, made).items():
        rounded, _ = cast(np.ascontiguousarray(array).reshape(-1).view(np.uint8), "fp32", "bf16")
        assert found[name] == rounded.tobytes(), name


@pytest.mark.parametrize("head", ["absent", "equal"])
def test_a_head_of_its_own(head: str, tmp_path: Path) -> None:
    """An adapter on the head of a tied model: the two are no longer one."""
    hf, plan = base(head)
    made = {"lm_head": (numbers((RANK, models.HIDDEN), 1), numbers((models.VOCAB, RANK), 2))}
    plan = merge_adapter(plan, adapter_plan(peft(made), peft_config()))
    assert plan.tie.tied is False
    found = written(plan, tmp_path / "out")
    assert found[EMBEDDING] == hf[EMBEDDING].tobytes()
    assert found[HEAD] == (hf[EMBEDDING] + np.float32(SCALE) * (made["lm_head"][1] @ made["lm_head"][0])).tobytes()
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["tie_word_embeddings"] is False
    with open_checkpoint(tmp_path / "out") as source:
        assert codes(models.understand(source, Policy())) == ["tokenizer-missing"] * 0


def test_an_embedding_of_its_own(tmp_path: Path) -> None:
    hf, plan = base("absent")
    a, b = numbers((RANK, models.VOCAB), 1), numbers((models.HIDDEN, RANK), 2)
    tensors = {f"{PREFIX}model.embed_tokens.lora_embedding_A": a, f"{PREFIX}model.embed_tokens.lora_embedding_B": b}
    tensors[f"{PREFIX}model.embed_tokens.base_layer.weight"] = hf[EMBEDDING]
    found = written(merge_adapter(plan, adapter_plan(tensors, peft_config())), tmp_path / "out")
    assert found[EMBEDDING] == (hf[EMBEDDING] + np.float32(SCALE) * (b @ a).T).tobytes()
    assert found[HEAD] == hf[EMBEDDING].tobytes()


def whole(**tensors: np.ndarray) -> Arrays:
    return {f"{PREFIX}{name}": value for name, value in tensors.items()}


@pytest.mark.parametrize("kind", ["apart", "together", "grown"])
def test_modules_to_save(kind: str, tmp_path: Path) -> None:
    hf, plan = base("absent")
    rows = models.VOCAB + (2 if kind == "grown" else 0)
    new = numbers((rows, models.HIDDEN), 5)
    tensors = peft(pairs(hf, all_modules())) | {PREFIX + EMBEDDING: new}
    config = peft_config(modules_to_save=["embed_tokens"] if kind == "apart" else None)
    if kind == "together":
        config["modules_to_save"] = ["embed_tokens", "lm_head"]
        tensors[PREFIX + HEAD] = new.copy()
    done = merge_adapter(plan, adapter_plan(tensors, config))
    found = written(done, tmp_path / "out")
    assert found[EMBEDDING] == new.tobytes()
    assert found.get(HEAD) == (hf[EMBEDDING].tobytes() if kind == "apart" else None)
    saved = json.loads((tmp_path / "out" / "config.json").read_text())
    assert saved["tie_word_embeddings"] is (kind != "apart")
    assert saved["vocab_size"] == rows


def test_a_trained_head_in_another_type(tmp_path: Path) -> None:
    hf, plan = base()
    new = numbers((models.VOCAB, models.HIDDEN), 5).astype(np.float64)
    tensors = peft(pairs(hf, all_modules())) | {PREFIX + HEAD: new, PREFIX + "score.weight": numbers((2, 3), 1)}
    found = written(
        merge_adapter(plan, adapter_plan(tensors, peft_config(modules_to_save=["lm_head"]))), tmp_path / "o"
    )
    assert found[HEAD] == new.astype(np.float32).tobytes()
    assert found["score.weight"] == tensors[PREFIX + "score.weight"].tobytes()


def test_an_adapter_without_tensors_is_empty() -> None:
    _, plan = base()
    with pytest.raises(CheckpointError, match="holds no tensor: merged, it would change nothing") as caught:
        merge_adapter(plan, adapter_plan({}, peft_config()))
    assert caught.value.code == "adapter-empty"


def test_nothing_in_common() -> None:
    hf, plan = base()
    made = {f"encoder.block.{k}": v for k, v in pairs(hf, all_modules()).items()}
    with pytest.raises(CheckpointError, match="0 of 18 modules") as caught:
        merge_adapter(plan, adapter_plan(peft(made), peft_config()))
    assert caught.value.code == "adapter-empty"
    with pytest.raises(CheckpointError, match="is no adapter"):
        merge_adapter(plan, plan)


def test_a_missing_level_is_put_in_and_said(tmp_path: Path) -> None:
    hf, plan = base()
    made = pairs(hf, all_modules())
    less = {name.removeprefix("model."): value for name, value in made.items()}
    done = merge_adapter(plan, adapter_plan(peft(less), peft_config()))
    assert "With its own names 0 of 18" in models.finding(done, "renamed").message
    assert written(done, tmp_path / "out") == models.as_bytes(merged_by_numpy(hf, made))


def test_some_in_common_blocks() -> None:
    hf, plan = base()
    made = pairs(hf, all_modules())
    made["model.layers.77.mlp.up_proj"] = (numbers((RANK, 3), 1), numbers((4, RANK), 1))
    made[module(0, "q_proj")] = (numbers((RANK, 5), 1), numbers((4, RANK), 1))
    done = merge_adapter(plan, adapter_plan(peft(made), peft_config()))
    assert "2 of 19 modules" in models.finding(done, "adapter-unmatched").message
    assert retarget(done, Target("hf")).blocked


def test_an_unknown_family_takes_names_as_they_are(tmp_path: Path) -> None:
    tensors = {"enc.0.proj.weight": numbers((6, 4), 1), "enc.0.norm.weight": numbers((4,), 2)}
    plan = normalise(from_state_dict(tensors))
    assert plan.family is None
    made = {"enc.0.proj": (numbers((RANK, 4), 3), numbers((6, RANK), 4))}
    done = merge_adapter(plan, adapter_plan(peft(made), peft_config()))
    found = written(done, tmp_path / "out", "same", container="safetensors")
    assert found == models.as_bytes(merged_by_numpy(tensors, made))


# ---------------------------------------------------------------------------------------------------------- un-merged


def unmerged(hf: Arrays, made: dict[str, tuple[np.ndarray, np.ndarray]], name: str = "default") -> Arrays:
    """The state dict of a PEFT model."""
    held = {f"{PREFIX}{k}": v for k, v in hf.items() if k.removesuffix(".weight") not in made}
    held |= {f"{PREFIX}{k}.base_layer.weight": hf[f"{k}.weight"] for k in made}
    return held | peft(made, name=name)


@pytest.mark.parametrize("head", ["own", "absent"])
def test_unmerged(head: str, tmp_path: Path) -> None:
    hf, _ = base(head)
    made = pairs(hf, all_modules())
    config = models.config(tie_word_embeddings=head == "absent")
    source = from_state_dict(unmerged(hf, made)).replace(sidecars=Sidecars(config=config, adapter=peft_config()))
    plan = normalise(source)
    plan = models.understand(source, Policy())
    assert codes(plan, "warning") == ["lora-unmerged"]
    assert plan.status == "fixable"
    assert written(plan, tmp_path / "hf") == models.as_bytes(merged_by_numpy(hf, made))
    same = written(plan, tmp_path / "same", "same", container="safetensors")
    assert same == models.as_bytes(merged_by_numpy(hf, made))
    wanted = models.plan(merged_by_numpy(hf, made), config)
    assert written(plan, tmp_path / "tune", "torchtune") == written(wanted, tmp_path / "tune2", "torchtune")


def test_unmerged_asks_for_alpha() -> None:
    hf, _ = base()
    made = pairs(hf, all_modules())
    plan = models.plan(unmerged(hf, made), models.config())
    assert plan.status == "blocked"
    assert "--lora-alpha" in (models.finding(plan, "adapter-empty").fix or "")
    assert models.plan(unmerged(hf, made), models.config(), lora_alpha=float(ALPHA)).status == "fixable"


def test_unmerged_trained_modules(tmp_path: Path) -> None:
    hf, _ = base()
    made = pairs(hf, all_modules())
    tensors = unmerged(hf, made)
    new = numbers((models.VOCAB, models.HIDDEN), 5)
    old = tensors.pop(PREFIX + HEAD)
    tensors |= {
        f"{PREFIX}lm_head.original_module.weight": old,
        f"{PREFIX}lm_head.modules_to_save.default.weight": new,
    }
    plan = models.plan(tensors, models.config(), lora_alpha=float(ALPHA))
    assert plan.adapter is None
    found = written(plan, tmp_path / "out")
    assert found == models.as_bytes(merged_by_numpy(hf, made) | {HEAD: new})


@pytest.mark.parametrize("kind", ["pair", "whole"])
def test_unmerged_embedding_of_a_tied_model(kind: str, tmp_path: Path) -> None:
    """safetensors stores one of two names of a tensor: the head is what the embedding was."""
    hf, _ = base("absent")
    tensors = unmerged(hf, pairs(hf, all_modules()))
    old = tensors.pop(PREFIX + EMBEDDING)
    table = f"{PREFIX}model.embed_tokens"
    a, b, new = numbers((RANK, models.VOCAB), 1), numbers((models.HIDDEN, RANK), 2), numbers(old.shape, 3)
    if kind == "pair":
        tensors |= {f"{table}.base_layer.weight": old, f"{table}.lora_embedding_A.default": a}
        tensors |= {f"{table}.lora_embedding_B.default": b}
        new = old + np.float32(SCALE) * (b @ a).T
    else:
        tensors |= {f"{table}.original_module.weight": old, f"{table}.modules_to_save.default.weight": new}
    plan = models.plan(tensors, models.config(tie_word_embeddings=True), lora_alpha=float(ALPHA))
    found = written(plan, tmp_path / "out")
    assert found[EMBEDDING] == new.tobytes()
    assert found[HEAD] == old.tobytes()
    assert json.loads((tmp_path / "out" / "config.json").read_text())["tie_word_embeddings"] is False


def test_unmerged_in_a_torch_file(tmp_path: Path) -> None:
    """The nesting stays, the pairs go."""
    hf, _ = base()
    made = pairs(hf, all_modules())
    models.save(tmp_path / "in", unmerged(hf, made), name="last.pt", config=models.config())
    (tmp_path / "in" / "adapter_config.json").write_text(json.dumps(peft_config()))
    with open_checkpoint(tmp_path / "in" / "last.pt") as source:
        plan = models.understand(source, Policy())
        assert written(plan, tmp_path / "out", "same") == models.as_bytes(merged_by_numpy(hf, made))


def test_unmerged_in_memory() -> None:
    torch = pytest.importorskip("torch")
    hf, _ = base()
    made = pairs(hf, all_modules())
    tensors = {k: torch.from_numpy(v) for k, v in unmerged(hf, made).items()}
    with pytest.raises(CheckpointError, match="alpha"):
        normalise_state_dict(tensors, "hf", models.config())


# --------------------------------------------------------------------------------------------------------- conversion


def test_conversion_reorders_b_and_lengths(tmp_path: Path) -> None:
    hf, _ = base()
    made = pairs(hf, all_modules())
    q = module(0, "q_proj")
    length = numbers((models.HEADS * models.HEAD_DIM,), 3)
    tensors = peft(made) | {f"{PREFIX}{q}.lora_magnitude_vector": length}
    models.save(tmp_path / "peft", tensors, name="adapter_model.safetensors")
    (tmp_path / "peft" / "adapter_config.json").write_text(json.dumps(peft_config(use_dora=True)))
    with open_checkpoint(tmp_path / "peft", config=models.config()) as source:
        there = written(normalise(source), tmp_path / "tune", "torchtune")
    a, b = made[q]
    tune = "layers.0.attn.q_proj"
    assert there[f"{tune}.lora_a.weight"] == a.tobytes()
    assert there[f"{tune}.lora_b.weight"] == models.to_pairs(b, models.HEADS).tobytes()
    assert there[f"{tune}.magnitude"] == models.to_pairs(length, models.HEADS).tobytes()
    assert there["layers.1.mlp.w2.lora_b.weight"] == made[module(1, "down_proj")][1].tobytes()
    assert (tmp_path / "tune" / "adapter_model.pt").exists()
    with open_checkpoint(tmp_path / "tune", config=models.config()) as source:
        plan = normalise(source)
        assert plan.status == "clean"
        back = written(plan, tmp_path / "back", "hf")
    assert back == models.as_bytes(tensors)
    config = json.loads((tmp_path / "back" / "adapter_config.json").read_text())
    assert (config["r"], config["lora_alpha"], config["use_dora"]) == (RANK, ALPHA, True)
    assert config["target_modules"] == sorted(KINDS)
    assert config["peft_type"] == "LORA"


def test_the_step_of_a_conversion_names_both_orders() -> None:
    hf, _ = base()
    plan = adapter_plan(peft(pairs(hf, all_modules())), peft_config(), models.config())
    (step,) = [s for s in retarget(plan, Target("torchtune")).steps if s.id == "permute"]
    assert "of a head as halves, torchtune adapter as pairs" in step.evidence


@pytest.mark.parametrize(
    "begun", ["pissa", "pissa_niter_16", "olora", "corda", "loftq", "PiSSA", True, "gaussian", "eva"]
)
def test_an_adapter_that_began_as_a_part_of_its_base(begun: Any) -> None:
    """PEFT takes the part away from the base when it loads one, so to add B · A to the whole base is wrong."""
    hf, plan = base()
    adapter = adapter_plan(peft(pairs(hf, all_modules())), peft_config(init_lora_weights=begun), models.config())
    wrong = begun not in (True, "gaussian", "eva")
    assert ("adapter-scale" in codes(adapter, "info")) == wrong
    assert adapter.status == "clean"
    assert retarget(adapter, Target("hf")).blocked == ()  # as it is, PEFT knows what to do with it
    for export in (retarget(merge_adapter(plan, adapter), Target("hf")), retarget(adapter, Target("torchtune"))):
        assert [f.code for f in export.blocked] == (["adapter-scale"] if wrong else [])


def test_a_model_before_merging_has_what_was_left_of_its_base(tmp_path: Path) -> None:
    hf, _ = base()
    made = pairs(hf, all_modules())
    sidecars = Sidecars(config=models.config(), adapter=peft_config(init_lora_weights="pissa"))
    plan = models.understand(from_state_dict(unmerged(hf, made)).replace(sidecars=sidecars), Policy())
    assert written(plan, tmp_path / "out") == models.as_bytes(merged_by_numpy(hf, made))


@pytest.mark.parametrize(("kind", "told"), [("LlamaForCausalLM", False), ("Qwen3ForCausalLM", True)])
def test_an_adapter_of_another_class_of_model(kind: str, told: bool) -> None:
    hf, _ = base()
    trained = peft_config(auto_mapping={"base_model_class": kind}, base_model_name_or_path="some/model")
    adapter = adapter_plan(peft(pairs(hf, all_modules())), trained)
    assert "trained on some/model" in plain_text(check_document(adapter))
    done = merge_adapter(models.plan(hf, models.config()), adapter)
    assert ("adapter-unmatched" in codes(done, "warning")) == told
    assert retarget(done, Target("hf")).blocked == ()


def test_conversion_needs_head_counts() -> None:
    hf, _ = base()
    plan = adapter_plan(peft(pairs(hf, all_modules())), peft_config())
    assert "--family" in (models.finding(retarget(plan, Target("torchtune")), "unknown-layout").fix or "")
    plan = adapter_plan(peft(pairs(hf, all_modules())), peft_config(), family="llama")
    assert "heads-unknown" in codes(retarget(plan, Target("torchtune")), "error")
    given = adapter_plan(
        peft(pairs(hf, all_modules())), peft_config(), heads=models.HEADS, kv_heads=models.KV_HEADS, family="llama"
    )
    assert retarget(given, Target("torchtune")).blocked == ()
    assert "unknown-layout" in codes(retarget(given, Target("meta")), "error")


def test_conversion_keeps_the_scale(tmp_path: Path) -> None:
    """rslora is told by alpha, for torchtune knows no other way; ranks of single modules it does not have."""
    hf, _ = base()
    plan = adapter_plan(peft(pairs(hf, all_modules())), peft_config(use_rslora=True), models.config())
    write_export(retarget(plan, Target("torchtune")), tmp_path / "tune")
    with open_checkpoint(tmp_path / "tune", config=models.config()) as source:
        back = normalise(source).adapter
    assert back is not None
    assert back.loras[0].scale == pytest.approx(ALPHA / RANK**0.5, rel=1e-15)
    uneven = adapter_plan(peft(pairs(hf, all_modules())), peft_config(alpha_pattern={"q_proj": 1}), models.config())
    assert "adapter-scale" in codes(retarget(uneven, Target("torchtune")), "error")


def test_uneven_torchtune_adapters_are_named_as_a_whole() -> None:
    tensors: Arrays = {}
    for n, rank in enumerate((2, 2, 3)):
        name = f"layers.{n}.attn.q_proj"
        tensors[f"{name}.lora_a.weight"] = numbers((rank, models.HIDDEN), n)
        tensors[f"{name}.lora_b.weight"] = numbers((models.HEADS * models.HEAD_DIM, rank), n)
    plan = adapter_plan(tensors, {"lora_alpha": 6}, models.config())
    export = retarget(plan, Target("hf"))
    assert export.blocked == ()
    saved = json.loads(export.texts["adapter_config.json"])
    assert saved["rank_pattern"] == {module(2, "q_proj"): 3}
    assert (saved["r"], saved["lora_alpha"], saved["alpha_pattern"]) == (2, 6, {})
    assert saved["target_modules"] == ["q_proj"]


@pytest.mark.parametrize("dora", [False, True])
def test_biases_under_torchtune_s_dora(dora: bool) -> None:
    """It scales them while it trains; no merge does, and that is said."""
    tensors = models.state("torchtune", biases=True)
    base_plan = models.plan(tensors, models.config(attention_bias=True))
    name = "layers.0.attn.q_proj"
    rows = models.HEADS * models.HEAD_DIM
    made = {
        f"{name}.lora_a.weight": numbers((RANK, models.HIDDEN), 1),
        f"{name}.lora_b.weight": numbers((rows, RANK), 2),
    }
    made |= {f"{name}.magnitude": np.ones(rows, np.float32)} if dora else {}
    done = merge_adapter(base_plan, adapter_plan(made, peft_config()))
    assert ("adapter-scale" in codes(done, "warning")) == dora


def test_unmerged_in_memory_is_merged() -> None:
    """A training script has the state dict of a PEFT model, and its alpha in a config of its own."""
    torch = pytest.importorskip("torch")
    from ckpt_gui.core.state_dict import _merged

    w, a, b = (torch.from_numpy(numbers(s, n)) for n, s in enumerate(((6, 4), (2, 4), (6, 2))))
    assert torch.equal(_merged(MergeLora(0.5), [w, a, b]), w + 0.5 * (b @ a))
    half = _merged(MergeLora(0.5), [w.bfloat16(), a, b])
    assert torch.equal(half, (w + 0.5 * (b @ a)).bfloat16())
    rows = _merged(MergeLora(0.5, True), [w, a, b, torch.ones(6)])
    assert torch.allclose(torch.linalg.norm(rows, dim=1), torch.ones(6))


def test_an_adapter_of_the_head_alone_is_no_model() -> None:
    """PEFT stores the head's own weight beside the pair."""
    made = {"lm_head": (numbers((RANK, 4), 1), numbers((8, RANK), 2))}
    plan = adapter_plan(peft(made) | {f"{PREFIX}lm_head.base_layer.weight": numbers((8, 4), 3)}, peft_config())
    assert plan.adapter is not None
    assert plan.merged is None


def test_unmerged_torchtune(tmp_path: Path) -> None:
    tune, _ = base(layout="torchtune")
    names = ["layers.0.attn.q_proj", "layers.1.mlp.w2"]
    made = pairs(tune, names)
    tensors = {f"_orig_mod.{key}": value for key, value in tune.items()}
    for name, (a, b) in made.items():
        tensors |= {f"_orig_mod.{name}.lora_a.weight": a, f"_orig_mod.{name}.lora_b.weight": b}
    plan = models.plan(tensors, models.config(), lora_alpha=float(ALPHA))
    assert codes(plan, "warning") == ["lora-unmerged", "wrapper-prefix"]
    found = written(plan, tmp_path / "out", "hf")
    wanted = written(models.plan(merged_by_numpy(tune, made), models.config()), tmp_path / "wanted", "hf")
    assert found == wanted


def test_merge_into_shards_that_stay_shards(tmp_path: Path) -> None:
    hf, _ = base()
    folder = models.save_shards(tmp_path / "base", hf, 3, config=models.config())
    made = pairs(hf, all_modules())
    tensors = peft(made) | {PREFIX + HEAD: hf[HEAD] + 1, PREFIX + "score.weight": numbers((2, 3), 1)}
    with open_checkpoint(folder) as source:
        config = peft_config(modules_to_save=["lm_head"])
        plan = merge_adapter(models.understand(source, Policy()), adapter_plan(tensors, config))
        found = written(plan, tmp_path / "out", "same")
    wanted = merged_by_numpy(hf, made) | {HEAD: hf[HEAD] + 1, "score.weight": tensors[PREFIX + "score.weight"]}
    assert found == models.as_bytes(wanted)
    names = {p.name for p in folder.iterdir()}
    assert names <= {p.name for p in (tmp_path / "out").iterdir()}


@pytest.mark.parametrize("to", ["hf", "same", "torchtune"])
def test_the_tree_of_an_adapter(to: str) -> None:
    """What the window shows: nothing is missing, for nothing is expected but pairs."""
    hf, base_plan = base()
    plan = adapter_plan(peft(pairs(hf, all_modules())), peft_config(), models.config())
    diff = diff_expected(retarget(plan, Target(to)))
    assert len(diff.rows) == 2 * len(all_modules())
    assert not diff.counts.get("missing")
    done = merge_adapter(base_plan, plan)
    states = diff_expected(retarget(done, Target("hf"))).counts
    assert not states.get("missing")
    assert states["transform"] >= 3 * len(all_modules())


@pytest.mark.parametrize(
    "changes",
    [
        {"r": "8", "lora_alpha": True},
        {"lora_alpha": float("inf")},
        {"lora_alpha": [1]},
        {"rank_pattern": [1], "alpha_pattern": "x"},
        {"rank_pattern": {"q_proj": "x"}, "alpha_pattern": {"q_proj": None, "": 3}},
        {"target_modules": 5, "modules_to_save": "lm_head", "peft_type": None},
        {"use_rslora": "yes", "fan_in_fan_out": 1},
    ],
)
def test_odd_configs(changes: dict[str, Any]) -> None:
    hf, base_plan = base()
    tensors = peft(pairs(hf, all_modules())) | {PREFIX + HEAD: hf[HEAD]}
    plan = adapter_plan(tensors, peft_config(**changes), models.config())
    check_json(plan)
    for to in ("hf", "torchtune", "same"):
        retarget(plan, Target(to))
    retarget(merge_adapter(base_plan, plan), Target("meta"))
