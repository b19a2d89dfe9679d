"""What an index alone tells, and then the headers, as rows: there before anybody knows what the tensors are.

Of 500,000 tensors an index is a second's work, the headers of its shards are four, and the comparison with a layout
takes longer than both. The rows have the same names as those of the diff that follows, so that what is selected can
stay so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import repeat

from ckpt_gui.core.bulk import build
from ckpt_gui.core.diff import Diff, Row, State
from ckpt_gui.core.rows import Rows, Told
from ckpt_gui.core.source import Source

LISTED: State = "listed"


def list_index(places: Mapping[str, str]) -> Diff:
    """Return a row for each key of an index, in its order; shapes and types are not known yet.

    Args:
        places: The shard of each key.
    """
    rows = build(
        Row, len(places), state=repeat(LISTED), key=places.keys(), expected=repeat(""), shape=repeat(None),
        expected_shape=repeat(None), dtype=repeat(""), nbytes=repeat(0), ref=repeat(None), note=repeat(""),
        blocks=repeat(""), shard=places.values(),
    )  # fmt: skip
    return Diff(tuple(rows), Counter({LISTED: len(rows)}))


def list_tensors(source: Source) -> Diff:
    """Return a row for each stored tensor, in file order, compared with nothing."""
    count = len(source.refs)
    return Diff(Rows([Told(LISTED)] * count, source.refs), Counter({LISTED: count}))
