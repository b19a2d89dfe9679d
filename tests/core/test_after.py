"""The rows that an export will have are those that the exported checkpoint has once it is opened again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ckpt_gui.core.after import after_summary, diff_after
from ckpt_gui.core.diff import Diff
from ckpt_gui.core.diffing import diff_expected
from ckpt_gui.core.export import Export, Target
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.normalise import understand
from ckpt_gui.core.retarget import retarget
from ckpt_gui.core.writer import write_export
from tests.core import models


def after(tensors: models.State, layout: str, **policy: object) -> tuple[Export, Diff, Diff]:
    export = retarget(models.plan(tensors, models.config(), **policy), Target(layout))
    diff = diff_expected(export)
    return export, diff, diff_after(export, diff)


@pytest.mark.parametrize(("before", "layout"), [("meta", "hf"), ("hf", "meta"), ("torchtune", "hf"), ("hf", "hf")])
def test_the_preview_is_what_the_export_has(before: str, layout: str, tmp_path: Path) -> None:
    export, _, shown = after(models.state(before), layout)
    write_export(export, tmp_path / "out")
    with open_checkpoint(tmp_path / "out") as source:
        again = diff_expected(retarget(understand(source), Target(layout)))
        written = {(row.key, row.shape, row.dtype, row.nbytes, row.state) for row in again.rows if row.state != "tied"}
    told = {
        (row.key, row.shape, row.dtype, row.nbytes, row.state) for row in shown.rows if row.key != models.HEAD[layout]
    }
    assert told == {row for row in written if row[0] != models.HEAD[layout]}
    assert set(shown.counts) == {"same"}


def test_what_is_left_out_is_not_extra_any_more() -> None:
    tensors = models.state("meta") | {"rope.freqs": np.zeros(4, np.float32), "score.weight": np.zeros(3, np.float32)}
    export, diff, shown = after(tensors, "hf")
    assert diff.counts["extra"] == 2, "the table of rotary frequencies stands in the file"
    assert shown.counts["extra"] == 1, "and is left out"
    assert after_summary(export, diff).endswith("0 missing · 1 extra")
    export, diff, shown = after(tensors, "hf", dropped=frozenset({"score.weight"}))
    assert "extra" not in shown.counts
    assert after_summary(export, diff).endswith("0 missing · 0 extra")


def test_what_is_wrong_stays_wrong() -> None:
    tensors = models.state("meta") | {"norm.weight": np.zeros(3, np.float32)}
    del tensors["layers.1.ffn_norm.weight"]
    export, diff, shown = after(tensors, "hf")
    states = {row.path: row.state for row in shown.rows}
    assert states["model.norm.weight"] == "shape"
    assert states["model.layers.1.post_attention_layernorm.weight"] == "missing"
    matched = len(export.entries) - 1
    assert after_summary(export, diff) == f"{matched} match · 1 missing · 0 extra · 1 wrong shape"
    assert shown.counts == {"same": matched, "shape": 1, "missing": 1}


def test_rows_say_what_they_are_made_of() -> None:
    _, _, shown = after(models.state("meta"), "hf")
    notes = {row.key: row.note for row in shown.rows}
    assert notes["model.norm.weight"] == "from norm.weight"
    assert notes["model.layers.0.self_attn.q_proj.weight"].startswith("from layers.0.attention.wq.weight: rotary rows")
