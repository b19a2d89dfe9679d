"""What an index tells, and the headers alone: a row a tensor, under the names that the diff will have."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ckpt_gui.core.diff import STATES
from ckpt_gui.core.diffing import diff_expected
from ckpt_gui.core.errors import Cancelled, CheckpointError
from ckpt_gui.core.export import Target
from ckpt_gui.core.filtering import read_query
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.listing import list_index, list_tensors
from ckpt_gui.core.normalise import understand
from ckpt_gui.core.retarget import retarget
from ckpt_gui.core.state_dict import from_state_dict
from ckpt_gui.core.tree import CheckpointIndex
from tests.builders import index_bytes, safetensors_bytes


def test_rows_have_the_names_of_the_diff() -> None:
    state = {f"_orig_mod.layers.{n}.attention.wq.weight": np.full((16, 24), n, np.float32) for n in range(3)}
    source = from_state_dict({**state, "norm.weight": np.ones(24, np.float32)})
    listed = list_tensors(source)
    assert listed.counts == {"listed": 4}
    assert [(r.path, r.shape, r.nbytes, r.ref) for r in listed.rows] == [
        (ref.key, ref.shape, ref.nbytes, ref) for ref in source.refs
    ]
    assert {row.expected for row in listed.rows} == {""}
    diff = diff_expected(retarget(understand(source), Target("same")))
    assert [row.path for row in diff.rows if row.ref] == [row.path for row in listed.rows]
    index = CheckpointIndex(listed.rows)
    assert index.counts(index.root) == {"listed": 4}


SHARDS = {
    "model-00001-of-00002.safetensors": {
        f"model.layers.{n}.mlp.up_proj.weight": np.full((24, 16), n) for n in range(3)
    },
    "model-00002-of-00002.safetensors": {
        "model.norm.weight": np.full(16, 7.5),
        "lm_head.weight": np.full((40, 16), 2.5),
    },
}
PLACES = {key: shard for shard, tensors in SHARDS.items() for key in tensors}


def sharded(folder: Path, places: Mapping[str, object] = PLACES, left_out: str = "") -> Path:
    """Write the shards but one, and an index."""
    for shard, tensors in SHARDS.items():
        if shard != left_out:
            values = {key: value.astype(np.float32) for key, value in tensors.items()}
            (folder / shard).write_bytes(safetensors_bytes(values))
    (folder / "model.safetensors.index.json").write_bytes(index_bytes(places))
    return folder


def test_an_index_tells_of_keys_and_shards_alone() -> None:
    listed = list_index(PLACES)
    assert listed.counts == {"listed": 5}
    assert [(r.path, r.file, r.is_stored, r.shape, r.type_name, r.nbytes, r.ref) for r in listed.rows] == [
        (key, shard, True, None, "", 0, None) for key, shard in PLACES.items()
    ]
    index = CheckpointIndex(listed.rows)
    assert index.types == frozenset()
    assert index.select(read_query("shard:model-00002", STATES)).rows == [3, 4]


def test_the_index_is_told_of_before_any_shard_is_opened(tmp_path: Path) -> None:
    told: list[object] = []
    with open_checkpoint(
        sharded(tmp_path), indexed=told.append, progress=lambda label, done, total: told.append(done)
    ) as source:
        assert told == [PLACES, 1, 2]
        assert source.assigned == PLACES
        assert {id(key) for key in source.assigned} == {id(ref.key) for ref in source.refs}


def test_an_index_that_is_wrong_of_a_key_is_kept_as_it_is(tmp_path: Path) -> None:
    places = {**PLACES, "model.absent.weight": "model-00001-of-00002.safetensors"}
    with open_checkpoint(sharded(tmp_path, places)) as source:
        assert source.assigned == places
        assert "index-stale" in {problem.code for problem in source.problems}


@pytest.mark.parametrize(
    ("places", "code"),
    [({"a": "../a.safetensors"}, "index-unsafe"), ({"a": 3}, "damaged"), (["a"], "damaged")],
)
def test_a_bad_index_is_not_told_of(tmp_path: Path, places: Any, code: str) -> None:
    told: list[object] = []
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(sharded(tmp_path, places), indexed=told.append)
    assert caught.value.code == code
    assert told == []


def test_nothing_is_told_of_without_all_shards_or_an_index(tmp_path: Path) -> None:
    told: list[object] = []
    lacking = sharded(tmp_path, left_out="model-00002-of-00002.safetensors")
    open_checkpoint(lacking, indexed=told.append).close()
    open_checkpoint(lacking / "model-00001-of-00002.safetensors", indexed=told.append).close()
    assert told == []


def test_no_shard_is_opened_after_a_cancel(tmp_path: Path) -> None:
    told: list[object] = []
    with pytest.raises(Cancelled):
        open_checkpoint(
            sharded(tmp_path),
            indexed=told.append,
            progress=lambda label, done, total: told.append(done),
            cancelled=lambda: bool(told),
        )
    assert told == [PLACES]
