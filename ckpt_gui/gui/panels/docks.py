"""The docks around the tree: there while a checkpoint is open, and as the user left them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from PySide6.QtCore import QByteArray, QObject, Qt, QTimer, Signal
from PySide6.QtWidgets import QDockWidget, QMainWindow, QTabBar, QWidget

from ckpt_gui.gui.panels.parts import DockTitle
from ckpt_gui.gui.settings import LAYOUT_VERSION

_Area = Qt.DockWidgetArea
AREAS = {
    "checkpoint": _Area.LeftDockWidgetArea, "inspector": _Area.RightDockWidgetArea,
    "plan": _Area.BottomDockWidgetArea, "history": _Area.BottomDockWidgetArea,
    "jobs": _Area.BottomDockWidgetArea, "log": _Area.BottomDockWidgetArea,
}  # fmt: skip
LEAST_EMS = {"checkpoint": 15, "inspector": 18}  # widths: at 14 pt all fits into 1280 pixels
LEAST_EMS_BELOW = 15
ROOMY_EMS = 52, 30  # width and height of a window in which all docks have room beside the keys


class Docks(QObject):
    """Makes the docks, and remembers how they lie while they are hidden.

    Args:
        window: The window that they are in.
        contents: Name (see `AREAS`) → title and widget.

    Attributes:
        by_name: The docks.
        layout: How they lie, as far as it is remembered.
        shown: Whether they are there.

    Signals:
        appeared(): They are there now: a moment after they were asked for, as laying them out takes a while.
    """

    appeared = Signal()

    def __init__(self, window: QMainWindow, contents: Mapping[str, tuple[str, QWidget]]) -> None:
        super().__init__(window)
        self.layout = QByteArray()
        self.shown = self._roomy = self._room_wanted = False
        self._soon = QTimer(self, singleShot=True, interval=0)
        self._soon.timeout.connect(self._appear)
        self._kept: set[str] = set()  # docks below that were shown while there was room for them
        self.by_name = {name: self._make(name, *content) for name, content in contents.items()}
        self._below = [dock for name, dock in self.by_name.items() if AREAS[name] == _Area.BottomDockWidgetArea]
        self._stack()
        window.setCorner(Qt.Corner.BottomLeftCorner, _Area.LeftDockWidgetArea)
        window.setCorner(Qt.Corner.BottomRightCorner, _Area.RightDockWidgetArea)

    @property
    def _window(self) -> QMainWindow:
        """The window; not an attribute, so that Python frees a closed window at once."""
        return cast(QMainWindow, self.parent())

    def _make(self, name: str, title: str, widget: QWidget) -> QDockWidget:
        dock = QDockWidget(title, self._window)
        dock.setObjectName(name)
        dock.setWidget(widget)
        dock.setTitleBarWidget(DockTitle(dock))
        features = QDockWidget.DockWidgetFeature
        dock.setFeatures(features.DockWidgetMovable | features.DockWidgetClosable)
        widget.setMinimumWidth(LEAST_EMS.get(name, LEAST_EMS_BELOW) * self._window.fontMetrics().height())
        self._window.addDockWidget(AREAS[name], dock)
        dock.hide()
        return dock

    def show(self, shown: bool) -> None:
        """Show the docks as they were left, as soon as what is shown already is painted; or hide them all at once."""
        if shown and not self.shown:
            self._soon.start()
        elif not shown:
            self._soon.stop()
            self._vanish()

    def _vanish(self) -> None:
        if self.shown:
            self._give_room(False)
            self.layout = self._window.saveState(LAYOUT_VERSION)
        self.shown = False
        for dock in self.by_name.values():
            dock.hide()
            dock.toggleViewAction().setEnabled(False)

    def _appear(self) -> None:
        self.shown = True
        wide, high = self._has_room()
        if self.layout.isEmpty():  # before they are there: the window would grow for them
            for name in [*(() if wide else ("inspector",)), *(() if high else ("plan",))]:
                self._window.tabifyDockWidget(self.by_name["checkpoint"], self.by_name[name])
        for dock in self.by_name.values():
            dock.show()
            dock.toggleViewAction().setEnabled(True)
        if self.layout.isEmpty() or not self._window.restoreState(self.layout, LAYOUT_VERSION):
            self._below[0].raise_()
            self.by_name["checkpoint"].raise_()
            for dock in () if high else self._below[1:]:
                dock.hide()
            self._size(high)
        self._name_tabs()
        self._give_room(self._room_wanted)
        self.appeared.emit()

    def _has_room(self) -> tuple[bool, bool]:
        """Tell whether the window is wide enough for docks on both sides, and high enough for those below."""
        window, em = self._window, self._window.fontMetrics().height()
        return window.width() >= ROOMY_EMS[0] * em, window.height() >= ROOMY_EMS[1] * em

    def _name_tabs(self) -> None:
        """Give the tabs of docks that lie on top of each other a name: Qt makes them once they are shown."""
        for bar in self._window.findChildren(QTabBar, options=Qt.FindChildOption.FindDirectChildrenOnly):
            bar.setAccessibleName(self.tr("Docks"))

    def _stack(self) -> None:
        """Put the docks below on top of each other, with tabs; the first is seen."""
        for dock in self._below[1:]:
            self._window.tabifyDockWidget(self._below[0], dock)
        self._below[0].raise_()

    def make_room(self, wanted: bool) -> None:
        """Hide the docks below while a page needs the height, and show them again as they were left."""
        self._room_wanted = wanted
        if self.shown:
            self._give_room(wanted)

    def _give_room(self, wanted: bool) -> None:
        if wanted and not self._roomy:
            self._kept = {dock.objectName() for dock in self._below if not dock.isHidden()}
        if wanted != self._roomy:
            for dock in self._below:
                dock.setVisible(not wanted and (dock.objectName() in self._kept or not dock.isHidden()))
        self._roomy = wanted

    def _size(self, high: bool) -> None:
        """Give the docks their share of a window that has not been arranged yet."""
        window, em = self._window, self._window.fontMetrics().height()
        sides = [self.by_name["checkpoint"], self.by_name["inspector"]]
        widths = [min(19 * em, window.width() * 20 // 100), min(24 * em, window.width() * 24 // 100)]
        window.resizeDocks(sides, widths, Qt.Orientation.Horizontal)
        if high:  # else the plan lies with those at the side
            height = min(19 * em, window.height() * 35 // 100)
            window.resizeDocks([self.by_name["plan"]], [height], Qt.Orientation.Vertical)
