"""What the judges of a scan share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ckpt_gui.core.errors import Finding, Severity
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.roles import NORMS
from ckpt_gui.core.scan.result import TensorScan
from ckpt_gui.core.text import plural

MOST = 5  # findings of one code that stand on their own; the rest is one more
FEWEST = 3  # tensors of a kind that can be compared


def each(
    code: str, severity: Severity, found: Sequence[tuple[TensorScan, str]], what: str, fix: str | None
) -> Iterator[Finding]:
    """Yield a finding for each of the first tensors, and one for all others."""
    for tensor, text in found[:MOST]:
        message = f"`{safe_text(tensor.ref.full_key)}` {text}."
        yield Finding(code, severity, message, (tensor.ref.full_key,), fix)
    rest = [tensor.ref.full_key for tensor, _ in found[MOST:]]
    if rest:
        one = len(rest) == 1
        message = f"{plural(len(rest), 'more tensor')} {what if one else what.replace('holds', 'hold', 1)}"
        yield Finding(code, severity, f"{message}, such as `{safe_text(rest[0])}`.", tuple(rest), fix)


def norm_weights(tensors: Iterable[TensorScan]) -> list[TensorScan]:
    """Return the weights of norms."""
    return [t for t in tensors if t.role.part == NORMS and len(t.ref.shape) == 1 and not t.key.endswith("bias")]


def constant_norms(tensors: Iterable[TensorScan]) -> list[TensorScan]:
    """Return the norms that are all one or all zero, if all of a model's are: no training leaves them so."""
    norms = norm_weights(tensors)
    same = [t for t in norms if t.stats.min == t.stats.max and t.stats.min in (0.0, 1.0)]
    return same if len(norms) >= FEWEST and len(same) == len(norms) else []
