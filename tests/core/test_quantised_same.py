"""A quantised model can be cleaned of wrappers: codes and scales stay as they are; every other layout is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.export import Target
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.normalise import understand
from ckpt_gui.core.retarget import retarget
from ckpt_gui.core.writer import write_export
from tests.core import models

RNG = np.random.default_rng(6)
ROWS, COLUMNS = models.FFN, models.HIDDEN
SCHEMES = {
    "bitsandbytes 4-bit": {
        "weight": ("u1", (ROWS * COLUMNS // 2, 1)),
        "weight.absmax": ("f4", (15,)),
        "weight.quant_map": ("f4", (16,)),
        "weight.quant_state.bitsandbytes__nf4": ("u1", (90,)),
    },
    "bitsandbytes 8-bit": {"weight": ("u1", (ROWS, COLUMNS)), "SCB": ("f4", (ROWS,))},
    "GPTQ": {
        "qweight": ("i4", (3, ROWS)),
        "qzeros": ("i4", (1, 5)),
        "scales": ("f2", (1, ROWS)),
        "g_idx": ("i4", (24,)),
    },
    "AWQ": {"qweight": ("i4", (24, 5)), "qzeros": ("i4", (1, 5)), "scales": ("f2", (1, ROWS))},
    "FP8 with block scales": {"weight": ("u1", (ROWS, COLUMNS)), "weight_scale_inv": ("f4", (1, 1))},
}


def quantised(folder, scheme):
    """A model whose gates and ups are quantised, each part with values of its own, under the names of torch.compile."""
    tensors = models.state("hf")
    for key in [key for key in tensors if "gate_proj" in key or "up_proj" in key]:
        del tensors[key]
        for part, (dtype, shape) in SCHEMES[scheme].items():
            tensors[key.removesuffix("weight") + part] = RNG.integers(1, 90, shape).astype(dtype)
    wrapped = {f"_orig_mod.{key}": array for key, array in tensors.items()}
    config = models.config() | {"quantization_config": {"quant_method": scheme}}
    return models.save(folder, wrapped, config=config), tensors, config


@pytest.mark.parametrize("scheme", SCHEMES)
def test_wrappers_go_and_nothing_else(tmp_path, scheme):
    path, tensors, config = quantised(tmp_path / "q", scheme)
    with open_checkpoint(path) as source:
        plan = understand(source)
        export = retarget(plan, Target("same"))
        assert export.blocked == ()
        assert next(f.severity for f in export.findings if f.code == "quantised") == "info"
        write_export(export, tmp_path / "out")
        for refused in (Target("meta"), Target("hf"), Target("same", dtype="fp16")):
            assert "quantised" in [f.code for f in retarget(plan, refused).blocked]
    with open_checkpoint(tmp_path / "out") as made:
        assert {r.key: made.read(r) for r in made.refs} == {key: array.tobytes() for key, array in tensors.items()}
    assert json.loads((tmp_path / "out/config.json").read_text()) == config


def test_codes_inside_foreign_objects_are_not_carried(tmp_path):
    """torchao's tensors are objects that an export leaves out: then nothing of the weight would be left."""
    from tests import builders as b

    inside = b.obj(b.name("torchao.dtypes.nf4tensor", "NF4Tensor"), b.dict_of({"codes": b.tensor("0", [6])}))
    data = b.torch_bytes(
        b.dict_of({"w": inside, "n": b.tensor("1", [2])}), {"0": np.ones(6, "f4"), "1": np.ones(2, "f4")}
    )
    with open_checkpoint(b.write(tmp_path / "x.pt", data)) as source:
        assert "quantised" in [f.code for f in retarget(understand(source), Target("same")).blocked]


def test_scales_in_other_files_are_not_carried(tmp_path):
    """Meta's FP8 release keeps them beside, in a file for each rank: codes alone would be worthless."""
    from tests import builders as b

    entry = b.entry("F8_E4M3", [4, 4], 0, 16)
    data = b.raw_safetensors({"layers.0.feed_forward.w1.weight": entry}, bytes(16))
    b.write(tmp_path / "model.safetensors", data)
    b.write(tmp_path / "fp8_scales_0.pt", b"x")
    with open_checkpoint(tmp_path / "model.safetensors") as source:
        assert "quantised" in [f.code for f in retarget(understand(source), Target("same")).blocked]


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
def test_torchs_own_quantised_tensors_are_named_and_the_others_read(tmp_path):
    torch = pytest.importorskip("torch")
    codes = torch.quantize_per_tensor(torch.randn(3, 4), 0.1, 0, torch.qint8)
    torch.save({"w": codes, "v": torch.ones(2)}, tmp_path / "x.pt")
    with open_checkpoint(tmp_path / "x.pt") as source:
        assert [(r.key, source.read(r)) for r in source.refs] == [("v", np.ones(2, np.float32).tobytes())]
        assert next(p for p in source.problems if p.code == "quantised").keys == ("w",)


def test_a_program_of_torch_export_is_named(tmp_path):
    from zipfile import ZipFile

    with ZipFile(tmp_path / "x.pt2", "w") as archive:
        archive.writestr("x/archive_format", "pt2")
        archive.writestr("x/models/model.json", "{}")
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(tmp_path / "x.pt2")
    assert "torch.export" in caught.value.message
