"""Colours can be told apart from their grounds, and states from each other without colour."""

from __future__ import annotations

import sys

import pytest
from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QColor, QPalette
from PySide6.QtWidgets import QApplication

from ckpt_gui.core.diff import STATES
from ckpt_gui.core.errors import SEVERITIES
from ckpt_gui.gui.looks import SCHEME_COLOURS, SEVERITY_STYLES, STATE_STYLES
from ckpt_gui.gui.theme import Theme, contrast

GROUNDS = ("window", "surface", "raised", "selection", "hover", "zebra")
TEXTS = ("text", "muted", *sorted({s.colour for s in STATE_STYLES.values()} | {s[2] for s in SEVERITY_STYLES.values()}))


@pytest.mark.parametrize("scheme", sorted(SCHEME_COLOURS))
@pytest.mark.parametrize("ground", GROUNDS)
def test_every_text_can_be_read_on_every_ground(scheme: str, ground: str) -> None:
    colours = SCHEME_COLOURS[scheme]
    low = {t: contrast(QColor(colours[t]), QColor(colours[ground])) for t in TEXTS}
    assert {t: round(c, 2) for t, c in low.items() if c < 4.5} == {}


@pytest.mark.parametrize("scheme", sorted(SCHEME_COLOURS))
def test_special_pairs_can_be_read(scheme: str) -> None:
    colours = {role: QColor(value) for role, value in SCHEME_COLOURS[scheme].items()}
    assert contrast(colours["on_accent"], colours["accent"]) >= 4.5
    assert contrast(colours["on_accent"], colours["accent_hover"]) >= 4.5
    assert contrast(colours["red"], colours["error_ground"]) >= 4.5
    for ground in ("window", "surface"):
        assert contrast(colours["focus"], colours[ground]) >= 3, "the focus ring is seen"
        assert contrast(colours["strong_border"], colours[ground]) >= 3


@pytest.mark.parametrize("scheme", sorted(SCHEME_COLOURS))
def test_a_checked_chip_can_be_read(scheme: str, qapp: QApplication) -> None:
    theme = Theme(qapp, scheme)
    for state in STATES:
        assert contrast(theme.color(f"state.{state}"), theme.tint(f"state.{state}", 0.16)) >= 4.5, state


def test_both_schemes_have_the_same_roles() -> None:
    assert SCHEME_COLOURS["light"].keys() == SCHEME_COLOURS["dark"].keys()


def test_every_state_and_severity_has_a_glyph_and_a_word_of_its_own() -> None:
    assert set(STATE_STYLES) == set(STATES)
    assert set(SEVERITIES) < set(SEVERITY_STYLES)
    assert len({s.glyph for s in STATE_STYLES.values()}) == len(STATE_STYLES)
    assert len({s.word for s in STATE_STYLES.values()}) == len(STATE_STYLES)
    assert len({s[0] for s in SEVERITY_STYLES.values()}) == len(SEVERITY_STYLES)


def test_dark_is_dark_even_where_the_platform_ignores_the_wish(qapp: QApplication) -> None:
    theme = Theme(qapp, "dark")
    assert theme.dark
    palette = qapp.palette()
    assert palette.color(QPalette.ColorRole.Window).lightness() < 60
    assert contrast(palette.color(QPalette.ColorRole.WindowText), palette.color(QPalette.ColorRole.Window)) > 7
    said = []
    theme.changed.connect(lambda: said.append(theme.dark))
    theme.set_scheme("light")
    theme.set_scheme("light")
    theme.set_scheme("nonsense")
    assert said == [False]
    assert qapp.palette().color(QPalette.ColorRole.Window).lightness() > 200


def test_no_colour_name_is_left_in_the_style_sheet(qapp: QApplication) -> None:
    Theme(qapp, "dark")
    assert "@" not in qapp.styleSheet()
    assert "%" not in qapp.styleSheet()


class _Sender(QObject):
    flag = Signal(bool)
    thing = Signal(object)


def test_emitting_does_not_eat_references(qapp: QApplication) -> None:
    """PySide6 6.12.0 on CPython 3.11 drops a reference to True at each emit, and soon ends the process."""
    sender = _Sender()
    sender.flag.connect(lambda _: None)
    sender.thing.connect(lambda _: None)
    before = sys.getrefcount(True), sys.getrefcount(None)
    for _ in range(1000):
        sender.flag.emit(True)
        sender.thing.emit(None)
    after = sys.getrefcount(True), sys.getrefcount(None)
    assert all(abs(b - a) < 100 for a, b in zip(before, after, strict=True))
