"""Cases of hostile and odd files that show in the plan, the figures or the export, and not where they are opened."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.export import Target
from ckpt_gui.core.formats import open_checkpoint, safetensors
from ckpt_gui.core.normalise import understand
from ckpt_gui.core.plan import Plan
from ckpt_gui.core.policy import Policy
from ckpt_gui.core.retarget import retarget
from ckpt_gui.core.stats import tensor_stats
from ckpt_gui.core.writer import WriteResult, write_export
from tests import builders as b
from tests.core import models

W = np.arange(6, dtype=np.float32)
FORMAT = {"__metadata__": {"format": "pt"}}


def planned(path: Path, **policy: Any) -> Plan:
    with open_checkpoint(path) as source:
        return understand(source, Policy(**policy))


def export_to(path: Path, out: Path, target: Target) -> WriteResult:
    with open_checkpoint(path) as source:
        return write_export(retarget(understand(source), target), out)


@pytest.mark.case(23)
@pytest.mark.parametrize("name", ["x.safetensors", "x.pt"])
def test_no_tensors_are_told_and_not_called_clean(tmp_path: Path, name: str) -> None:
    data = b.raw_safetensors(FORMAT) if name == "x.safetensors" else b.torch_bytes(b.dict_of({"a": b.number(1)}))
    plan = planned(b.write(tmp_path / name, data))
    found = models.finding(plan, "not-a-checkpoint")
    assert (found.blocking, plan.status) == (True, "blocked")
    assert "no tensor" in found.message


@pytest.mark.case(35)
def test_values_that_are_no_numbers_are_counted(tmp_path: Path) -> None:
    values = np.array([1, -0.0, np.nan, np.inf, -np.inf, np.nan, 0.0], dtype=np.float32)
    path = b.write(tmp_path / "x.safetensors", b.safetensors_bytes({"a": values}, {"format": "pt"}))
    with open_checkpoint(path) as source:
        found = tensor_stats(source, source.refs[0])
        assert (found.nan, found.pos_inf, found.neg_inf, found.zeros) == (2, 1, 1, 2)
        assert (found.min, found.max, found.finite) == (0.0, 1.0, 3)
        assert source.problems == ()


@pytest.mark.case(50)
def test_the_index_of_a_large_model(tmp_path: Path) -> None:
    parts = ("q_proj", "k_proj", "v_proj", "o_proj", "q_norm", "k_norm", "gate_proj", "up_proj", "down_proj")
    keys = [f"model.layers.{n}.{part}.weight" for n in range(62) for part in parts]
    names = [f"model-{n:05d}-of-00012.safetensors" for n in range(1, 13)]
    where = {key: names[n * len(names) // len(keys)] for n, key in enumerate(keys)}
    for name in names:
        mine = {key: W[:2] for key, shard in where.items() if shard == name}
        b.write(tmp_path / name, b.safetensors_bytes(mine, {"format": "pt"}))
    b.write(tmp_path / "model.safetensors.index.json", b.index_bytes(where, 8 * len(keys)))
    with open_checkpoint(tmp_path) as source:
        assert [r.key for r in source.refs] == sorted(keys, key=lambda key: (where[key], keys.index(key)))
        assert source.problems == ()


@pytest.mark.case(50)
def test_the_index_of_a_model_in_four_bits(tmp_path: Path) -> None:
    suffixes = ("", ".absmax", ".quant_map", ".nested_absmax", ".nested_quant_map", ".quant_state.bitsandbytes__nf4")
    codes = [f"model.layers.{n}.mlp.{p}_proj.weight" for n in range(40) for p in ("gate", "up", "down")]
    tensors = {key + suffix: np.zeros((4, 1), np.uint8) for key in codes for suffix in suffixes}
    tensors |= {f"model.vision.{n}.weight": W[:2] for n in range(201)}
    assert len(tensors) == 921
    name = "model-00001-of-00001.safetensors"
    b.write(tmp_path / name, b.safetensors_bytes(tensors, {"format": "pt"}))
    b.write(tmp_path / "model.safetensors.index.json", b.index_bytes(dict.fromkeys(tensors, name)))
    with open_checkpoint(tmp_path) as source:
        [found] = [p for p in source.problems if p.code == "quantised"]
        assert found.blocking
        assert "bitsandbytes" in found.message
        assert not any("vision" in key for key in found.keys)


@pytest.mark.case(83)
def test_the_file_of_a_trainer(tmp_path: Path) -> None:
    keys = ["layers.0.weight", "layers.\x1b[31m1.weight", "<b>layers.2</b>.weight"]
    model = b.ordered({key: b.tensor(str(i), [6]) for i, key in enumerate(keys)})
    state = b.dict_of([(b.number(i), b.dict_of({"exp_avg": b.tensor(str(i), [6])})) for i in range(3)])
    optimizer = b.dict_of({"state": state, "param_groups": b.list_of(b.dict_of({"lr": b.number(1)}))})
    body = b.dict_of({"model": model, "optimizer": optimizer, "epoch": b.number(3)})
    path = b.write(tmp_path / "x.pt", b.torch_bytes(body, {str(i): W + i for i in range(3)}))
    plan = planned(path)
    assert plan.section == ("model",)
    assert [ref.key for ref in plan.weights] == keys
    assert {d.kind for d in plan.dropped} == {"not-weights"}
    assert all(f.message.isprintable() for f in plan.findings)


@pytest.mark.case(74, 75)
def test_names_that_an_export_cannot_tell_apart_or_has_not(tmp_path: Path) -> None:
    two = b.dict_of({"a.b": b.tensor("0", [6]), "a": b.dict_of({"b": b.tensor("1", [6])})})
    number = b.dict_of([(b.number(1), b.tensor("0", [6])), (b.text("1 (int)"), b.tensor("1", [6]))])
    for body in (two, number):
        path = b.write(tmp_path / "x.pt", b.torch_bytes(body, {"0": W, "1": W + 1}))
        with open_checkpoint(path) as source:
            assert len({(ref.section, ref.key) for ref in source.refs}) == 2
            plan = understand(source)
            export = retarget(plan, Target("same", "safetensors"))
            taken = {ref.full_key for entry in export.entries for ref in entry.inputs}
            told = {key for f in export.findings for key in f.keys} | {d.ref.full_key for d in export.dropped}
            assert len(taken) == 2 or export.blocked or told


@pytest.mark.case(77)
def test_views_of_every_kind_are_exported_with_their_values(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    base = torch.arange(24.0).reshape(4, 6)
    values = {"w": base, "tied": base, "t": base.t(), "low": base[:3], "high": base[1:], "one": base[1, 2]}
    values |= {"wide": base[0].expand(3, 6), "empty": base[:0]}
    torch.save(values, tmp_path / "x.pt")
    wanted = {key: value.contiguous().numpy().tobytes() for key, value in values.items()}
    for container in ("safetensors", "torch"):
        export_to(tmp_path / "x.pt", tmp_path / container, Target("same", container))
        found = models.opened(next((tmp_path / container).glob("[mx]*.*[!n]")))
        assert found == wanted


@pytest.mark.case(78)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_is_no_plain_tensor_is_told_by_the_export(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    torch.save({"sparse": torch.eye(3).to_sparse(), "meta": torch.zeros(2, device="meta"), "w": torch.ones(2)},
               tmp_path / "x.pt")  # fmt: skip
    plan = planned(tmp_path / "x.pt")
    told = {key for f in plan.findings if f.blocking for key in f.keys}
    assert "meta" in told
    assert any("sparse" in f.message for f in plan.findings)


# ---- exports


@pytest.mark.case(102)
@pytest.mark.parametrize(
    ("keys", "told"),
    [
        (["_orig_mod.__metadata__", "_orig_mod.b"], "__metadata__"),
        (["", "b"], "cannot hold"),
        (["_orig_mod.a", "a"], "a"),
    ],
    ids=["reserved", "none", "taken"],
)
def test_names_that_an_export_may_not_have(tmp_path: Path, keys: list[str], told: str) -> None:
    plan = models.keys_plan(keys)
    with pytest.raises(CheckpointError) as caught:
        write_export(retarget(plan, Target("same", "safetensors")), tmp_path / "out")
    assert told in caught.value.message
    assert os.listdir(tmp_path) == []


@pytest.mark.case(103)
def test_metadata_is_kept_and_has_a_format(tmp_path: Path) -> None:
    transformers_reads = pytest.importorskip("safetensors").safe_open
    metadata = {"author": "é\x1b", "epoch": "3"}
    source = models.save(tmp_path / "in", models.state("hf"), config=models.config(), metadata=metadata)
    assert "metadata-format" in models.codes(planned(source))
    export_to(source, tmp_path / "out", Target("hf"))
    with transformers_reads(tmp_path / "out" / "model.safetensors", "np") as opened:
        assert opened.metadata() == metadata | {"format": "pt"}
    assert "metadata-format" not in models.codes(planned(tmp_path / "out"))


@pytest.mark.case(104)
def test_a_header_above_the_limit_is_refused_before_anything_is_written(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(safetensors, "MAX_HEADER", 500)
    source = models.save(tmp_path / "in", models.state("meta"), name="consolidated.00.pth", params=models.params())
    with pytest.raises(CheckpointError) as caught:
        export_to(source, tmp_path / "out", Target("hf"))
    assert caught.value.code == "limit-exceeded"
    assert os.listdir(tmp_path) == ["in"]


@pytest.mark.case(105)
def test_casts_that_overflow_are_counted(tmp_path: Path) -> None:
    tensors = models.state("hf")
    tensors["model.norm.weight"] = np.full(models.HIDDEN, 1.0, np.float32)
    tensors["model.norm.weight"][:4] = [1e38, -1e38, np.nan, np.inf]
    source = models.save(tmp_path / "in", tensors, config=models.config())
    result = export_to(source, tmp_path / "out", Target("hf", dtype="fp16"))
    assert result.overflow == 2
    assert result.report["tensors"]["model.norm.weight"]["overflow"] == 2
    made = np.frombuffer(models.opened(tmp_path / "out")["model.norm.weight"], np.float16)
    assert (made[0], made[1], made[3]) == (np.inf, -np.inf, np.inf)
    assert np.isnan(made[2])


@pytest.mark.case(105)
@pytest.mark.parametrize("dtype", ["BF16", "F8_E4M3", "F8_E5M2", "F16"])
def test_what_is_not_cast_keeps_every_bit(tmp_path: Path, dtype: str) -> None:
    size = 1 if dtype.startswith("F8") else 2
    raw = np.arange(1 << 8 * size, dtype=f"u{size}").tobytes()  # every pattern, NaN with payloads among them
    header = {**FORMAT, "w": b.entry(dtype, [len(raw) // size], 0, len(raw))}
    path = b.write(tmp_path / "x.safetensors", b.raw_safetensors(header, raw))
    export_to(path, tmp_path / "out", Target("same"))
    assert models.opened(tmp_path / "out" / "x.safetensors") == {"w": raw}


@pytest.mark.case(106)
def test_an_export_of_an_export(tmp_path: Path) -> None:
    tensors = {f"_orig_mod.{key}": value for key, value in models.state("hf").items()}
    source = models.save(tmp_path / "in", tensors, config=models.config())
    before = planned(source)
    export_to(source, tmp_path / "one", Target("hf"))
    after = planned(tmp_path / "one")
    assert set(models.codes(after)) <= set(models.codes(before)) - {"wrapper-prefix"}
    assert after.status == "clean"
    export_to(tmp_path / "one", tmp_path / "two", Target("hf"))
    one, two = ({p.name: p.read_bytes() for p in (tmp_path / n).iterdir()} for n in ("one", "two"))
    reports = [json.loads(found.pop("EXPORT_REPORT.json")) for found in (one, two)]
    assert one == two
    checks = [{key: row["crc32"] for key, row in report["tensors"].items()} for report in reports]
    assert checks[0] == checks[1]
