"""The middle of the window while a checkpoint is open: its pages, each made when it is first shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QTabWidget, QWidget

from ckpt_gui.gui.language import said
from ckpt_gui.gui.widgets.made_later import MadeLater


class PageTabs(QTabWidget):
    """One tab a page; no tabs where there is one page only."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._places: dict[str, MadeLater] = {}
        self.setDocumentMode(True)
        self.setTabBarAutoHide(True)
        self.setAccessibleName(self.tr("Pages"))
        self.tabBar().setAccessibleName(self.tr("Pages of the checkpoint"))

    def add(self, name: str, title: str, tip: str, make: Callable[[], QWidget]) -> None:
        """Add a page, which is made later."""
        self._places[name] = place = MadeLater(make)
        title, tip = said(title), said(tip)
        place.setAccessibleName(title.replace("&", ""))
        self.setTabToolTip(self.addTab(place, title), tip)

    @property
    def names(self) -> Sequence[str]:
        """The names of the pages, from left to right."""
        return tuple(self._places)

    @property
    def current_name(self) -> str:
        """The name of the page that is shown."""
        return next((name for name, place in self._places.items() if place is self.currentWidget()), "")

    def page(self, name: str) -> QWidget:
        """Return the widget of a page, and make it if nobody has seen it yet."""
        return self._places[name].made()

    def menu_actions(self) -> list[QAction]:
        """Return an action that turns to each page; none where there is one page only."""
        made = []
        for number, name in enumerate(self._places if self.count() > 1 else (), 1):
            action = QAction(self.tabText(number - 1), self)
            action.setShortcut(QKeySequence(f"Alt+{number}"))
            action.triggered.connect(lambda _=False, name=name: self.show_page(name))
            made.append(action)
        return made

    def show_page(self, name: str) -> None:
        """Turn to a page."""
        self.setCurrentWidget(self._places[name])
