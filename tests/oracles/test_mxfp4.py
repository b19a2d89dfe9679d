"""MXFP4 experts of a GPT-OSS: transformers' own unpacking makes the same bytes, and the same logits."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = pytest.mark.oracle
pytest.importorskip("transformers")

import json

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

from ckpt_gui.core.exprs import make, stream_of
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.formats.memory import from_state_dict
from ckpt_gui.core.mxfp4_ops import DecodeMxfp4
from ckpt_gui.core.normalise import understand
from ckpt_gui.core.ops import RefStream, read_any
from tests.oracles import moe, tiny
from tests.oracles.test_own_programs import openai

FIELDS = {**moe.BASE, "hidden_size": 64, "intermediate_size": 96, "num_local_experts": 3, "head_dim": 16,
          "num_experts_per_tok": 2, "initial_context_length": 64}  # fmt: skip
STEPS = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
QUANTISED = {"quant_method": "mxfp4", "dequantize": True, "modules_to_not_convert": ["lm_head"]}


def packed(weight: Tensor) -> tuple[Tensor, Tensor]:
    """The nearest codes and scales of a weight (experts, in, out), as its released files have them."""
    rows = weight.float().transpose(1, 2)
    groups = rows.reshape(*rows.shape[:2], -1, 32)
    power = torch.floor(torch.log2(groups.abs().amax(-1).clamp(min=1e-9))) - 2  # the largest becomes 4 to 6
    sizes = (groups / 2.0 ** power[..., None]).abs()
    codes = (sizes[..., None] - STEPS).abs().argmin(-1) + 8 * (groups < 0)
    low, high = codes[..., ::2], codes[..., 1::2]
    return (low + 16 * high).to(torch.uint8), (power + 127).to(torch.uint8)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A model with MXFP4 experts, and the same with what transformers unpacks in their place."""
    folder = tmp_path_factory.mktemp("mxfp4")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(moe.CASES, "gpt-oss", ("GptOssConfig", FIELDS, "gpt-oss"))
        moe.random_model("gpt-oss").to(torch.bfloat16).save_pretrained(folder / "plain")
    state, coded = load_file(folder / "plain/model.safetensors"), {}
    for key, value in dict(state).items():
        if key.endswith(("gate_up_proj", "down_proj")):
            blocks, scales = packed(value)
            coded |= {f"{key}_blocks": blocks, f"{key}_scales": scales}
            state[key] = convert_moe_packed_tensors(blocks, scales)
        else:
            coded[key] = value
    save_file(state, folder / "plain/model.safetensors", {"format": "pt"})
    (folder / "coded").mkdir()
    save_file({key: value.contiguous() for key, value in coded.items()}, folder / "coded/model.safetensors")
    raw = moe.json_of(folder / "plain/config.json") | {"quantization_config": QUANTISED}
    (folder / "coded/config.json").write_text(json.dumps(raw))
    return folder / "coded", folder / "plain"


def test_the_same_bytes_and_logits(folders: tuple[Path, Path], tmp_path: Path) -> None:
    coded, plain = folders
    out = tiny.export(coded, tmp_path / "out")
    assert tiny.differing(tiny.read(out), tiny.read(plain)) == []
    assert tiny.logits_equal(out, plain)
    with open_checkpoint(out) as source:
        assert understand(source).status == "clean"


def test_as_transformers_loads_the_codes_itself(folders: tuple[Path, Path], tmp_path: Path) -> None:
    """It decodes them at loading."""
    assert tiny.logits_equal(tiny.export(folders[0], tmp_path / "out"), folders[0])


def test_openais_program_computes_the_same(folders: tuple[Path, Path], tmp_path: Path) -> None:
    out = tiny.export(folders[0], tmp_path / "openai", "openai")
    state = {key: value.float() for key, value in tiny.read(out).items()}
    wanted = tiny.logits_of(tiny.load(folders[1]).float())
    made = openai(state, moe.json_of(out / "config.json"))
    assert torch.allclose(made, wanted, rtol=1e-3, atol=1e-3 * float(wanted.abs().max()))
    back = tiny.export(out, tmp_path / "back")
    assert tiny.differing(tiny.read(back), tiny.read(folders[1])) == []


def test_every_code_with_every_scale() -> None:
    """What is no number of bf16, too: subnormal at the lower end, infinite at the upper one."""
    blocks = torch.arange(256, dtype=torch.uint8).reshape(1, 16, 1, 16).repeat(1, 256, 1, 1)
    scales = torch.arange(256, dtype=torch.uint8).repeat_interleave(16).reshape(1, 4096, 1)
    source = from_state_dict({"codes": blocks, "scales": scales})
    stream = stream_of(make(DecodeMxfp4(), *source.refs), {}, lambda ref: RefStream(source, ref))
    made = torch.empty(blocks.numel() * 4, dtype=torch.uint8)
    read_any(stream, 0, made.numpy())
    decoded = made.view(torch.bfloat16).view(stream.shape).transpose(1, 2)
    assert tiny.same(decoded.contiguous(), convert_moe_packed_tensors(blocks, scales))
