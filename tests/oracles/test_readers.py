"""torch, safetensors, zipfile and huggingface_hub read our files; Meta's formula gives the width we wrote."""

from __future__ import annotations

import json
import math
import zipfile
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.oracle
pytest.importorskip("transformers")

import torch
from huggingface_hub import load_state_dict_from_file
from safetensors import safe_open
from safetensors.torch import load_file

from tests.oracles import tiny

MAIN = {"hf": "pytorch_model.bin", "meta": "consolidated.00.pth", "torchtune": "torchtune_model.pt"}


@pytest.fixture(params=[False, True], ids=["untied", "tied"])
def saved(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    model = tiny.make_model(tiny.make_config(tied=request.param)).to(torch.bfloat16)
    model.save_pretrained(tmp_path / "saved")
    return tmp_path / "saved"


@pytest.mark.parametrize("layout", MAIN)
@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("weights_only", [False, True])
def test_torch_reads_our_files(saved: Path, tmp_path: Path, layout: str, mmap: bool, weights_only: bool) -> None:
    out = tiny.export(saved, tmp_path / "out", layout, container="torch")
    state = torch.load(out / MAIN[layout], mmap=mmap, weights_only=weights_only)
    back = tiny.export(out, tmp_path / "back")
    assert tiny.differing(tiny.read(back), tiny.read(saved)) == []
    assert all(type(tensor) is torch.Tensor and tensor.is_contiguous() for tensor in state.values())
    assert sum(t.numel() for t in state.values()) > 0
    if layout == "hf":
        assert tiny.differing(state, tiny.read(saved)) == []


@pytest.mark.parametrize("layout", MAIN)
def test_zipfile_finds_no_fault(saved: Path, tmp_path: Path, layout: str) -> None:
    out = tiny.export(saved, tmp_path / "out", layout, container="torch")
    with zipfile.ZipFile(out / MAIN[layout]) as archive:
        assert archive.testzip() is None
        assert all(info.compress_type == zipfile.ZIP_STORED for info in archive.infolist())


def test_tied_head_of_meta_is_one_storage(tmp_path: Path) -> None:
    """As Meta's own files have it: both names, the bytes once."""
    tiny.make_model(tiny.make_config(tied=True)).save_pretrained(tmp_path / "saved")
    out = tiny.export(tmp_path / "saved", tmp_path / "out", "meta")
    state = torch.load(out / MAIN["meta"], weights_only=True)
    assert state["output.weight"].data_ptr() == state["tok_embeddings.weight"].data_ptr()
    assert torch.equal(state["output.weight"], load_file(tmp_path / "saved/model.safetensors")[tiny.EMBEDDING])


@pytest.mark.parametrize("layout", MAIN)
def test_safetensors_reads_our_files(saved: Path, tmp_path: Path, layout: str) -> None:
    out = tiny.export(saved, tmp_path / "out", layout, container="safetensors")
    torch_file = tiny.export(saved, tmp_path / "torch", layout, container="torch")
    (path,) = out.glob("*.safetensors")
    assert tiny.differing(load_file(path), tiny.read(torch_file)) == []
    with safe_open(path, framework="pt") as file:
        assert file.metadata() == {"format": "pt"}
        for key in file.keys():  # noqa: SIM118
            part = file.get_slice(key)
            assert torch.equal(part[:1], file.get_tensor(key)[:1])


def test_hub_reads_our_files(saved: Path, tmp_path: Path) -> None:
    out = tiny.export(saved, tmp_path / "out")
    assert tiny.differing(load_state_dict_from_file(out / "model.safetensors"), tiny.read(saved)) == []


def meta_width(params: dict[str, Any]) -> int:
    """The width as Meta's `FeedForward` computes it from params.json."""
    width = int(2 * (4 * params["dim"]) / 3)
    if params.get("ffn_dim_multiplier") is not None:
        width = int(params["ffn_dim_multiplier"] * width)
    return int(params["multiple_of"] * ((width + params["multiple_of"] - 1) // params["multiple_of"]))


@pytest.mark.parametrize("width", [64, 112, 128, 130, 131, 192, 257, 344, 1000])
def test_metas_formula_gives_the_width(tmp_path: Path, width: int) -> None:
    tiny.make_model(tiny.make_config(intermediate_size=width, num_hidden_layers=1)).save_pretrained(tmp_path / "saved")
    out = tiny.export(tmp_path / "saved", tmp_path / "out", "meta")
    params = json.loads((out / "params.json").read_text())
    assert meta_width(params) == width
    state = torch.load(out / MAIN["meta"], weights_only=True)
    assert state["layers.0.feed_forward.w1.weight"].shape == (width, params["dim"])


def test_params_has_no_field_that_metas_programs_refuse(tmp_path: Path) -> None:
    """Llama 3's `ModelArgs(**params)` takes these names alone; head_dim stands only where it is not dim / n_heads."""
    known = {"dim", "n_layers", "n_heads", "n_kv_heads", "vocab_size", "multiple_of", "norm_eps", "rope_theta"}
    sizes = {"head_dim": 8, "num_key_value_heads": 2}
    tiny.make_model(tiny.make_config(**sizes)).save_pretrained(tmp_path / "saved")
    out = tiny.export(tmp_path / "saved", tmp_path / "out", "meta")
    assert json.loads((out / "params.json").read_text()).keys() <= known | {"ffn_dim_multiplier"}
    tiny.make_model(tiny.make_config()).save_pretrained(tmp_path / "wide")
    out = tiny.export(tmp_path / "wide", tmp_path / "wide-out", "meta")
    params = json.loads((out / "params.json").read_text())
    assert params["head_dim"] == tiny.SIZES["head_dim"]
    assert math.isclose(params["norm_eps"], tiny.SIZES["rms_norm_eps"])


def test_params_of_mistral_is_as_its_program_wants_it(tmp_path: Path) -> None:
    tiny.make_model(tiny.make_config("mistral", sliding_window=12)).save_pretrained(tmp_path / "saved")
    out = tiny.export(tmp_path / "saved", tmp_path / "out", "meta")
    params = json.loads((out / "params.json").read_text())
    needed = {"dim", "n_layers", "head_dim", "hidden_dim", "n_heads", "n_kv_heads", "norm_eps", "vocab_size"}
    assert needed <= params.keys()
    assert (params["hidden_dim"], params["sliding_window"]) == (tiny.SIZES["intermediate_size"], 12)
