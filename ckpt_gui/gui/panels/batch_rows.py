"""The rows of a queue of checkpoints as values: what each shows, and what may be done with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from ckpt_gui.core.batch import Verdict
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.text import human_bytes as plain_bytes
from ckpt_gui.dataclasses import dataclass
from ckpt_gui.gui.language import said
from ckpt_gui.gui.looks import BATCH_STYLES
from ckpt_gui.gui.widgets.units import quoted
from ckpt_gui.gui.wording import count_text, human_bytes

BUSY = frozenset({"writing", "queued", "looking", "waiting"})
UNREAD = frozenset({"looking", "waiting"})
FIXABLE = frozenset({"certain", "failed", "stopped"})  # a failed one may be tried again


@dataclass(frozen=True, slots=True)
class BatchRow:
    """A checkpoint of the queue.

    Attributes:
        path: As it was named.
        name: Its last part, with what tells it from others in the queue.
        state: A key of `looks.BATCH_STYLES`.
        verdict: What is known of it; None until it was looked at.
        folder: Where its export goes.
        sentence: Why it is in this state, or what came of it.
        label: What is being done.
        done: Bytes done of `total`.
        total: Bytes in all; 0 while nobody knows.
    """

    path: str
    name: str
    state: str = "waiting"
    verdict: Verdict | None = None
    folder: str = ""
    sentence: str = ""
    label: str = ""
    done: int = 0
    total: int = 0

    @property
    def percent(self) -> int:
        """How far it is."""
        return min(100, self.done * 100 // self.total) if self.total > 0 else 0

    @property
    def fixable(self) -> bool:
        """True if it can be written without a question."""
        return self.state in FIXABLE and self.verdict is not None and self.verdict.state == "certain"

    def texts(self, size: Callable[[int], str] = human_bytes) -> tuple[str, ...]:
        """Return what the columns show, see `columns`; sizes as the locale writes them, unless told otherwise."""
        style, verdict = BATCH_STYLES[self.state], self.verdict
        known = verdict is not None and bool(verdict.kind)
        return (
            f"{style.glyph}  {said(style.word)}",
            safe_text(self.name, 120),
            quoted(verdict.kind) if verdict is not None and known else "",
            size(verdict.nbytes) if verdict is not None and known else "",
            self.news(),
            safe_text(self.folder, 400) if self.state not in ("clean", "decision", "error") else "",
        )

    def news(self) -> str:
        """Return why it is in its state, or how far it is."""
        if self.state in ("writing", "looking") and self.total > 0:
            parts = {"percent": self.percent, "done": human_bytes(self.done), "total": human_bytes(self.total)}
            return said("{label}: {percent} % · {done} of {total}").format(label=safe_text(self.label, 60), **parts)
        return quoted(self.sentence.replace(self.path, self.name))

    def details(self) -> str:
        """Return all that is known in full sentences."""
        verdict = self.verdict
        steps = "; ".join(quoted(step) for step in verdict.steps) if verdict is not None else ""
        what = said("What would be done: {steps}.").format(steps=steps) if steps and self.state != "written" else ""
        return " ".join(filter(None, (self.news(), what)))


def columns() -> tuple[tuple[str, str], ...]:
    """Return the headings and what they mean."""
    return (
        (said("State"), said("Whether it can be written without a question")),
        (said("Name"), said("The file or folder")),
        (said("What it is"), said("Family and layout")),
        (said("Size"), said("Bytes of its tensors")),
        (said("Why"), said("What is the matter, how far it is, and what came of it")),
        (said("Written to"), said("A new folder for each; nothing that exists is replaced")),
    )


def summary(rows: Iterable[BatchRow]) -> str:
    """Say how many checkpoints are in which state."""
    counts = Counter(row.state for row in rows)
    parts = [
        f"{said(style.word)}: {count_text(counts[state])}" for state, style in BATCH_STYLES.items() if counts[state]
    ]
    return " · ".join(parts)


def as_table(rows: Iterable[BatchRow]) -> str:
    """Return rows as tab-separated text with a heading, as spreadsheets take it: sizes in the C locale."""
    lines = [tuple(heading for heading, _ in columns()), *(row.texts(plain_bytes) for row in rows)]
    return "\n".join("\t".join(cell.replace("\t", " ") for cell in line) for line in lines) + "\n"
