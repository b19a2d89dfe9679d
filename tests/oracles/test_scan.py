"""Models as transformers makes them: random ones have no fault, fresh ones are told to be fresh, for every family."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = pytest.mark.oracle
transformers = pytest.importorskip("transformers")

from ckpt_gui import open_checkpoint
from ckpt_gui.core.normalise import normalise
from ckpt_gui.core.scan import Scan, scan
from tests.oracles import dense


def scanned(folder: Path) -> Scan:
    with open_checkpoint(folder) as source:
        return scan(normalise(source))


@pytest.mark.parametrize("kind", dense.KINDS)
def test_random_models_have_no_findings(kind: str, tmp_path: Path) -> None:
    dense.make(kind).save_pretrained(tmp_path)
    assert scanned(tmp_path).findings == ()


@pytest.mark.parametrize("kind", ["llama", "qwen2-tied", "gemma2", "olmo2", "starcoder2"])
def test_fresh_models_are_said_to_be_fresh_and_nothing_else(kind: str, tmp_path: Path) -> None:
    model_type, changes = dense.KINDS[kind]
    sizes = {**dense.SIZES, **changes}
    if sizes.get("head_dim") == 8:
        del sizes["head_dim"]
    config = transformers.AutoConfig.for_model(model_type, **sizes)
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    found = scanned(tmp_path).findings
    assert {f.code for f in found} - {"untrained-rows"} == {"fresh-weights"}
