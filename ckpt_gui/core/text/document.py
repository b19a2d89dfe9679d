"""What a report is made of: paragraphs, lists, findings and pairs of names, as values without a look."""

from __future__ import annotations

from typing import Literal

from ckpt_gui.core.errors import Finding
from ckpt_gui.dataclasses import dataclass

Style = Literal["", "title", "heading", "error", "warning", "info", "fix", "quiet", "good"]


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph, or an item of a list.

    Attributes:
        text: What is said.
        style: How it looks where there are colours.
        bullet: True for an item of a list.
    """

    text: str
    style: Style = ""
    bullet: bool = False


@dataclass(frozen=True, slots=True)
class Pair:
    """One or many tensors of a kind: what they are called, and what they will be called.

    Attributes:
        before: Name, or template of names.
        after: The new one; empty for a tensor that is left out.
        note: What else happens to it, or why it is left out.
        count: How many there are.
        example: The first of many, before and after.
    """

    before: str
    after: str = ""
    note: str = ""
    count: int = 1
    example: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Branch:
    """A part of a tree of names.

    Attributes:
        label: The segments of the name that stand here.
        note: What is said of it.
        style: How the note looks.
        children: What lies below, in order.
        members: The tensors that a line stands for, as name and note; shown where lines can be unfolded.
    """

    label: str
    note: str = ""
    style: Style = ""
    children: tuple[Branch, ...] = ()
    members: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Table:
    """Figures side by side.

    Attributes:
        columns: Headings; the first column holds names.
        rows: Cells, as many a row as there are headings.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Figure:
    """A picture of our own making; shown where pictures can be.

    Attributes:
        svg: An `<svg>` element, without anything from elsewhere.
        caption: What it shows.
    """

    svg: str
    caption: str


Item = Text | Finding | Pair | Branch | Table | Figure


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and what stands under it; without a heading, the opening.

    Attributes:
        heading: A few words.
        items: Paragraphs, findings and pairs in order.
    """

    heading: str
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """A report.

    Attributes:
        title: What it is about.
        sections: Its parts.
        verdict: One sentence at the end.
        verdict_style: How it looks.
        command: What to run next; empty if nothing.
    """

    title: str
    sections: tuple[Section, ...]
    verdict: str
    verdict_style: Style = ""
    command: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a terminal, already wrapped.

    Attributes:
        text: The line.
        style: Its look.
    """

    text: str
    style: Style = ""
