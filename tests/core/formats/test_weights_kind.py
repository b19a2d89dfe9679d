"""Files that look like a model and hold no plain weights are named for what they are."""

from __future__ import annotations

import json
import unicodedata

import numpy as np
import pytest

from ckpt_gui.core.beside import Extra
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.formats.weights_kind import find_kinds
from ckpt_gui.core.tensors import TensorRef
from tests import builders as b

LAYER = ("self_attn.q_proj.weight", "mlp.up_proj.weight", "input_layernorm.weight")
KEYS = ["model.embed_tokens.weight", *(f"model.layers.{i}.{name}" for i in range(3) for name in LAYER)]


def ref(key, shape=(4, 4), dtype="bf16", **more):
    return TensorRef(key, dtype, shape, **more)


def kinds(refs, extras=(), beside=(), config=None):
    return [(f.code, f.blocking) for f in find_kinds(refs, extras, beside, config)]


def test_a_plain_model_has_no_findings():
    odd = [ref("logit_scale", (1,)), ref("empty_buffer", (0,)), ref("é", (1,)), ref("model.scales"), ref("a_scales")]
    assert kinds([ref(k) for k in KEYS] + odd) == []


@pytest.mark.parametrize("shape", [(0,), (1,)])
def test_placeholders(shape):
    [found] = find_kinds([ref(k, shape) for k in KEYS], [], ["global_step9", "zero_to_fp32.py", "x"], None)
    assert (found.code, found.blocking, len(found.keys)) == ("partitioned-state", True, len(KEYS))
    assert "10 of 10 tensors" in found.message
    assert "global_step9" in found.fix
    assert "zero_to_fp32.py" in found.fix


def test_some_placeholders():
    [found] = find_kinds([ref(k, (0,) if "q_proj" in k else (4, 4)) for k in KEYS], [], [], None)
    assert "3 of 10 tensors" in found.message
    assert "stage3_gather_16bit_weights_on_model_save" in found.fix


def test_empty_adapter():
    keys = [f"base_model.model.layers.{i}.q_proj.lora_{x}.weight" for i in range(2) for x in "AB"]
    assert kinds([ref(k, (0,) if "lora_B" in k else (4, 4)) for k in keys]) == [("adapter-empty", True)]


@pytest.mark.parametrize(
    ("length", "words"),
    [
        (65_667_584, "¼ of the embedding (128,256 × 2,048) and the last norm (2,048)"),
        (128_256 * 2_048 // 8, "⅛ of the embedding (128,256 × 2,048)"),
        ((2 * 128_256 * 2_048 + 2_048) // 16, "1/16 of the embedding and the head"),
        (12_345, "without those of all ranks."),
    ],
)
def test_flat_slices(length, words):
    config = {"vocab_size": 128_256, "hidden_size": 2_048}
    for given in (config, {"text_config": config}):
        [found] = find_kinds([ref("model.embed_tokens.weight", (length,)), ref("b")], [], [], given)
        assert found.code == "partitioned-state"
        assert words in found.message


def test_flat_parameters_by_name():
    assert kinds([ref("_fsdp_wrapped_module._flat_param", (99,))]) == [("partitioned-state", True)]


QUANTISED = {
    "bitsandbytes 4-bit": ("weight", "weight.absmax", "weight.quant_map", "weight.quant_state.bitsandbytes__nf4"),
    "bitsandbytes 8-bit": ("weight", "SCB"),
    "GPTQ": ("qweight", "qzeros", "scales", "g_idx"),
    "AWQ or GPTQ": ("qweight", "qzeros", "scales"),
    "FP8 with block scales": ("weight", "weight_scale_inv"),
    "FP8 or INT8 with scales": ("weight", "weight_scale", "input_scale"),
    "compressed-tensors, packed": ("weight_packed", "weight_scale", "weight_shape"),
    "quanto": ("weight._data", "weight._scale"),
    "GPTQ of lit-llama": ("quant_weight", "scales", "zeros"),
    "MXFP4": ("gate_up_proj_blocks", "gate_up_proj_scales"),
    "MXFP4, as OpenAI releases it": ("mlp1_weight.blocks", "mlp1_weight.scales"),
}


@pytest.mark.parametrize("title", QUANTISED)
def test_quantised_by_suffix(title):
    refs = [ref(f"model.layers.0.mlp.{end}") for end in QUANTISED[title]] + [ref("model.norm.weight")]
    [found] = find_kinds(refs, [], [], None)
    assert (found.code, found.blocking) == ("quantised", True)
    assert title in found.message


def test_quantised_classes():
    extra = Extra(("model", "w"), "torchao.dtypes.nf4tensor.NF4Tensor", "an object")
    assert kinds([ref("a")], [extra]) == [("quantised", True)]


@pytest.mark.case(102)
def test_names_that_are_drawn_alike():
    name = "café.weight"
    refs = [ref(unicodedata.normalize(form, name)) for form in ("NFC", "NFD")]
    assert kinds(refs) == [("key-collision", False)]
    assert kinds(refs[:1]) == []


def test_views_without_end():
    wide = ref("w", (1 << 40, 3), "fp32", strides=(0, 1))
    [found] = find_kinds([wide], [], [], None)
    assert "an expanded view of 3 stored elements" in found.message
    assert kinds([ref("w", (1 << 20, 3), "fp32", strides=(0, 1))]) == []


def test_in_files(tmp_path):
    header = {key: b.entry("BF16", (0,), 0, 0) for key in KEYS}
    b.write(tmp_path / "model.safetensors", b.raw_safetensors(header))
    (tmp_path / "global_step3").mkdir()
    with open_checkpoint(tmp_path) as source:
        found = next(p for p in source.problems if p.code == "partitioned-state")
        assert "global_step3" in found.fix
    w = np.arange(16, dtype=np.float32)
    (tmp_path / "f").mkdir()
    b.write(tmp_path / "f/model.safetensors", b.safetensors_bytes({"model.embed_tokens.weight": w}, {"format": "pt"}))
    b.write(tmp_path / "f/config.json", json.dumps({"vocab_size": 15, "hidden_size": 4}).encode())
    with open_checkpoint(tmp_path / "f") as source:
        assert "¼ of the embedding (15 × 4) and the last norm (4)" in source.problems[0].message


def dtensor(local, whole, spec=None):
    """A distributed tensor as torch 2.13 pickles it."""
    kind = b.name("torch.distributed.tensor", "DTensor")
    spec = spec or b.obj(b.name("torch.distributed.tensor._dtensor_spec", "DTensorSpec"), b.dict_of({}))
    state = b.dict_of({"_local_tensor": local, "_spec": spec})
    sizes = b.tuple_of(*map(b.number, whole))
    device = b.call(b.name("torch", "device"), b.text("cpu"))
    args = b.tuple_of(kind, b.name("torch", "float32"), sizes, sizes, b.number(0), b.number(0), device, b"\x89")
    rebuild = b.name("torch._utils", "_rebuild_wrapper_subclass")
    return b.call(b.name("torch._tensor", "_rebuild_from_type_v2"), rebuild, kind, args, b.tuple_of(b"N", state))


def test_distributed_tensors(tmp_path):
    w = np.arange(6, dtype=np.float32)
    whole = b.torch_bytes(b.dict_of({"w": dtensor(b.tensor("0", [2, 3]), [2, 3])}), {"0": w})
    with open_checkpoint(b.write(tmp_path / "x.pt", whole)) as source:
        assert source.problems == ()
        assert (source.refs[0].key, source.read(source.refs[0])) == ("w", w.tobytes())
    part = b.torch_bytes(b.dict_of({"w": dtensor(b.tensor("0", [2, 3]), [8, 3])}), {"0": w})
    with open_checkpoint(b.write(tmp_path / "x.pt", part)) as source:
        [found] = source.problems
        assert (found.code, found.blocking) == ("partitioned-state", True)
        assert "[2, 3] of [8, 3]" in found.message


def test_metas_fp8_release_has_its_scales_beside():
    refs = [TensorRef("layers.1.feed_forward.w1.weight", "fp8_e4m3", (8, 8)), ref("norm.weight")]
    names = ["consolidated.00.pth", "fp8_scales_0.pt", "fp8_scales_1.pt"]
    [found] = find_kinds(refs, [], names, None)
    assert (found.code, found.blocking, found.keys) == ("quantised", True, ("layers.1.feed_forward.w1.weight",))
    assert "fp8_scales_0.pt" in found.message
    assert find_kinds(refs, [], names[:1], None) == []
