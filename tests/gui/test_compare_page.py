"""The page that holds another checkpoint beside the open one: states, values, walking, ranks, and files let go."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtTest import QAbstractItemModelTester
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot
from safetensors.numpy import load_file, save_file

from ckpt_gui import normalise, open_checkpoint, write
from ckpt_gui.core.compare import STATES, Row, Stored
from ckpt_gui.core.source import Source
from ckpt_gui.gui.main_window import MainWindow
from ckpt_gui.gui.models import comparing
from ckpt_gui.gui.models.compare_model import CompareModel
from ckpt_gui.gui.models.compare_rows import COMPARE_STYLES, FIELDS, in_states, lines
from ckpt_gui.gui.panels.compare_page import ComparePage
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.overview_strip import OverviewStrip
from tests.gui.windows import window_on

SAMPLE = Path(__file__).parents[2] / "resources/sample/tiny-llama-compiled.pt"
TOUCHED = "model.layers.2.self_attn.q_proj.weight"
GONE = "model.layers.0.mlp.up_proj.weight"


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample in Hugging Face's layout and fp32, one matrix changed by a product of rank 3, one taken away."""
    out = tmp_path_factory.mktemp("tuned") / "model"
    with open_checkpoint(SAMPLE) as source:
        write(normalise(source), out, layout="hf", dtype="fp32")
    tensors = dict(load_file(out / "model.safetensors"))
    rng = np.random.default_rng(5)
    change = rng.normal(size=(96, 3)) @ rng.normal(size=(3, 48))
    tensors[TOUCHED] = (tensors[TOUCHED] + change).astype(np.float32)
    del tensors[GONE]
    save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})
    return out


@pytest.fixture
def window(qtbot: QtBot, qapp: QApplication) -> MainWindow:
    return window_on(qtbot, qapp, SAMPLE, "compare")


@pytest.fixture
def page(window: MainWindow) -> ComparePage:
    made = window.page_tabs.page("compare")
    assert isinstance(made, ComparePage)
    return made


def run(qtbot: QtBot, page: ComparePage, name: str, *, values: bool = False) -> None:
    page.head.other.setText(name)
    qtbot.mouseClick(page.head.values_button if values else page.head.names_button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: not page.job.running)


def test_a_file_in_another_layout_by_names(page: ComparePage, qtbot: QtBot, tuned: Path) -> None:
    assert not page.head.names_button.isEnabled()
    run(qtbot, page, str(tuned))
    assert page.compared is not None
    counts = page.compared.result.counts
    assert (counts["only-a"], counts["dtype"]) == (1, 28)
    assert page.message.text().startswith(
        "29 of 30 tensors differ in names, shapes or types; values were not compared."
    )
    first = page.model.lines[0]
    assert (first.state, first.a, first.b) == ("only-a", "_orig_mod.layers.0.feed_forward.w3.weight", "")
    assert not page.area.isVisible()


def test_values(page: ComparePage, qtbot: QtBot, tuned: Path) -> None:
    run(qtbot, page, str(tuned), values=True)
    assert page.compared is not None
    row = next(row for row in page.compared.result.rows if row.key == TOUCHED)
    assert row.state == "differs"
    line = next(line for line in page.model.lines if line.state == "differs")
    assert (line.a, line.b) == ("_orig_mod.layers.2.attention.wq.weight", TOUCHED)
    assert line.share == "100 %"
    index = page.model.index(page.model.lines.index(line), 2)
    assert page.model.data(index, Qt.ItemDataRole.ToolTipRole) == f"{TOUCHED}<br>Different in values."
    assert page.area.isVisible()
    bars = {row.bar.name: row.bar.size for row in page.changes.roles.rows if row.isVisible()}
    largest = max(bars, key=lambda name: bars[name])
    assert largest == "model.layers.N.self_attn.q_proj.weight"
    assert row.delta is not None
    assert bars[largest] == pytest.approx(row.delta.relative)


def test_the_rank_of_a_change(page: ComparePage, qtbot: QtBot, tuned: Path) -> None:
    run(qtbot, page, str(tuned), values=True)
    place = next(n for n, line in enumerate(page.model.lines) if line.state == "differs")
    page._select(place)
    qtbot.mouseClick(page.rank_button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: "has rank 3" in page.message.text())


def test_walking_and_filtering(window: MainWindow, page: ComparePage, qtbot: QtBot, tuned: Path) -> None:
    run(qtbot, page, str(tuned), values=True)
    places = [n for n, line in enumerate(page.model.lines) if line.state in ("only-a", "differs", "cast")]
    seen = []
    for _ in range(len(places) + 1):
        qtbot.mouseClick(page.next_button, Qt.MouseButton.LeftButton)
        seen.append(page.tree.currentIndex().row())
    assert seen == [*places, places[0]]  # round the end
    qtbot.mouseClick(page.previous_button, Qt.MouseButton.LeftButton)
    assert page.tree.currentIndex().row() == places[-1]
    before = [row.path for row in window.tree_panel.view.selected_rows()]
    window.actions_by_id["next"].trigger()  # F8 walks through what is seen, not through the tree behind it
    assert page.tree.currentIndex().row() == places[0]
    window.actions_by_id["previous"].trigger()
    assert page.tree.currentIndex().row() == places[-1]
    assert [row.path for row in window.tree_panel.view.selected_rows()] == before
    page.head.chips["differs"].click()
    assert [line.state for line in page.model.lines] == ["differs"]
    page.tree.activated.emit(page.model.index(0, 0))
    assert window.tree_panel.isVisible()
    chosen = [row.path for row in window.tree_panel.view.selected_rows()]
    assert chosen == ["_orig_mod.layers.2.attention.wq.weight"]


def test_a_published_model_and_what_is_none(page: ComparePage, qtbot: QtBot) -> None:
    run(qtbot, page, "Llama-3.2-1B")
    assert page.compared is not None
    assert page.compared.source is None
    assert page.compared.result.counts["shape"] > 0
    page._select(0)
    assert not page.rank_button.isEnabled()
    before = page.compared
    run(qtbot, page, "no such thing at all")
    assert "no such thing at all" in page.message.text()
    assert page.compared is before  # what was shown stands


def test_files_are_let_go(
    window: MainWindow, page: ComparePage, qtbot: QtBot, tuned: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[Source] = []
    close = Source.close
    monkeypatch.setattr(Source, "close", lambda source: (closed.append(source), close(source)))
    run(qtbot, page, str(tuned))
    assert page.compared is not None
    first = page.compared.source
    assert first is not None
    run(qtbot, page, str(tuned), values=True)
    assert page.compared.source is first  # the same files, read on
    window.session.close()
    assert page.compared is None
    assert any(source is first for source in closed)


def test_stopping_shows_what_was_compared_until_then(
    window: MainWindow, page: ComparePage, qtbot: QtBot, tuned: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    close, closed = Source.close, list[Source]()
    monkeypatch.setattr(Source, "close", lambda source: (closed.append(source), close(source)))
    begun, original = threading.Event(), comparing.compare

    def slow(*sides: Any, cancelled: Callable[[], bool], **more: Any) -> Any:
        begun.set()
        while not cancelled():
            threading.Event().wait(0.01)
        return original(*sides, cancelled=cancelled, **more)

    monkeypatch.setattr(comparing, "compare", slow)
    page.start(str(tuned), values=True)
    qtbot.waitUntil(begun.is_set)
    page.job._on_cancel()
    qtbot.waitUntil(lambda: page.compared is not None)
    assert page.compared is not None
    assert page.compared.result.stopped
    assert page.message.text().startswith("Stopped: ")
    assert any(line.state == "unread" for line in page.model.lines)
    source = page.compared.source
    begun.clear()
    page.start(str(tuned), values=True)
    qtbot.waitUntil(begun.is_set)
    window.session.close()
    qtbot.waitUntil(lambda: not window.jobs.running())
    assert page.compared is None
    assert any(each is source for each in closed)


def test_the_report_names_the_differences(page: ComparePage, qtbot: QtBot, tuned: Path, tmp_path: Path) -> None:
    run(qtbot, page, str(tuned), values=True)
    for ending in ("html", "md", "json", "sarif"):
        page.save_report(str(tmp_path / f"diff.{ending}"))
        qtbot.waitUntil(lambda ending=ending: page.message.text().endswith(f"diff.{ending}."))
    assert "<svg" in (tmp_path / "diff.html").read_text()
    assert "_orig_mod.layers.0.feed_forward.w3.weight" in (tmp_path / "diff.md").read_text()
    rows = json.loads((tmp_path / "diff.json").read_text())["rows"]
    assert next(row for row in rows if row["key"] == TOUCHED)["state"] == "differs"


def test_the_plan_makes_room_and_comes_back(window: MainWindow) -> None:
    plan = window.docks["plan"]
    assert plan.isHidden()
    window.page_tabs.show_page("tensors")
    assert not plan.isHidden()
    plan.hide()
    window.page_tabs.show_page("scan")
    window.page_tabs.show_page("tensors")
    assert plan.isHidden()


def test_every_state_has_a_look_and_the_model_keeps_qt_s_rules(qapp: QApplication) -> None:
    rows = [
        Row(f"layers.{n}.{state}", state, *(Stored(f"{side}.{n}.{state}", (2, 3), "bf16") for side in "ab"))
        for state in COMPARE_STYLES
        for n in range(3)
    ]  # fmt: skip
    model = CompareModel(Theme(qapp, "light"))
    QAbstractItemModelTester(model, QAbstractItemModelTester.FailureReportingMode.Fatal)
    model.show_lines(lines(rows))
    assert model.rowCount() == len(COMPARE_STYLES)
    fold = model.index(0, 0)
    assert model.rowCount(fold) == 3
    below = model.index(1, FIELDS.index("a"), fold)
    assert model.data(below) == f"a.1.{model.lines[0].state}"
    assert model.parent(below) == fold
    assert model.rowCount(below) == 0
    assert not model.parent(QModelIndex()).isValid()


def test_whatever_looks_at_every_row_does_so_in_the_job(
    page: ComparePage, qtbot: QtBot, tuned: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, bool]] = []
    for name in ("lines", "verdict", "by_layer", "by_role"):
        original = getattr(comparing, name)

        def watched(found: object, name: str = name, original: Callable[[object], object] = original) -> object:
            seen.append((name, threading.current_thread() is threading.main_thread()))
            return original(found)

        monkeypatch.setattr(comparing, name, watched)
    run(qtbot, page, str(tuned), values=True)
    once = [("by_layer", False), ("by_role", False), ("lines", False), ("verdict", False)]
    assert sorted(seen) == once
    page.head.chips["only-a"].click()
    assert {line.state for line in page.model.lines} == {"only-a"}
    assert sorted(seen) == once, "what is folded needs no second look"


def test_lines_of_a_state_are_those_of_its_rows() -> None:
    rows = [
        Row(f"layers.{n}.{part}", state, *(Stored(f"{side}.{n}.{part}", (2, 3), "bf16") for side in "ab"))
        for n in range(6)
        for part, state in (("q", "equal" if n % 2 else "differs"), ("k", "equal"), ("v", "cast"))
    ]  # fmt: skip
    found = lines(rows)
    assert [STATES.index(line.state) for line in found] == sorted(STATES.index(line.state) for line in found)
    assert in_states(found, ()) == found
    assert set(in_states(found, {"equal", "cast"})) == set(lines(r for r in rows if r.state in ("equal", "cast")))
    assert all(len(line.rows) > 1 for line in found)


def test_the_strip_marks_one_difference_among_very_many_lines(qapp: QApplication, qtbot: QtBot) -> None:
    strip = OverviewStrip(Theme(qapp, "light"))
    qtbot.addWidget(strip)
    strip.resize(10, 300)
    strip.show_marks([""] * 50_000 + ["red"] + [""] * 49_999)
    image = strip.grab().toImage()
    marked = [y for y in range(300) if image.pixelColor(5, y) != image.pixelColor(5, 0)]
    assert marked == [150, 151]
