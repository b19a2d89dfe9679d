"""litgpt's own `Config.from_file` takes the model_config.yaml that is written, and the model computes the same; the way
back from litgpt's folder, with nothing but that file, does too.
"""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = pytest.mark.oracle
pytest.importorskip("transformers")
litgpt = pytest.importorskip("litgpt")

import torch

from tests.oracles import dense, moe, tiny
from tests.oracles.test_converters_dense import LIT_KINDS
from tests.oracles.test_converters_moe import LIT, wanted_logits


def check(saved: Path, tmp_path: Path, wanted: torch.Tensor, ids: torch.Tensor) -> Path:
    """Return the litgpt folder with its yaml alone."""
    out = tiny.export(saved, tmp_path / "lit", "litgpt")
    config = litgpt.Config.from_file(out / "model_config.yaml")
    model = litgpt.GPT(config).eval()
    model.load_state_dict(tiny.read(out))
    with torch.no_grad():
        found = model(ids)
    assert (found - wanted).abs().max() <= 3e-5 * wanted.abs().max().clamp(min=1)
    for name in ("config.json", "EXPORT_REPORT.json"):
        (out / name).unlink()
    return out


@pytest.mark.parametrize("kind", LIT_KINDS)
def test_dense(kind: str, tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    dense.make(kind).save_pretrained(saved)
    out = check(saved, tmp_path, dense.logits_of(saved), dense.IDS)
    back = tiny.export(out, tmp_path / "back")
    wanted = dense.logits_of(saved)
    assert (dense.logits_of(back) - wanted).abs().max() <= 1e-6 * wanted.abs().max().clamp(min=1)


@pytest.mark.parametrize("case", list(LIT))
def test_fused_and_experts(case: str, tmp_path: Path) -> None:
    saved = moe.save(case, tmp_path / "saved")
    check(saved, tmp_path, wanted_logits(saved), tiny.IDS)


@pytest.mark.parametrize("scaling", [tiny.LLAMA3, tiny.LINEAR])
def test_scaled_frequencies(tmp_path: Path, scaling: dict[str, float]) -> None:
    model = tiny.make_model(tiny.make_config(scaling=scaling))
    model.save_pretrained(tmp_path / "saved")
    out = check(tmp_path / "saved", tmp_path, tiny.logits_of(model), tiny.IDS)
    back = tiny.export(out, tmp_path / "back")
    assert torch.equal(tiny.logits_of(tiny.load(back)), tiny.logits_of(model))


def test_what_litgpt_saves_is_read(tmp_path: Path) -> None:
    """Its `save_config` writes all fields, a mapping of the hub's name among them."""
    from litgpt.utils import save_config

    model = tiny.make_model(tiny.make_config(scaling=tiny.LLAMA3))
    model.save_pretrained(tmp_path / "saved")
    out = tiny.export(tmp_path / "saved", tmp_path / "lit", "litgpt")
    config = litgpt.Config.from_file(out / "model_config.yaml")
    config.hf_config = {"org": "someone", "name": "Llama"}
    for name in ("config.json", "EXPORT_REPORT.json", "model_config.yaml"):
        (out / name).unlink()
    save_config(config, out)
    back = tiny.export(out, tmp_path / "back")
    assert torch.equal(tiny.logits_of(tiny.load(back)), tiny.logits_of(model))
