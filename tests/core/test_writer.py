"""Exports: streamed, verified, in place only when whole; nothing is left of one that fails."""

from __future__ import annotations

import errno
import itertools
import json
import os
import stat
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ckpt_gui.core import pieces, shards
from ckpt_gui.core.errors import Cancelled, CheckpointError
from ckpt_gui.core.export import Target
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.normalise import understand
from ckpt_gui.core.plan import Plan
from ckpt_gui.core.policy import Policy
from ckpt_gui.core.retarget import retarget
from ckpt_gui.core.writer import REPORT, WriteResult, write_export
from tests import builders
from tests.core import models

LAYOUTS = tuple(models.COLUMN)
NAMES = {"hf": "model.safetensors", "meta": "consolidated.00.pth", "torchtune": "torchtune_model.pt"}


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of some hundred bytes, so that every tensor is written in several, and the larger ones in some pieces."""
    monkeypatch.setattr(pieces, "BLOCK", 512)
    monkeypatch.setattr(pieces, "PIECE", 2048)


def saved(folder: Path, layout: str, **more: Any) -> Path:
    head = more.pop("head", "own")
    config = more.pop("config", models.config(tie_word_embeddings=head != "own"))
    name = "model.safetensors" if layout == "hf" else NAMES[layout]
    return models.save(folder, models.state(layout, head=head), name=name, config=config, **more)


def planned(path: Path, **policy: Any) -> Plan:
    return understand(open_checkpoint(path), Policy(**policy))


def export_to(path: Path, out: Path, target: Target, **options: Any) -> WriteResult:
    policy = options.pop("policy", {})
    plan = planned(path, **policy)
    try:
        return write_export(retarget(plan, target), out, **options)
    finally:
        plan.source.close()


def reopened(out: Path) -> Plan:
    plan = planned(out)
    plan.source.close()
    return plan


@pytest.mark.parametrize(("layout", "target"), list(itertools.product(LAYOUTS, (*LAYOUTS, "same"))))
@pytest.mark.parametrize("head", ["own", "equal", "absent"])
def test_every_layout_to_every_other(tmp_path: Path, layout: str, target: str, head: str) -> None:
    if layout == "meta" and head == "absent":
        head = "equal"
    source = saved(tmp_path / "in", layout, head=head)
    before = {p.name: p.read_bytes() for p in source.iterdir()}
    result = export_to(source, tmp_path / "out", Target(target))
    into = layout if target == "same" else target
    wanted = models.state(into, head="own" if head == "own" else "equal" if into == "meta" else "absent")
    assert models.opened(tmp_path / "out") == models.as_bytes(wanted)
    assert result.tensors == result.verified == len(wanted)
    assert sorted(result.files) == sorted(os.listdir(tmp_path / "out"))
    assert (tmp_path / "out" / ("model.safetensors" if target == "same" and layout == "hf" else NAMES[into])).exists()
    plan = reopened(tmp_path / "out")
    assert plan.status == "clean", models.codes(plan)
    assert plan.family is not None
    assert plan.family.name == "llama"
    assert {p.name: p.read_bytes() for p in source.iterdir()} == before
    assert sorted(os.listdir(tmp_path)) == ["in", "out"]


@pytest.mark.case(105)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("container", ["safetensors", "torch"])
@pytest.mark.parametrize("dtype", ["keep", "bf16"])
def test_containers(tmp_path: Path, layout: str, container: str, dtype: str) -> None:
    source = saved(tmp_path / "in", "hf")
    export_to(source, tmp_path / "out", Target(layout, container, dtype))
    with open_checkpoint(tmp_path / "out") as opened:
        assert opened.container == {"safetensors": "safetensors", "torch": "torch-zip"}[container]
        assert {r.dtype for r in opened.refs} == {"fp32" if dtype == "keep" else "bf16"}
        assert len(opened.refs) == 30
    assert reopened(tmp_path / "out").status == "clean"


def test_torch_and_safetensors_read_what_is_written(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from safetensors.numpy import load_file

    source = saved(tmp_path / "in", "torchtune", head="absent")
    export_to(source, tmp_path / "hf", Target("hf"))
    loaded = load_file(tmp_path / "hf" / "model.safetensors")
    assert models.as_bytes(loaded) == models.as_bytes(models.state("hf", head="absent"))
    export_to(source, tmp_path / "meta", Target("meta"))
    state = torch.load(tmp_path / "meta" / "consolidated.00.pth", weights_only=True)
    assert list(state) == [*models.state("meta")]
    assert state["output.weight"].data_ptr() == state["tok_embeddings.weight"].data_ptr()  # tied: one storage
    assert models.as_bytes({k: v.numpy() for k, v in state.items()}) == models.as_bytes(
        models.state("meta", head="same")
    )


class Countdown:
    """True from the n-th time on that it is asked."""

    def __init__(self, left: int) -> None:
        self.left = left

    def __call__(self) -> bool:
        self.left -= 1
        return self.left <= 0


@pytest.mark.case(96)
@pytest.mark.parametrize("target", ["hf", "meta"])
def test_cancelled_at_any_block(tmp_path: Path, target: str) -> None:
    source = saved(tmp_path / "in", "torchtune")
    plan = planned(source)
    export = retarget(plan, Target(target))
    calls = itertools.count(1)
    write_export(export, tmp_path / "whole", cancelled=lambda: next(calls) < 0, workers=1)
    total = next(calls) - 1
    assert total > 100
    for stop in (1, 2, 3, total // 4, total // 2, total // 2 + 1, total - 1, total):
        with pytest.raises(Cancelled):
            write_export(export, tmp_path / "out", cancelled=Countdown(stop), workers=2)
        assert sorted(os.listdir(tmp_path)) == ["in", "whole"]
    plan.source.close()


class FailingReader:
    """Fails at the n-th read, or returns other bytes."""

    def __init__(self, inner: Any, fail_at: int, error: BaseException) -> None:
        self.inner, self.left, self.error = inner, fail_at, error

    def read_into(self, ref: Any, start: int, out: memoryview) -> None:
        self.left -= 1
        if self.left == 0:
            raise self.error
        self.inner.read_into(ref, start, out)

    def close(self) -> None:
        self.inner.close()


def with_reader(plan: Plan, make: Any) -> Plan:
    readers = {name: make(reader) for name, reader in plan.source.readers.items()}
    source = plan.source.replace(readers=readers)
    return understand(source, plan.policy)


@pytest.mark.case(87, 90)
@pytest.mark.parametrize("fail_at", [1, 50, 90])
@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (CheckpointError("truncated", "The file ended early."), CheckpointError),
        (OSError(errno.EIO, "Input/output error"), CheckpointError),
        (OSError(errno.ENOSPC, "No space left on device"), CheckpointError),
        (MemoryError(), MemoryError),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ],
)
def test_an_exception_in_a_reader_leaves_nothing(
    tmp_path: Path, fail_at: int, error: BaseException, raised: Any
) -> None:
    plan = planned(saved(tmp_path / "in", "meta", config=models.config(tie_word_embeddings=False)))
    export = retarget(plan, Target("hf"))
    broken = {name: FailingReader(reader, fail_at, error) for name, reader in plan.source.readers.items()}
    export.plan.source.readers.update(broken)  # type: ignore[attr-defined]
    with pytest.raises(raised):
        write_export(export, tmp_path / "out")
    assert os.listdir(tmp_path) == ["in"]
    plan.source.close()


@pytest.mark.case(94)
def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = saved(tmp_path / "in", "meta")

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    for name in ("posix_fallocate", "pwrite"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, full)
            with pytest.raises(CheckpointError) as caught:
                export_to(source, tmp_path / "out", Target("hf"))
        assert caught.value.code == "target-refused"
        assert "No space left" in caught.value.message
        assert "space" in (caught.value.fix or "")
        assert os.listdir(tmp_path) == ["in"]


@pytest.mark.case(101)
@pytest.mark.parametrize("target", ["hf", "meta"])
@pytest.mark.parametrize("place", [0, 777, -1])
def test_a_flipped_byte_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, place: int) -> None:
    source = saved(tmp_path / "in", "torchtune")
    real = shards.fill_file

    def flip(path: Path, file: Any, *rest: Any) -> Any:
        filled = real(path, file, *rest)
        name = sorted(file.layout.offsets)[0]
        raw = bytearray(path.read_bytes())
        raw[file.layout.offsets[name] + place % file.layout.sizes[name]] ^= 1
        path.write_bytes(raw)
        return filled

    monkeypatch.setattr(shards, "fill_file", flip)
    with pytest.raises(CheckpointError) as caught:
        export_to(source, tmp_path / "out", Target(target))
    assert caught.value.code == "verify-failed"
    assert "other bytes" in caught.value.message
    assert os.listdir(tmp_path) == ["in"]


def damaged(path: Path, record: str) -> None:
    """Flip a bit of a record of a torch file; its checksum stays."""
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo(record)
    raw = bytearray(path.read_bytes())
    start = info.header_offset + 30 + len(info.filename) + int.from_bytes(raw[info.header_offset + 28 :][:2], "little")
    raw[start + 5] ^= 4
    path.write_bytes(raw)


@pytest.mark.parametrize("target", ["hf", "same"])
def test_a_damaged_record_is_refused(tmp_path: Path, target: str) -> None:
    source = saved(tmp_path / "in", "meta")
    damaged(source / "consolidated.00.pth", "archive/data/3")
    with pytest.raises(CheckpointError) as caught:
        export_to(source, tmp_path / "out", Target(target))
    assert caught.value.code == "crc-mismatch"
    assert list(models.state("meta"))[3] in caught.value.message
    assert os.listdir(tmp_path) == ["in"]


@pytest.mark.case(88, 100)
@pytest.mark.parametrize("change", ["touched", "replaced", "grown", "cut"])
def test_a_source_that_changes_is_refused(tmp_path: Path, change: str) -> None:
    folder = saved(tmp_path / "in", "meta")
    file = folder / "consolidated.00.pth"
    plan = planned(folder)
    export = retarget(plan, Target("hf"))
    raw = file.read_bytes()
    if change == "touched":
        os.utime(file, ns=(1, 1))
    elif change == "replaced":
        file.rename(tmp_path / "in" / "old")
        file.write_bytes(raw)
    else:
        file.write_bytes(raw + b"x" if change == "grown" else raw[:-100])
    with pytest.raises(CheckpointError):
        write_export(export, tmp_path / "out")
    assert os.listdir(tmp_path) == ["in"]
    plan.source.close()


def test_blocked_exports_are_refused(tmp_path: Path) -> None:
    tensors = models.state("meta")
    del tensors["norm.weight"]
    export = retarget(models.plan(tensors, models.config()), Target("hf"))
    with pytest.raises(CheckpointError) as caught:
        write_export(export, tmp_path / "out")
    assert (caught.value.code, caught.value.key) == ("missing-tensor", "norm.weight")
    from ckpt_gui.core.normalise import normalise

    unchecked = normalise(models.source(models.state("hf", head="equal"), models.config(tie_word_embeddings=True)))
    with pytest.raises(CheckpointError) as caught:
        write_export(retarget(unchecked, Target("meta")), tmp_path / "out")
    assert caught.value.code == "tied-unchecked"
    assert os.listdir(tmp_path) == []


@pytest.mark.case(98)
def test_modes_obey_the_umask(tmp_path: Path) -> None:
    source = saved(tmp_path / "in", "hf")
    (source / "tokenizer.json").write_text("{}")
    os.chmod(source / "tokenizer.json", 0o400)
    for mask in (0o022, 0o077, 0o002):
        old = os.umask(mask)
        try:
            export_to(source, tmp_path / f"out{mask}", Target("hf"))
        finally:
            os.umask(old)
        folder = tmp_path / f"out{mask}"
        assert stat.S_IMODE(folder.stat().st_mode) == 0o777 & ~mask
        assert {stat.S_IMODE(p.stat().st_mode) for p in folder.iterdir()} == {0o666 & ~mask}


@pytest.mark.case(106)
@pytest.mark.parametrize("target", [*LAYOUTS, "same"])
def test_the_same_again_is_the_same_to_the_byte(tmp_path: Path, target: str) -> None:
    source = saved(tmp_path / "in", "torchtune")
    export_to(source, tmp_path / "one", Target(target), workers=1)
    export_to(source, tmp_path / "two", Target(target), workers=4)
    one, two = ({p.name: p.read_bytes() for p in (tmp_path / name).iterdir()} for name in ("one", "two"))
    assert one == two


def test_shards(tmp_path: Path) -> None:
    source = saved(tmp_path / "in", "meta")
    export_to(source, tmp_path / "out", Target("hf", max_shard_bytes=20_000))
    index = json.loads((tmp_path / "out" / "model.safetensors.index.json").read_text())
    wanted = models.state("hf")
    assert index["metadata"]["total_size"] == sum(a.nbytes for a in wanted.values())
    assert set(index["weight_map"]) == set(wanted)
    files = sorted(p.name for p in (tmp_path / "out").glob("*.safetensors"))
    assert files == [f"model-{n:05d}-of-{len(files):05d}.safetensors" for n in range(1, len(files) + 1)]
    assert len(files) > 2
    assert not (tmp_path / "out" / "model.safetensors").exists()
    with open_checkpoint(tmp_path / "out") as opened:
        assert {r.key: r.file for r in opened.refs} == index["weight_map"]
        assert all(f.size < 20_000 + 4096 for f in opened.files)
        assert models.stored(opened) == models.as_bytes(wanted)
    assert reopened(tmp_path / "out").status == "clean"


def test_same_keeps_shards_and_takes_wrappers_off_the_index(tmp_path: Path) -> None:
    tensors = {f"_orig_mod.{k}": v for k, v in models.state("hf").items()}
    source = models.save_shards(tmp_path / "in", tensors, 3, config=models.config())
    export_to(source, tmp_path / "out", Target("same"))
    old, new = (json.loads((p / "model.safetensors.index.json").read_text()) for p in (source, tmp_path / "out"))
    assert new["weight_map"] == {k.removeprefix("_orig_mod."): v for k, v in old["weight_map"].items()}
    assert new["metadata"]["total_size"] == old["metadata"]["total_size"]
    assert models.opened(tmp_path / "out") == models.as_bytes(models.state("hf"))


def test_same_rewrites_index_and_size_when_a_copy_goes(tmp_path: Path) -> None:
    config = models.config(tie_word_embeddings=True)
    source = models.save_shards(tmp_path / "in", models.state("hf", head="equal"), 2, config=config)
    export_to(source, tmp_path / "out", Target("same"))
    new = json.loads((tmp_path / "out" / "model.safetensors.index.json").read_text())
    assert "lm_head.weight" not in new["weight_map"]
    assert new["metadata"]["total_size"] == sum(a.nbytes for a in models.state("hf", head="absent").values())
    assert reopened(tmp_path / "out").status == "clean"


def torch_file(path: Path, value: Any) -> Path:
    torch = pytest.importorskip("torch")
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(value, path)
    return path


def tensors_of(state: dict[str, np.ndarray], front: str = "") -> dict[str, Any]:
    torch = pytest.importorskip("torch")
    return {front + key: torch.from_numpy(value) for key, value in state.items()}


@pytest.mark.parametrize("head", ["own", "same"])
def test_same_keeps_nesting_and_everything_that_is_inert(tmp_path: Path, head: str) -> None:
    torch = pytest.importorskip("torch")
    from collections import OrderedDict

    state = models.state("meta", head=head)
    inner = OrderedDict(tensors_of(state, "_orig_mod."))
    if head == "same":
        inner["_orig_mod.output.weight"] = inner["_orig_mod.tok_embeddings.weight"]
    inner._metadata = OrderedDict([("", {"version": 1})])  # type: ignore[attr-defined]
    optimizer = {
        "state": {0: {"exp_avg": torch.full((3, 4), 2.5), "step": torch.tensor(7.0)}},
        "param_groups": [{"lr": 0.1}],
    }
    value = {
        "model": inner,
        "optimizer": optimizer,
        "step": 12,
        "args": {"name": "x", "betas": (0.9, 0.95)},
        "rng": [1, 2],
    }
    path = torch_file(tmp_path / "in" / "last.ckpt", value)
    export_to(path, tmp_path / "out", Target("same"))
    loaded = torch.load(tmp_path / "out" / "last.ckpt", weights_only=True)
    assert list(loaded) == list(value)
    assert list(loaded["model"]) == list(state)
    assert type(loaded["model"]) is OrderedDict
    assert loaded["model"]._metadata == inner._metadata  # type: ignore[attr-defined]
    assert all(torch.equal(loaded["model"][k], v) for k, v in tensors_of(state).items())
    assert torch.equal(loaded["optimizer"]["state"][0]["exp_avg"], optimizer["state"][0]["exp_avg"])  # type: ignore[index]
    assert torch.equal(loaded["optimizer"]["state"][0]["step"], optimizer["state"][0]["step"])  # type: ignore[index]
    assert loaded["args"] == value["args"]
    assert (loaded["step"], loaded["rng"]) == (12, [1, 2])
    shared = loaded["model"]["output.weight"].data_ptr() == loaded["model"]["tok_embeddings.weight"].data_ptr()
    assert shared == (head == "same")


def test_same_with_two_copies_of_the_weights(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    state = models.state("meta")
    ema = {k: v + 1 for k, v in state.items()}
    path = torch_file(tmp_path / "a.pt", {"model": tensors_of(state, "module."), "ema": tensors_of(ema, "module.")})
    export_to(path, tmp_path / "out", Target("same"), policy={"section": ("model",)})
    loaded = torch.load(tmp_path / "out" / "a.pt", weights_only=True)
    assert models.as_bytes({k: v.numpy() for k, v in loaded["model"].items()}) == models.as_bytes(state)
    assert models.as_bytes({k: v.numpy() for k, v in loaded["ema"].items()}) == {
        f"module.{k}": v for k, v in models.as_bytes(ema).items()
    }


def test_carried_tensors_are_verified_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    value = {"model": tensors_of(models.state("meta")), "optimizer": {"state": {0: {"exp_avg": torch.ones(64)}}}}
    path = torch_file(tmp_path / "a.pt", value)
    real = shards.fill_file

    def flip(path: Path, file: Any, *rest: Any) -> Any:
        filled = real(path, file, *rest)
        raw = bytearray(path.read_bytes())
        raw[file.layout.offsets[file.leaves[-1].record]] ^= 1
        path.write_bytes(raw)
        return filled

    monkeypatch.setattr(shards, "fill_file", flip)
    with pytest.raises(CheckpointError, match="exp_avg"):
        export_to(path, tmp_path / "out", Target("same"))


def test_same_with_a_copy_of_the_embedding(tmp_path: Path) -> None:
    path = torch_file(tmp_path / "a.pt", {"model": tensors_of(models.state("torchtune", head="absent"))})
    export_to(path, tmp_path / "out", Target("same"), policy={"tie": "copy"})
    assert {k.removeprefix("model."): v for k, v in models.opened(tmp_path / "out").items()} == models.as_bytes(
        models.state("torchtune", head="same")
    )


def test_weights_come_out_of_a_pickled_object(tmp_path: Path) -> None:
    """A whole pickled module: its class is not made, and its tensors are written as a plain dict."""
    state = models.state("meta")
    inner = builders.ordered({k: builders.tensor(str(i), a.shape) for i, (k, a) in enumerate(state.items())})
    body = builders.obj(builders.name("my.models", "Net"), builders.dict_of({"weights": inner}))
    data = builders.torch_bytes(body, {str(i): a for i, a in enumerate(state.values())})
    path = builders.write(tmp_path / "a.pt", data)
    plan = planned(path)
    export = retarget(plan, Target("same"))
    assert len(export.entries) == len(state)
    assert any("my.models.Net" in line for line in export.left_out)
    write_export(export, tmp_path / "out")
    assert models.opened(tmp_path / "out") == models.as_bytes(state)
    plan.source.close()


def test_what_is_left_out_is_listed(tmp_path: Path) -> None:
    state = models.state("meta")
    inner = builders.ordered({k: builders.tensor(str(i), a.shape) for i, (k, a) in enumerate(state.items())})
    body = builders.dict_of({"model": inner, "args": builders.call(builders.name("argparse", "Namespace"))})
    data = builders.torch_bytes(body, {str(i): a for i, a in enumerate(models.state("meta").values())})
    path = builders.write(tmp_path / "a.pt", data)
    export_to(path, tmp_path / "out", Target("same"))
    report = json.loads((tmp_path / "out" / REPORT).read_text())
    assert any("argparse.Namespace" in line for line in report["left_out"])


def test_sidecars_are_carried(tmp_path: Path) -> None:
    source = saved(tmp_path / "in", "hf")
    others = {"tokenizer.json": "{}", "tokenizer_config.json": '{"a":1}', "generation_config.json": '{"top_p":0.9}'}
    for name, text in others.items():
        (source / name).write_text(text)
    (source / "private-notes.txt").write_text("no")
    result = export_to(source, tmp_path / "out", Target("hf"))
    for name, text in others.items():
        assert (tmp_path / "out" / name).read_text() == text
    assert sorted(result.files) == sorted([*others, "config.json", "model.safetensors", REPORT])
    assert "tokenizer-missing" not in models.codes(retarget(reopened(tmp_path / "out"), Target("hf")))


def test_the_report(tmp_path: Path) -> None:
    tensors = {f"_orig_mod.{k}": v for k, v in models.state("torchtune", head="equal").items()}
    tensors["_orig_mod.norm.scale"][:2] = [7e4, -7e4]
    source = models.save(tmp_path / "in", tensors, config=models.config(tie_word_embeddings=True))
    result = export_to(source, tmp_path / "out", Target("hf", dtype="fp16"), sha256=True)
    report = json.loads((tmp_path / "out" / REPORT).read_text())
    assert report == result.report
    assert result.overflow == 2
    assert (report["schema"], report["family"], report["layout"], report["tied"]) == (1, "llama", "hf", True)
    assert report["source"]["wrappers"] == ["_orig_mod"]
    assert report["source"]["layout"] == "torchtune"
    assert report["row_order"] == "halves"
    assert report["source_config"]["model_type"] == "llama"
    assert [s["id"] for s in report["steps"]] == ["unwrap", "rename", "permute", "tie", "cast", "config"]
    assert [d["key"] for d in report["dropped"]] == ["_orig_mod.output.weight"]
    raw = models.opened(tmp_path / "out")
    assert {k: row["crc32"] for k, row in report["tensors"].items()} == {
        k: f"{zlib.crc32(v):08x}" for k, v in raw.items()
    }
    q = report["tensors"]["model.layers.0.self_attn.q_proj.weight"]
    assert q["from"] == ["_orig_mod.layers.0.attn.q_proj.weight"]
    assert q["ops"] == ["rotary rows pairs → halves, 4 heads", "cast fp32 → fp16"]
    assert report["tensors"]["model.norm.weight"]["overflow"] == 2
    import hashlib

    (row,) = report["files"]
    assert row["sha256"] == hashlib.sha256((tmp_path / "out" / row["name"]).read_bytes()).hexdigest()
    assert str(tmp_path) not in json.dumps(report)


@pytest.mark.parametrize("over", ["meta", "torchtune"])
@pytest.mark.parametrize(
    "config", [models.mistral_config(extra={"kept": 1}), models.config(rope_theta=1e6, note="kept")]
)
def test_the_config_comes_back(tmp_path: Path, over: str, config: dict[str, Any]) -> None:
    source = models.save(tmp_path / "in", models.state("hf"), config=config)
    export_to(source, tmp_path / "there", Target(over))
    export_to(tmp_path / "there", tmp_path / "back", Target("hf"))
    back = json.loads((tmp_path / "back" / "config.json").read_text())
    assert back == config
    assert models.opened(tmp_path / "back") == models.as_bytes(models.state("hf"))


def test_meta_keeps_its_own_params(tmp_path: Path) -> None:
    params = models.params(use_scaled_rope=False, lora_args=None)
    source = models.save(tmp_path / "in", models.state("meta"), name="consolidated.00.pth", params=params)
    for target in ("meta", "same"):
        export_to(source, tmp_path / target, Target(target))
        plan = reopened(tmp_path / target)
        assert plan.status == "clean"
        assert dict(plan.dims) == dict(planned(source).dims)
    export_to(tmp_path / "meta", tmp_path / "hf", Target("hf"))
    assert models.opened(tmp_path / "hf") == models.as_bytes(models.state("hf"))


@pytest.mark.parametrize("layout", ["meta", "torchtune"])
def test_how_to_use_it(tmp_path: Path, layout: str) -> None:
    source = saved(tmp_path / "in", "hf", head="own")
    report = export_to(source, tmp_path / "out", Target(layout)).report
    assert report["use_with"]["torchtune_model_type"] == "LLAMA2"
    assert "would drop it" in report["use_with"]["warning"]


def test_overwrite(tmp_path: Path) -> None:
    source = saved(tmp_path / "in", "hf")
    out = tmp_path / "out"
    out.mkdir()
    (out / "old").write_text("old")
    with pytest.raises(CheckpointError, match="not empty"):
        export_to(source, out, Target("meta"))
    with pytest.raises(Cancelled):
        export_to(source, out, Target("meta"), overwrite=True, cancelled=lambda: True)
    assert os.listdir(out) == ["old"]
    export_to(source, out, Target("meta"), overwrite=True)
    assert "old" not in os.listdir(out)
    assert sorted(os.listdir(tmp_path)) == ["in", "out"]


@pytest.mark.parametrize("name", [".", "./", "a/../b", "x/"])
def test_odd_ways_to_name_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    source = saved(tmp_path / "in", "hf")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    export_to(source, Path(name) if name != "./" else name, Target("hf"))  # type: ignore[arg-type]
    wanted = Path(os.path.normpath(tmp_path / "work" / name))
    assert (wanted / "model.safetensors").exists()
    assert not list(tmp_path.rglob("*.part"))


@pytest.mark.case(102)
def test_a_key_that_the_container_can_not_hold(tmp_path: Path) -> None:
    plan = models.keys_plan(["__metadata__", "b"])
    with pytest.raises(CheckpointError, match="__metadata__"):
        write_export(retarget(plan, Target("same", "safetensors")), tmp_path / "out")
    assert os.listdir(tmp_path) == []


def test_hostile_names_do_not_leave_the_folder(tmp_path: Path) -> None:
    tensors = {
        "../../evil": np.zeros(3, np.float32),
        "a/b\x00c": np.ones(2, np.float32),
        "/etc/x": np.ones(1, np.float32),
    }
    for container in ("safetensors", "torch"):
        export = retarget(models.plan(tensors), Target("same", container))
        write_export(export, tmp_path / container / "out")
        assert models.opened(next((tmp_path / container / "out").glob("model.*"))) == models.as_bytes(tensors)
        assert os.listdir(tmp_path / container) == ["out"]


def test_progress_counts_to_the_end(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    source = saved(tmp_path / "in", "meta")
    export_to(source, tmp_path / "out", Target("hf"), progress=lambda _, done, total: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1]
    assert [d for d, _ in seen] == sorted(d for d, _ in seen)
