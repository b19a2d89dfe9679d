"""A language in which every text that was looked up stands in brackets, so that a text that was not is seen at once."""

from __future__ import annotations

import html
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PySide6.QtCore import QCoreApplication, QModelIndex, Qt, QTranslator
from PySide6.QtGui import QAction
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QComboBox,
    QGroupBox,
    QLabel,
    QLineEdit,
    QMenu,
    QPlainTextEdit,
    QTabBar,
    QWidget,
)

from ckpt_gui.gui import language

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import sentences  # noqa: E402

OPEN, CLOSED = "⟦", "⟧"
ROWS = 60  # rows of a view that are read


class Brackets(QTranslator):
    """Answers every question with the text in brackets."""

    def translate(self, _context: str, text: str, _comment: str | None = None, _count: int = -1) -> str:
        return f"{OPEN}{text}{CLOSED}" if text else ""

    def isEmpty(self) -> bool:
        return False


@contextmanager
def brackets(app: QCoreApplication) -> Iterator[None]:
    """Speak the language of brackets."""
    translator = Brackets(app)
    app.installTranslator(translator)
    language.speak(language.Templates(f.text for f in sentences.texts() if f.context == sentences.CONTEXT))
    try:
        yield
    finally:
        language.speak(None)
        app.removeTranslator(translator)
        translator.deleteLater()


def texts_of(top: QWidget) -> Iterator[tuple[str, str]]:
    """Yield what a person, or a program that reads aloud for one, finds in a widget: where, and the text."""
    for widget in (top, *top.findChildren(QWidget)):
        where = f"{type(widget).__name__} {widget.objectName()} in {type(widget.parent()).__name__}"
        for text in (widget.toolTip(), widget.accessibleName(), widget.accessibleDescription(), widget.statusTip()):
            yield where, text
        yield from ((where, text) for text in _own_texts(widget))
    for action in top.findChildren(QAction):
        yield "action", action.text()
        yield "action", action.toolTip()


def _own_texts(widget: QWidget) -> Iterator[str]:
    if widget.isWindow():
        yield widget.windowTitle()
    if isinstance(widget, QLabel | QAbstractButton):
        yield widget.text()
    if isinstance(widget, QGroupBox | QMenu):
        yield widget.title()
    if isinstance(widget, QLineEdit):
        yield widget.placeholderText()
    if isinstance(widget, QPlainTextEdit):
        yield widget.placeholderText()
    if isinstance(widget, QTabBar):
        for place in range(widget.count()):
            yield widget.tabText(place)
            yield widget.tabToolTip(place)
    if isinstance(widget, QComboBox):
        yield from (widget.itemText(i) for i in range(widget.count()))
    elif isinstance(widget, QAbstractItemView) and widget.model() is not None:
        yield from _cells(widget, QModelIndex(), 0)
        yield from _headers(widget)


def _cells(view: QAbstractItemView, parent: QModelIndex, depth: int) -> Iterator[str]:
    model = view.model()
    for row in range(min(ROWS, model.rowCount(parent))):
        for column in range(model.columnCount(parent)):
            index = model.index(row, column, parent)
            for role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.ToolTipRole, Qt.ItemDataRole.AccessibleTextRole):
                value = index.data(role)
                if isinstance(value, str):
                    yield value
            if column == 0 and depth < 3:
                yield from _cells(view, index, depth + 1)


def _headers(view: QAbstractItemView) -> Iterator[str]:
    model = view.model()
    for column in range(model.columnCount()):
        for role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.ToolTipRole):
            value = model.headerData(column, Qt.Orientation.Horizontal, role)
            if isinstance(value, str):
                yield value


_TAGS = re.compile(r"<style.*?</style>|<[^>]*>", re.DOTALL)
# What is no language: names of tensors, types and files, sizes with units, the names of formats.
_NAMES = re.compile(r"`[^`]*`|“[^”]*”|⟦[^⟦⟧]*⟧|[\w.]*[._\d][\w.]*|\b[KMGT]i?B\b|\bHugging Face\b|\bMeta\b")
_WORDS = re.compile(r"[A-Za-z]{2,}[,.;:]? [A-Za-z]{2,}|^[A-Z][a-z]{2,}$")


def english(text: str) -> str:
    """Return what is left in English of a text: words that were not looked up; empty if there are none."""
    text = html.unescape(_TAGS.sub(" ", text)).replace("\u200b", "")
    while _NAMES.search(text):
        text = _NAMES.sub("", text)
    return text.strip() if _WORDS.search(text) else ""
