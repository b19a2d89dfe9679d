"""What the headers alone tell: a row a tensor, under the names that the diff will have."""

from __future__ import annotations

import numpy as np

from ckpt_gui.core.diff import diff_expected
from ckpt_gui.core.export import Target
from ckpt_gui.core.listing import list_tensors
from ckpt_gui.core.normalise import understand
from ckpt_gui.core.retarget import retarget
from ckpt_gui.core.state_dict import from_state_dict
from ckpt_gui.core.tree import CheckpointIndex


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
