"""FP8 weights with block scales: decoded as torch would, left alone in the layout that they have."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.export import Target
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.normalise import understand
from ckpt_gui.core.retarget import retarget
from ckpt_gui.core.state_dict import normalise_state_dict
from ckpt_gui.core.unpack_ops import e4m3
from ckpt_gui.core.writer import write_export
from tests import builders as b
from tests.core import models

torch = pytest.importorskip("torch")
ROWS, COLUMNS = 16, 12  # of a block: no size of the model is a multiple of them
CONFIG = {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [ROWS, COLUMNS]}


def save(folder, tensors, config):
    """A safetensors file of torch tensors, FP8 among them."""
    names = {torch.float32: "F32", torch.float8_e4m3fn: "F8_E4M3", torch.bfloat16: "BF16"}
    header, data = {}, b""
    for key, tensor in tensors.items():
        raw = tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        header[key] = b.entry(names[tensor.dtype], list(tensor.shape), len(data), len(data) + len(raw))
        data += raw
    folder.mkdir()
    b.write(folder / "model.safetensors", b.raw_safetensors(header, data))
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def quantised(folder, scales=torch.float32, config=CONFIG, lose=()):
    """The folder, and the plain weights that it stands for."""
    generator = torch.Generator().manual_seed(3)
    tensors, plain = {}, {}
    for key, array in models.state("hf").items():
        tensor = torch.tensor(array)
        if tensor.dim() < 2 or "proj" not in key:
            tensors[key] = plain[key] = tensor
            continue
        codes = torch.randint(0, 256, tensor.shape, generator=generator).to(torch.uint8)
        codes[codes & 127 == 127] = 5
        codes = codes.view(torch.float8_e4m3fn)
        blocks = [math.ceil(n / size) for n, size in zip(tensor.shape, (ROWS, COLUMNS), strict=True)]
        factors = (torch.rand(blocks, generator=generator) / 100).to(scales)
        wide = factors.float().repeat_interleave(ROWS, 0).repeat_interleave(COLUMNS, 1)
        plain[key] = codes.float() * wide[: tensor.shape[0], : tensor.shape[1]]
        tensors |= {key: codes, f"{key}_scale_inv": factors}
    for key in lose:
        del tensors[key]
    return save(folder, tensors, models.config() | ({"quantization_config": config} if config else {})), plain


def test_every_code_is_torchs_number():
    want = torch.arange(256).to(torch.uint8).view(torch.float8_e4m3fn).float().numpy()
    assert np.array_equal(e4m3(), want, equal_nan=True)


@pytest.mark.parametrize("scales", [torch.float32, torch.bfloat16])
def test_written_as_plain_weights(tmp_path, scales):
    folder, plain = quantised(tmp_path / "q", scales)
    with open_checkpoint(folder) as source:
        plan = understand(source)
        assert plan.status == "fixable"
        assert [(f.code, f.severity) for f in plan.findings if f.severity != "info"] == [("quantised", "warning")]
        export = retarget(plan, Target("hf"))
        assert export.blocked == ()
        step = next(step for step in export.steps if step.id == "dequantise")
        assert f"FP8 with a scale for each {ROWS} × {COLUMNS} → fp32" in step.evidence
        write_export(export, tmp_path / "out")
    with open_checkpoint(tmp_path / "out") as made:
        assert {r.key: made.read(r) for r in made.refs} == {key: t.numpy().tobytes() for key, t in plain.items()}
        assert understand(made).status == "clean"
    assert "quantization_config" not in json.loads((tmp_path / "out/config.json").read_text())


def test_through_metas_rows_and_back(tmp_path):
    folder, plain = quantised(tmp_path / "q")
    with open_checkpoint(folder) as source:
        write_export(retarget(understand(source), Target("meta")), tmp_path / "meta")
    with open_checkpoint(tmp_path / "meta") as source:
        write_export(retarget(understand(source), Target("hf")), tmp_path / "out")
    with open_checkpoint(tmp_path / "out") as made:
        assert {r.key: made.read(r) for r in made.refs} == {key: t.numpy().tobytes() for key, t in plain.items()}


def test_the_same_layout_keeps_codes_and_config(tmp_path):
    folder, _ = quantised(tmp_path / "q")
    with open_checkpoint(folder) as source:
        plan = understand(source)
        assert "quantised" in [f.code for f in retarget(plan, Target("same", dtype="bf16")).blocked]
        write_export(retarget(plan, Target("same")), tmp_path / "out")
        with open_checkpoint(tmp_path / "out") as made:
            assert {r.key: made.read(r) for r in made.refs} == {r.key: source.read(r) for r in source.refs}
    assert json.loads((tmp_path / "out/config.json").read_text())["quantization_config"] == CONFIG


def test_codes_in_memory_are_not_taken_for_weights(tmp_path):
    from safetensors.torch import load_file

    folder, _ = quantised(tmp_path / "q")
    state = load_file(folder / "model.safetensors")
    with pytest.raises(CheckpointError) as caught:
        normalise_state_dict(state, "meta", config=folder / "config.json")
    assert caught.value.code == "quantised"
    assert normalise_state_dict(state).keys() == state.keys()


SCALE = "model.layers.1.mlp.up_proj.weight_scale_inv"
REFUSED = {
    "no config of it": (None, ()),
    "blocks of another size": (CONFIG | {"weight_block_size": [8, 8]}, ()),
    "no blocks": (CONFIG | {"weight_block_size": None}, ()),
    "one scale lost": (CONFIG, (SCALE,)),
}


@pytest.mark.parametrize(("config", "lose"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused(tmp_path, config, lose):
    folder, _ = quantised(tmp_path / "q", config=config, lose=lose)
    with open_checkpoint(folder) as source:
        plan = understand(source)
        assert plan.status == "blocked"
        assert "quantised" in [f.code for f in retarget(plan, Target("hf")).blocked]
