"""A tiny Llama cut for tensor-parallel ranks, merged, computes in transformers what it computed before."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = pytest.mark.oracle
pytest.importorskip("transformers")

import torch

from ckpt_gui.core.export import Target
from ckpt_gui.core.retarget import retarget
from ckpt_gui.core.writer import write_export
from tests.oracles import tiny

SIZES = {"hidden_size": 64, "num_attention_heads": 16, "num_key_value_heads": 4, "head_dim": 8, "vocab_size": 96}
# Rows of these are cut among the ranks, columns of those; every rank has the rest as a whole (Meta llama3 model.py).
COLUMN, ROW = ("wq", "wk", "wv", "w1", "w3", "output"), ("wo", "w2")


def merged(folder: Path, ranks: int, embedding: int, heads: int) -> dict[str, torch.Tensor]:
    """Put the files together by hand, as Meta's programs hold them."""
    parts = [torch.load(folder / f"consolidated.{i:02}.pth", weights_only=True) for i in range(ranks)]
    whole = {}
    for key, first in parts[0].items():
        name = key.split(".")[-2]
        every = [p[key] for p in parts]
        if name in ("wk", "wv"):
            every = every[:: max(ranks // heads, 1)]
        if name in COLUMN:
            whole[key] = torch.cat(every)
        elif name in ROW:
            whole[key] = torch.cat(every, 1)
        elif name == "tok_embeddings":
            whole[key] = torch.cat(every, embedding)
        else:
            assert all(torch.equal(first, part) for part in every)
            whole[key] = first
    return whole


@pytest.mark.parametrize("ranks", [2, 4, 8, 16])
@pytest.mark.parametrize("llama3", [False, True])
@pytest.mark.parametrize("tied", [False, True])
def test_logits_after_a_cut_and_a_merge(tmp_path: Path, ranks: int, llama3: bool, tied: bool) -> None:
    scaling = tiny.LLAMA3 if llama3 else None
    tiny.make_model(tiny.make_config(tied=tied, scaling=scaling, **SIZES)).save_pretrained(tmp_path / "in")
    plan = tiny.plan_of(tmp_path / "in")
    write_export(retarget(plan, Target("meta", model_parallel=ranks)), tmp_path / "cut")
    tiny.export(tmp_path / "in", tmp_path / "one", "meta")
    one = torch.load(tmp_path / "one" / "consolidated.00.pth", weights_only=True)
    assert tiny.differing(merged(tmp_path / "cut", ranks, 0 if llama3 else 1, 4), one) == []
    tiny.assert_clean(tmp_path / "cut")
    tiny.export(tmp_path / "cut", tmp_path / "back")
    assert tiny.logits_equal(tmp_path / "back", tmp_path / "in")
    assert tiny.differing(tiny.read(tmp_path / "back"), tiny.read(tmp_path / "in")) == []
