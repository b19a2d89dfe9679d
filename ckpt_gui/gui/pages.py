"""The pages that an open checkpoint has in the middle of the window. A new page is one line here.

A page is a widget made from a session and a theme. It is made when it is first shown, takes `session.snapshot` as it is
then, and follows the session's signals from there on; what takes long it works out only while it is seen (see
`widgets.live_area`). It leads to tensors by `session.show_key` and `session.show_keys`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from PySide6.QtWidgets import QWidget

from ckpt_gui.dataclasses import dataclass
from ckpt_gui.gui.panels.tree_panel import TreePanel
from ckpt_gui.gui.session import Session
from ckpt_gui.gui.theme import Theme


@runtime_checkable
class HasParts(Protocol):
    """A page of which a part can be asked for by name."""

    def turn_to(self, name: str) -> bool:
        """Show a part; return False if there is none of that name."""


@runtime_checkable
class HasDifferences(Protocol):
    """A page with differences of its own, through which the commands of the window walk while it is shown."""

    def step(self, *, forward: bool) -> None:
        """Go to the next difference, or to the previous one."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page.

    Attributes:
        name: Stable name; `--view NAME` shows it, and `--view NAME/PART` a part of it.
        title: What its tab says; `&` marks the mnemonic.
        tip: What its tool tip says.
        make: Makes its widget.
    """

    name: str
    title: str
    tip: str
    make: Callable[[Session, Theme], QWidget]


# The window is painted before what only these need is imported.


def _overview(session: Session, theme: Theme) -> QWidget:
    from ckpt_gui.gui.panels.overview_page import OverviewPage

    return OverviewPage(session, theme)


def _values(session: Session, theme: Theme) -> QWidget:
    from ckpt_gui.gui.panels.values_page import ValuesPage

    return ValuesPage(session, theme)


def _plots(session: Session, theme: Theme) -> QWidget:
    from ckpt_gui.gui.panels.plots_page import PlotsPage

    return PlotsPage(session, theme)


def _scan(session: Session, theme: Theme) -> QWidget:
    from ckpt_gui.gui.panels.scan_page import ScanPage

    return ScanPage(session, theme)


def _compare(session: Session, theme: Theme) -> QWidget:
    from ckpt_gui.gui.panels.compare_page import ComparePage

    return ComparePage(session, theme)


PAGES: tuple[Page, ...] = (
    Page("tensors", "&Tensors", "Every tensor in the file beside what is expected", TreePanel),
    Page("overview", "&Overview", "What weighs what, and what it takes to load", _overview),
    Page("values", "V&alues", "The true values of any part of a tensor", _values),
    Page("plots", "&Plots", "Distribution, heat map, layers and casts of a tensor", _plots),
    Page("scan", "&Scan", "Read every weight, and see what looks wrong", _scan),
    Page("compare", "&Compare", "Another checkpoint beside this one", _compare),
)
