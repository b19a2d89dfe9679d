"""torchtune 0.6.1 loads what we write, computes what transformers computes, and its converters agree with ours."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.oracle
pytest.importorskip("torchtune")

import torch
from torch import Tensor
from torchtune.models import convert_weights, llama2, llama3_1, llama3_2, mistral
from torchtune.training import (
    FullModelHFCheckpointer,
    FullModelMetaCheckpointer,
    FullModelTorchTuneCheckpointer,
)

from ckpt_gui import normalise_state_dict
from tests.oracles import tiny

HEAD = "output.weight"
# torchtune's builders know no head_dim: heads × head_dim is the hidden size here.
SIZES: dict[str, Any] = {
    "hidden_size": 64,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 131072,
}
LONG = tiny.LLAMA3 | {"original_max_position_embeddings": 8192}
# Name: transformers config, torchtune builder, its own arguments, model_type.
MODELS: dict[str, tuple[dict[str, Any], Any, dict[str, Any], str]] = {
    "llama3_2-tied": (
        {"tied": True, "scaling": LONG | {"factor": 32.0}},
        llama3_2.llama3_2,
        {"scale_factor": 32},
        "LLAMA3_2",
    ),
    "llama3_1": ({"scaling": LONG}, llama3_1.llama3_1, {"scale_factor": 8}, "LLAMA3"),
    "llama2": ({}, llama2.llama2, {}, "LLAMA2"),
    "mistral": ({"kind": "mistral", "sliding_window": None}, mistral.mistral, {}, "MISTRAL"),
}


class Case:
    """A model of transformers saved in a folder, and torchtune's model of the same sizes."""

    def __init__(self, name: str, folder: Path) -> None:
        kind, self.builder, self.arguments, self.model_type = MODELS[name]
        self.model = tiny.make_model(tiny.make_config(**SIZES | kind), scale=0.3)
        self.folder = folder / "saved"
        self.model.save_pretrained(self.folder)

    def tune(self) -> Any:
        """Return torchtune's model, not yet loaded."""
        config = self.model.config
        rope = {"rope_base": int(tiny.THETA)}
        return self.builder(
            vocab_size=config.vocab_size,
            num_layers=config.num_hidden_layers,
            num_heads=config.num_attention_heads,
            num_kv_heads=config.num_key_value_heads,
            embed_dim=config.hidden_size,
            max_seq_len=64,
            intermediate_dim=config.intermediate_size,
            norm_eps=config.rms_norm_eps,
            **rope,
            **self.arguments,
        ).eval()


@pytest.fixture(params=MODELS)
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    return Case(request.param, tmp_path)


@pytest.fixture
def untied(tmp_path: Path) -> Case:
    return Case("llama3_1", tmp_path)


def checkpointer(kind: Any, folder: Path, out: Path, model_type: str) -> Any:
    files = [p.name for p in sorted(folder.iterdir()) if p.suffix in (".pt", ".pth", ".safetensors", ".bin")]
    return kind(checkpoint_dir=str(folder), checkpoint_files=files, model_type=model_type, output_dir=str(out))


def logits(model: Any, state: dict[str, Tensor]) -> Tensor:
    model.load_state_dict(state, strict=True)
    with torch.no_grad():
        return model(tiny.IDS)  # type: ignore[no-any-return]


def assert_close(found: Tensor, wanted: Tensor) -> None:
    """Two programs that add in another order agree to the last bits of fp32."""
    assert (found - wanted).abs().max() <= 1e-6 * wanted.abs().max().clamp(min=1)


def converted(case: Case) -> dict[str, Tensor]:
    """Convert the folder to torchtune's layout by torchtune's own function."""
    return convert_weights.hf_to_tune(  # type: ignore[no-any-return]
        tiny.read(case.folder),
        num_heads=case.model.config.num_attention_heads,
        num_kv_heads=case.model.config.num_key_value_heads,
        dim=case.model.config.hidden_size,
        head_dim=case.model.config.head_dim,
    )


def test_the_rotary_base_is_whole() -> None:
    assert int(tiny.THETA) == tiny.THETA


def test_torchtune_loads_the_torchtune_export(case: Case, tmp_path: Path) -> None:
    out = tiny.export(case.folder, tmp_path / "tune", "torchtune")
    loader = checkpointer(FullModelTorchTuneCheckpointer, out, tmp_path / "x", case.model_type)
    hf = tiny.export(case.folder, tmp_path / "hf")
    assert_close(logits(case.tune(), loader.load_checkpoint()["model"]), tiny.logits_of(tiny.load(hf)))


def test_torchtune_loads_the_meta_export(case: Case, tmp_path: Path) -> None:
    out = tiny.export(case.folder, tmp_path / "meta", "meta")
    state = checkpointer(FullModelMetaCheckpointer, out, tmp_path / "x", case.model_type).load_checkpoint()["model"]
    hf = tiny.export(out, tmp_path / "hf")
    assert_close(logits(case.tune(), state), tiny.logits_of(tiny.load(hf)))
    assert_close(logits(case.tune(), state), tiny.logits_of(case.model))


def test_torchtune_loads_the_hf_export(case: Case, tmp_path: Path) -> None:
    out = tiny.export(case.folder, tmp_path / "hf", max_shard_bytes=60_000)
    state = checkpointer(FullModelHFCheckpointer, out, tmp_path / "x", case.model_type).load_checkpoint()["model"]
    assert_close(logits(case.tune(), state), tiny.logits_of(case.model))


def test_wrong_rows_are_seen(case: Case, tmp_path: Path) -> None:
    """Negative control: renamed but with the rows of q and k as they were, the logits are others."""
    out = tiny.export(case.folder, tmp_path / "tune", "torchtune")
    state = tiny.read(out)
    hf = tiny.read(case.folder)
    for number in range(case.model.config.num_hidden_layers):
        for part in ("q_proj", "k_proj"):
            wrong = hf[f"model.layers.{number}.self_attn.{part}.weight"]
            assert not torch.equal(state[f"layers.{number}.attn.{part}.weight"], wrong)
            state[f"layers.{number}.attn.{part}.weight"] = wrong
    assert (logits(case.tune(), state) - tiny.logits_of(case.model)).abs().max() > 0.1


def test_hf_to_tune_agrees(case: Case, tmp_path: Path) -> None:
    out = tiny.export(case.folder, tmp_path / "tune", "torchtune")
    assert tiny.differing(tiny.read(out), converted(case)) == []


@pytest.mark.parametrize("kv_heads", [1, 2, 3, 6])
@pytest.mark.parametrize("head_dim", [8, 16, 20])
def test_converters_agree_on_other_head_sizes(tmp_path: Path, kv_heads: int, head_dim: int) -> None:
    """torchtune's converters take a head_dim of its own, where its builders do not."""
    config = tiny.make_config(num_key_value_heads=kv_heads, head_dim=head_dim)
    tiny.make_model(config).save_pretrained(tmp_path / "saved")
    sizes = (config.num_attention_heads, kv_heads, config.hidden_size, head_dim)
    out = tiny.export(tmp_path / "saved", tmp_path / "tune", "torchtune")
    assert tiny.differing(tiny.read(out), convert_weights.hf_to_tune(tiny.read(tmp_path / "saved"), *sizes)) == []
    back = tiny.export(out, tmp_path / "hf")
    assert tiny.differing(tiny.read(back), convert_weights.tune_to_hf(tiny.read(out), *sizes)) == []


def test_tune_to_hf_agrees(case: Case, tmp_path: Path) -> None:
    """What torchtune saved in its own layout becomes, through us, what its converter makes of it."""
    folder = tmp_path / "run"
    folder.mkdir()
    torch.save(converted(case), folder / "model.pt")
    (folder / "config.json").write_text((case.folder / "config.json").read_text())
    config = case.model.config
    wanted = convert_weights.tune_to_hf(
        converted(case),
        num_heads=config.num_attention_heads,
        num_kv_heads=config.num_key_value_heads,
        dim=config.hidden_size,
        head_dim=config.head_dim,
    )
    out = tiny.export(folder, tmp_path / "out")
    assert tiny.differing(tiny.read(out), wanted) == []
    assert tiny.differing(tiny.read(out), tiny.read(case.folder)) == []


def test_meta_to_tune_agrees(case: Case, tmp_path: Path) -> None:
    meta = tiny.export(case.folder, tmp_path / "meta", "meta")
    wanted = convert_weights.meta_to_tune(tiny.read(meta))
    if case.model.config.tie_word_embeddings:
        del wanted[HEAD]  # as its checkpointer does for LLAMA3_2
    out = tiny.export(meta, tmp_path / "tune", "torchtune")
    assert tiny.differing(tiny.read(out), wanted) == []


def test_tune_to_meta_agrees(case: Case, tmp_path: Path) -> None:
    tune = tiny.export(case.folder, tmp_path / "tune", "torchtune")
    wanted = convert_weights.tune_to_meta(tiny.read(tune))
    found = tiny.read(tiny.export(tune, tmp_path / "meta", "meta"))
    if case.model.config.tie_word_embeddings:
        wanted[HEAD] = wanted["tok_embeddings.weight"]  # as its checkpointer does for LLAMA3_2
    assert tiny.differing(found, wanted) == []


@pytest.mark.parametrize("layout", ["hf", "meta", "torchtune"])
def test_in_memory_agrees(case: Case, layout: str) -> None:
    """`normalise_state_dict` and torchtune's converters, from a compiled model's names."""
    tune = converted(case)
    state = {f"_orig_mod.{key}": value for key, value in tune.items()}
    wanted = {"hf": tiny.read(case.folder), "meta": convert_weights.tune_to_meta(tune), "torchtune": tune}[layout]
    if layout == "meta" and case.model.config.tie_word_embeddings:
        wanted[HEAD] = wanted["tok_embeddings.weight"]
    found = normalise_state_dict(state, layout, config=case.model.config)
    assert tiny.differing(found, wanted) == []


def test_torchtune_saves_our_names_and_we_read_what_it_saves(case: Case, tmp_path: Path) -> None:
    """A fine-tune: load, save with each checkpointer of torchtune, and bring each result to Hugging Face."""
    tune = tiny.export(case.folder, tmp_path / "tune", "torchtune")
    meta = tiny.export(case.folder, tmp_path / "meta", "meta")
    kinds = {
        "hf": (FullModelHFCheckpointer, case.folder),
        "meta": (FullModelMetaCheckpointer, meta),
        "tune": (FullModelTorchTuneCheckpointer, tune),
    }
    for name, (kind, folder) in kinds.items():
        loader = checkpointer(kind, folder, tmp_path / f"run-{name}", case.model_type)
        loader.save_checkpoint(loader.load_checkpoint(), epoch=0)
        result = tmp_path / f"run-{name}" / "epoch_0"
        for stage in ("with", "without"):  # torchtune copies our report along
            out = tiny.export(result, tmp_path / f"hf-{name}-{stage}")
            assert tiny.differing(tiny.read(out), tiny.read(case.folder)) == [], name
            assert torch.equal(tiny.logits_of(tiny.load(out)), tiny.logits_of(case.model)), name
            (result / "EXPORT_REPORT.json").unlink(missing_ok=True)


def test_the_save_error_of_a_compiled_model(case: Case, tmp_path: Path) -> None:
    """Issue #1399: training is over, and the model can not be saved; after `normalise_state_dict` it can."""
    loader = checkpointer(FullModelHFCheckpointer, case.folder, tmp_path / "out", case.model_type)
    model = case.tune()
    model.load_state_dict(loader.load_checkpoint()["model"])
    state = torch.compile(model).state_dict()
    message = 'Error converting the state dict. Found unexpected key: "_orig_mod.tok_embeddings.weight"'
    with pytest.raises(Exception, match=message.replace(".", r"\.")):
        loader.save_checkpoint({"model": copy.copy(state)}, epoch=0)
    loader.save_checkpoint({"model": normalise_state_dict(state)}, epoch=1)
    saved = tiny.read(tmp_path / "out" / "epoch_1")
    assert tiny.differing(saved, tiny.read(case.folder)) == []


def test_a_compiled_model_that_torchtune_did_save(case: Case, tmp_path: Path) -> None:
    """Its own layout maps no keys, so the wrapper's names land on disk."""
    loader = checkpointer(FullModelTorchTuneCheckpointer, case.folder, tmp_path / "out", case.model_type)
    model = case.tune()
    model.load_state_dict(converted(case))
    loader.save_checkpoint({"model": torch.compile(model).state_dict()}, epoch=0)
    result = tmp_path / "out" / "epoch_0"
    assert all(key.startswith("_orig_mod.") for key in tiny.read(result))
    out = tiny.export(result, tmp_path / "hf")
    assert tiny.differing(tiny.read(out), tiny.read(case.folder)) == []


def report_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "EXPORT_REPORT.json").read_text())  # type: ignore[no-any-return]


@pytest.mark.parametrize("layout", ["meta", "torchtune"])
def test_report_names_the_model_type(case: Case, tmp_path: Path, layout: str) -> None:
    used = report_of(tiny.export(case.folder, tmp_path / "out", layout))["use_with"]
    wanted = "LLAMA2" if case.model_type == "LLAMA3" else case.model_type  # a small vocabulary is not Llama 3's
    assert used["torchtune_model_type"] == wanted


def test_llama3_2_drops_an_untied_head_and_we_say_so(untied: Case, tmp_path: Path) -> None:
    out = tiny.export(untied.folder, tmp_path / "meta", "meta")
    state = checkpointer(FullModelMetaCheckpointer, out, tmp_path / "x", "LLAMA3_2").load_checkpoint()["model"]
    assert HEAD not in state  # torchtune's own doing: the trained head is gone
    tied = llama3_2.llama3_2(
        vocab_size=80, num_layers=3, num_heads=8, num_kv_heads=2, embed_dim=64, max_seq_len=64, scale_factor=8,
        rope_base=int(tiny.THETA), intermediate_dim=112, norm_eps=untied.model.config.rms_norm_eps,
    ).eval()  # fmt: skip
    assert (logits(tied, state) - tiny.logits_of(untied.model)).abs().max() > 0.1
    for layout in ("meta", "torchtune"):
        warning = report_of(tiny.export(untied.folder, tmp_path / f"again-{layout}", layout))["use_with"]["warning"]
        assert "LLAMA3_2" in warning
        assert "drop" in warning


def test_tied_export_has_no_such_warning(tmp_path: Path) -> None:
    case = Case("llama3_2-tied", tmp_path)
    assert "warning" not in report_of(tiny.export(case.folder, tmp_path / "out", "torchtune"))["use_with"]
