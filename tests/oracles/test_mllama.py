"""Llama 3.2 Vision: what torchtune's converters make of it, both ways and from Meta's files too, is what we make.

torchtune's model computes the logits of transformers' from what we write, image and all; and other rows of q, or the
layers of an image in other places, are seen in them.
"""

from __future__ import annotations

import importlib.machinery
import sys
import types
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

pytestmark = pytest.mark.oracle
pytest.importorskip("transformers")

import torch
from torch import Tensor

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.export import Target
from ckpt_gui.core.retarget import retarget
from ckpt_gui.core.writer import write_export
from tests.oracles import moe, tiny
from tests.oracles.test_converters_moe import close, folder_of

TEXT = moe.MLLAMA_TEXT
VISION = moe.MLLAMA_VISION
SIZES = {
    "num_heads": 6, "num_kv_heads": 2, "dim": 48, "head_dim": 8, "vocab_size": 80, "cross_attention_layers": [1, 4],
    "encoder_dim": 32, "tile_size": 28, "num_tiles": 4, "supported_aspect_ratios": VISION["supported_aspect_ratios"],
}  # fmt: skip
IDS = torch.tensor([[3, 1, 80, 1, 5, 9, 2, 6, 5, 35]])  # 80 stands for the image
PIXELS = torch.randn((1, 1, 4, 3, 28, 28), generator=torch.Generator().manual_seed(4))


class _Stub(types.ModuleType):
    """torchtune imports torchvision for its transforms of images, of which nothing is used here."""

    __path__: list[str] = []  # noqa: RUF012

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return MagicMock()


@pytest.fixture
def tune(monkeypatch: pytest.MonkeyPatch) -> Any:
    """torchtune's converters and builders."""
    pytest.importorskip("torchtune")
    pytest.importorskip("datasets")
    import transformers.image_utils  # noqa: F401 (looks for torchvision itself, and must not find the stub)

    if importlib.util.find_spec("torchvision") is None:
        for name in ("torchvision", "torchvision.transforms", "torchvision.transforms.v2"):
            stub = _Stub(name)
            stub.__spec__ = importlib.machinery.ModuleSpec(name, None)
            monkeypatch.setitem(sys.modules, name, stub)
    from torchtune.models.llama3_2_vision import _component_builders, _convert_weights

    parts = {**vars(_convert_weights), **vars(_component_builders)}
    return types.SimpleNamespace(**{name: part for name, part in parts.items() if name.startswith("llama3_")})


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that transformers saved, its rotary frequencies scaled as torchtune's are."""
    folder = moe.save("mllama", tmp_path_factory.mktemp("mllama") / "saved")
    config = tiny.raw_config(folder)
    text = config["text_config"]
    text.get("rope_scaling", text.get("rope_parameters"))["original_max_position_embeddings"] = 8192
    tiny.write_config(folder, config)
    return folder


def logits(folder: Path) -> Tensor:
    """The logits for tokens with an image of four tiles before them."""
    model = moe.load("mllama", folder)
    mask = torch.ones((1, 1, 4), dtype=torch.long)
    with torch.no_grad():
        return model(
            input_ids=IDS, pixel_values=PIXELS, aspect_ratio_ids=torch.tensor([[6]]), aspect_ratio_mask=mask,
            cross_attention_mask=torch.ones((1, IDS.shape[1], 1, 4), dtype=torch.long),
            attention_mask=torch.ones_like(IDS),
        ).logits  # type: ignore[no-any-return]  # fmt: skip


def tune_logits(tune: Any, state: dict[str, Tensor]) -> Tensor:
    """What torchtune's model computes with a state dict; every key must be used and found."""
    from torchtune.modules.model_fusion import DeepFusionModel

    # torchtune takes what comes before layers 1 and 2, transformers 4.57 what comes out of 0 and 1.
    encoder = tune.llama3_2_vision_encoder(
        patch_size=14, num_heads=4, clip_embed_dim=32, clip_num_layers=3, clip_hidden_states=[1, 2],
        num_layers_projection=2, decoder_embed_dim=48, tile_size=28, max_num_tiles=4,
    )  # fmt: skip
    decoder = tune.llama3_2_vision_decoder(
        vocab_size=80, num_layers=4, fusion_interval=2, num_special_tokens=8, num_heads=6, num_kv_heads=2,
        embed_dim=48, max_seq_len=64, encoder_max_seq_len=64, rope_base=int(moe.THETA), intermediate_dim=56,
    )  # fmt: skip
    model = DeepFusionModel(decoder=decoder, encoder=encoder).eval()
    model.load_state_dict(state)
    ratio = torch.tensor([[2, 2]])
    with torch.no_grad():
        return model(IDS, encoder_input={"images": PIXELS, "aspect_ratio": ratio})  # type: ignore[no-any-return]


def test_torchtunes_converters(tune: Any, saved: Path, tmp_path: Path) -> None:
    wanted = tune.llama3_vision_hf_to_tune(tiny.read(saved), **SIZES)
    out = tiny.export(saved, tmp_path / "tune", "torchtune")
    assert tiny.differing(tiny.read(out), wanted) == []
    assert tiny.differing(tune.llama3_vision_tune_to_hf(tiny.read(out), **SIZES), tiny.read(saved)) == []
    back = tiny.export(folder_of(wanted, saved, tmp_path / "own", "model.pt"), tmp_path / "back")
    assert tiny.differing(tiny.read(back), tiny.read(saved)) == []
    assert torch.equal(logits(back), logits(saved))


def test_torchtunes_converters_of_metas_files(tune: Any, saved: Path, tmp_path: Path) -> None:
    meta = tiny.read(tiny.export(saved, tmp_path / "meta", "meta"))
    state = tiny.read(tiny.export(saved, tmp_path / "tune", "torchtune"))
    assert tiny.differing(tune.llama3_vision_tune_to_meta(state), meta) == []
    assert tiny.differing(tune.llama3_vision_meta_to_tune(meta), state) == []
    through = tiny.export(tmp_path / "meta", tmp_path / "through", "torchtune")
    assert tiny.differing(tiny.read(through), state) == []


@pytest.fixture
def no_look_at_padding(monkeypatch: pytest.MonkeyPatch) -> None:
    """transformers pads a tile to a multiple of eight patches and lets the others look at them; torchtune pads not."""
    from transformers.models.mllama import modeling_mllama

    def mask(aspect_ratio_mask: Tensor, num_patches: int, target_length: int, dtype: torch.dtype) -> Tensor:
        hidden = torch.zeros((4, target_length), dtype=dtype)
        hidden[:, num_patches:] = torch.finfo(dtype).min
        return hidden.reshape(1, 1, 1, -1).expand(1, 1, 4 * target_length, -1)

    monkeypatch.setattr(modeling_mllama, "_prepare_aspect_ratio_attention_mask", mask)


@pytest.mark.usefixtures("no_look_at_padding")
def test_torchtunes_model_computes_the_same(tune: Any, saved: Path, tmp_path: Path) -> None:
    wanted = logits(saved)
    state = tiny.read(tiny.export(saved, tmp_path / "tune", "torchtune"))
    assert close(tune_logits(tune, state), wanted)
    key = "decoder.layers.0.attn.q_proj.weight"
    wrong = {**state, key: tiny.read(saved)["language_model.model.layers.0.self_attn.q_proj.weight"]}
    assert not close(tune_logits(tune, wrong), wanted)
    swapped = {k.replace("layers.1.fusion", "layers.9.fusion"): v for k, v in state.items()}
    swapped = {k.replace("layers.3.fusion", "layers.1.fusion"): v for k, v in swapped.items()}
    swapped = {k.replace("layers.9.fusion", "layers.3.fusion"): v for k, v in swapped.items()}
    assert not close(tune_logits(tune, swapped), wanted)


def test_a_permutation_that_is_left_out_changes_the_logits(saved: Path, tmp_path: Path) -> None:
    """Which tensors are turned is not a matter of taste: q and k of the layers that look at no image, and only they."""
    meta = tiny.export(saved, tmp_path / "meta", "meta")
    state = tiny.read(saved)
    rows = tiny.read(meta)["text_model.layers.0.attention.wq.weight"]
    wrong = {**state, "language_model.model.layers.0.self_attn.q_proj.weight": rows}
    assert not torch.equal(logits(folder_of(wrong, saved, tmp_path / "wrong", "model.safetensors")), logits(saved))
    crossing = tiny.read(meta)["text_model.cross_attention_layers.0.attention.wq.weight"]
    assert tiny.same(crossing, state["language_model.model.layers.1.cross_attn.q_proj.weight"])


@pytest.mark.parametrize("layout", ["meta", "torchtune"])
def test_without_our_report(layout: str, saved: Path, tmp_path: Path) -> None:
    there = tiny.export(saved, tmp_path / "there", layout)
    (there / "EXPORT_REPORT.json").unlink()
    if layout == "meta":  # of an encoder that is not Meta's, params.json does not say all
        export = retarget(tiny.plan_of(there), Target("hf"))
        assert [f.code for f in export.blocked] == ["config-mismatch"]
        (there / "config.json").write_bytes((saved / "config.json").read_bytes())
    back = tiny.export(there, tmp_path / "back")
    assert tiny.differing(tiny.read(back), tiny.read(saved)) == []
    assert torch.equal(logits(back), logits(saved))


def test_ranks(saved: Path, tmp_path: Path) -> None:
    one = tiny.export(saved, tmp_path / "one", "meta")
    two = tmp_path / "two"
    write_export(retarget(tiny.plan_of(saved), Target("meta", model_parallel=2)), two)
    assert len(list(two.glob("consolidated.*.pth"))) == 2
    tiny.assert_clean(two)
    again = tiny.export(two, tmp_path / "again", "meta")
    assert tiny.differing(tiny.read(again), tiny.read(one)) == []
    assert_back_to(saved, two, tmp_path)


def assert_back_to(saved: Path, folder: Path, tmp_path: Path) -> None:
    back = tiny.export(folder, tmp_path / "hf")
    assert tiny.differing(tiny.read(back), tiny.read(saved)) == []
    assert torch.equal(logits(back), logits(saved))


def test_rows_that_no_grid_has_are_refused(saved: Path, tmp_path: Path) -> None:
    """A model trained with transformers may have other values for the same tile in images of other shapes."""
    state = tiny.read(saved)
    key = "vision_model.pre_tile_positional_embedding.embedding.weight"
    state[key] = state[key] + torch.randn(state[key].shape, generator=torch.Generator().manual_seed(9))
    folder = folder_of(state, saved, tmp_path / "trained", "model.safetensors")
    for layout in ("meta", "torchtune"):
        with pytest.raises(CheckpointError, match="a grid can not hold"):
            tiny.export(folder, tmp_path / layout, layout)
        assert not (tmp_path / layout).exists()
    tiny.export(folder, tmp_path / "hf", "hf")
