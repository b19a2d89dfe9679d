"""What can go wrong with a checkpoint, said to a person.

A `CheckpointError` is raised when a file cannot be read at all, or a wanted step cannot be done. What the user
should merely know is not an exception but a `Finding` in the plan. Both carry a stable code (the table of codes is
in the README) and a sentence that says what, where, and what to do.
"""

from __future__ import annotations

from typing import Any, Literal

from ckpt_gui import dataclasses
from ckpt_gui.dataclasses import dataclass

Severity = Literal["info", "warning", "error"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")
# What can be done where the place that found the fault knows nothing better.
ADVICE = {
    "damaged": "Download or copy it again; if it is the same then, ask those who wrote it.",
    "truncated": "Download or copy it again.",
    "ambiguous-archive": "Do not load it; get it from elsewhere, or save it again with torch.save.",
    "limit-exceeded": "Do not load it: no usual checkpoint asks for so much. Get it from elsewhere.",
}


class CheckpointError(Exception):
    """A checkpoint that cannot be read, or a step that is refused.

    Args:
        code: One of the finding codes, such as `truncated`.
        message: One sentence for a person: what is wrong, where, and how many bytes.
        fix: What the user can do about it; by default what `ADVICE` has for the code.
        path: The file concerned.
        key: The tensor concerned.
        offset: The byte in the file at which reading stopped.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        fix: str | None = None,
        path: str | None = None,
        key: str | None = None,
        offset: int | None = None,
    ) -> None:
        """Keep the parts; the exception's text is the message alone."""
        super().__init__(message)
        self.code = code
        self.message = message
        self.fix = ADVICE.get(code) if fix is None else fix
        self.path = path
        self.key = key
        self.offset = offset

    def __reduce__(self) -> tuple[Any, ...]:
        """Keep every part on the way from another process."""
        return _remade, (type(self), self.message, vars(self))

    def as_finding(self) -> Finding:
        """Return the same fact as a finding of severity `error`."""
        return Finding(self.code, "error", self.message, keys=(self.key,) if self.key else (), fix=self.fix)


def _remade(kind: type[CheckpointError], message: str, parts: dict[str, Any]) -> CheckpointError:
    """Make an error of its parts, as it was."""
    error = kind.__new__(kind, message)
    vars(error).update(parts)
    return error


class Cancelled(Exception):
    """Raised inside a long job when its user has asked it to stop."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something the user should know about a checkpoint.

    Attributes:
        code: Stable name, such as `tied-conflict`.
        severity: `info`, `warning` or `error`.
        message: One sentence for a person.
        keys: The tensors concerned, as they are called in the file (all of them; reports show the first 20).
        fix: What `fix` does about it, or what the user can do; None where there is nothing to do.
        blocking: True if no whole export can be made until the user has settled it.
    """

    code: str
    severity: Severity
    message: str
    keys: tuple[str, ...] = ()
    fix: str | None = None
    blocking: bool = False

    def replace(self, **changes: object) -> Finding:
        """Return a copy with some fields changed."""
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]


def worst_first(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Sort findings by severity, blocking ones first, else in the order given."""
    return tuple(sorted(findings, key=lambda f: (SEVERITIES.index(f.severity), not f.blocking)))
