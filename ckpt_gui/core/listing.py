"""What the headers alone tell, as rows: there before anybody knows what the tensors are.

Of 500,000 tensors this is a second's work, where the comparison with a layout takes several. The rows have the same
names as those of the diff that follows, so that what is selected can stay so.
"""

from __future__ import annotations

from collections import Counter
from itertools import repeat

from ckpt_gui.core.bulk import build
from ckpt_gui.core.diff import Diff, Row, State
from ckpt_gui.core.tensors import Source

LISTED: State = "listed"


def list_tensors(source: Source) -> Diff:
    """Return a row for each stored tensor, in file order, compared with nothing."""
    refs = source.refs
    rows = build(
        Row, len(refs), state=repeat(LISTED), key=[ref.key for ref in refs], expected=repeat(""),
        shape=[ref.shape for ref in refs], expected_shape=repeat(None), dtype=[ref.dtype for ref in refs],
        nbytes=[ref.nbytes for ref in refs], ref=refs, note=repeat(""), blocks=repeat(""),
    )  # fmt: skip
    return Diff(tuple(rows), Counter({LISTED: len(rows)}))
