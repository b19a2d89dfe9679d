"""A view that repeats a few numbers 2^40 times opens, and nothing sets out to read it whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ckpt_gui.core.compare import compare, side_of_plan
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.normalise import normalise, probe
from ckpt_gui.core.ops import RefStream
from ckpt_gui.core.scan.run import scan
from ckpt_gui.core.stats.heat import heat_map
from ckpt_gui.core.stats.pair import pair_stats
from ckpt_gui.core.stats.single import distribution, tensor_stats
from tests import builders as b

W = np.arange(6, dtype=np.float32)
VIEW = b.tensor("0", [1 << 40, 6], numel=6, strides=[0, 1])


def saved(path: Path, *keys: str) -> Path:
    body = b.dict_of({**dict.fromkeys(keys, VIEW), "b": b.tensor("0", [6])})
    return b.write(path, b.torch_bytes(body, {"0": W}))


@pytest.mark.case(60)
def test_figures_say_why_there_are_none(tmp_path: Path) -> None:
    with open_checkpoint(saved(tmp_path / "x.pt", "w")) as source:
        ref = source.refs[0]
        assert (ref.is_endless, ref.stored_nbytes, source.refs[1].is_endless) == (True, 24, False)
        reason = tensor_stats(source, ref, bins=8).reason
        assert reason is not None
        assert reason.startswith("It is an expanded view of 6 stored elements, which would take 26,388,279,066,624 ")
        assert distribution(source, ref).counts.size == 0
        assert tensor_stats(source, source.refs[1]).max == 5
        for read in (lambda: heat_map(source, ref), lambda: pair_stats(source, ref, ref)):
            with pytest.raises(CheckpointError, match="6 stored elements") as caught:
                read()
            assert caught.value.code == "limit-exceeded"
        with pytest.raises(CheckpointError, match="not read whole"):
            RefStream(source, ref)


@pytest.mark.case(60)
def test_a_scan_and_a_comparison_go_on_with_the_others(tmp_path: Path) -> None:
    keys = ("model.embed_tokens.weight", "lm_head.weight")
    with (
        open_checkpoint(saved(tmp_path / "x.pt", *keys)) as source,
        open_checkpoint(saved(tmp_path / "y.pt", *keys)) as other,
    ):
        plan = normalise(source)
        plan = normalise(source, evidence=probe(plan))
        found = scan(plan)
        assert {t.key for t in found.tensors} >= {"b"}
        result = compare(side_of_plan(plan), side_of_plan(normalise(other)), values=True)
        assert {row.key: row.state for row in result.rows}["b"] == "equal"
