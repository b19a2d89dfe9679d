"""Many checkpoints at once: a verdict on each, all that are certain written in one go, stopped, failed, told before."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QLocale, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QAbstractItemModelTester
from PySide6.QtWidgets import QAbstractButton, QApplication, QComboBox
from pytestqt.qtbot import QtBot

from ckpt_gui.core import batch as core_batch
from ckpt_gui.core.errors import Cancelled
from ckpt_gui.core.export import Target
from ckpt_gui.core.plan_file import plan_text
from ckpt_gui.core.policy import Policy
from ckpt_gui.dataclasses import replace
from ckpt_gui.gui import batch_queue
from ckpt_gui.gui.batch_window import BatchWindow
from ckpt_gui.gui.panels.batch_rows import as_table
from ckpt_gui.gui.settings import Settings
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.windows import Windows
from tests.gui import pseudo

SAMPLE = Path(__file__).resolve().parents[2] / "resources" / "sample"


@pytest.fixture
def window(qtbot: QtBot, qapp: QApplication) -> BatchWindow:
    made = BatchWindow(Settings(), Theme(qapp, "light"))
    made.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose, False)
    made.ask_to_close = lambda _window, _lines: True
    qtbot.addWidget(made)
    made.show()
    return made


def runs(folder: Path, *names: str) -> list[str]:
    """Return copies of the sample, as a training run leaves them."""
    folder.mkdir(exist_ok=True)
    shutil.copy(SAMPLE / "params.json", folder)
    return [str(shutil.copy(SAMPLE / "tiny-llama-compiled.pt", folder / name)) for name in names]


def cleaned(folder: Path) -> Path:
    """Return a checkpoint that is as it should be."""
    core_batch.write_certain(str(SAMPLE / "tiny-llama-compiled.pt"), Target("hf"), str(folder))
    return folder


def looked(window: BatchWindow, qtbot: QtBot, paths: list[str]) -> None:
    window.queue.add(paths)
    qtbot.waitUntil(lambda: not window.queue.busy)
    qtbot.waitUntil(lambda: not window._soon.isActive())


def states(window: BatchWindow) -> list[str]:
    return [row.state for row in window.queue.rows]


def test_checkpoints_of_one_name_are_told_apart_by_their_folders(
    window: BatchWindow, qtbot: QtBot, tmp_path: Path
) -> None:
    paths = [*runs(tmp_path / "first", "last.pt"), *runs(tmp_path / "second", "last.pt", "other.pt")]
    looked(window, qtbot, paths)
    model = window.table.rows_model
    assert [model.index(row, 1).data() for row in range(3)] == ["first/last.pt", "second/last.pt", "other.pt"]
    window.queue.remove([paths[0]])
    qtbot.waitUntil(lambda: model.rowCount() == 2)
    assert [model.index(row, 1).data() for row in range(2)] == ["last.pt", "other.pt"]


def test_a_verdict_each_and_all_that_are_certain_written(window: BatchWindow, qtbot: QtBot, tmp_path: Path) -> None:
    paths = runs(tmp_path / "in", "one.pt", "two.pt")
    text = tmp_path / "in" / "notes.pt"
    text.write_text("no checkpoint")
    clean = cleaned(tmp_path / "in" / "clean")
    looked(window, qtbot, [*paths, str(text), str(clean)])
    assert states(window) == ["certain", "certain", "error", "clean"]
    assert window.summary.text() == "certain fix: 2 · clean: 1 · unreadable: 1"
    assert window.fix_button.text() == "Fix 2 that are certain"
    cells = [window.table.rows_model.index(0, column).data() for column in range(6)]
    assert cells[:4] == ["⟲  certain fix", "one.pt", "Llama, Meta layout", "800 KiB"]
    assert cells[4].endswith("6 steps, nothing to decide.")
    assert cells[5] == str(tmp_path / "in" / "one-hf"), "told before the click"

    out = tmp_path / "out"
    out.mkdir()
    window.queue.set_parent(str(out))
    (out / "one-hf").mkdir()
    (out / "one-hf" / "mine.txt").write_text("keep")
    window.queue.set_parent(str(out))
    qtbot.mouseClick(window.fix_button, Qt.MouseButton.LeftButton)
    assert not window.target.layout_box.isEnabled(), "the target stays while something is written"
    qtbot.waitUntil(lambda: not window.queue.busy)
    assert states(window) == ["written", "written", "error", "clean"]
    assert sorted(path.name for path in out.iterdir()) == ["one-hf", "one-hf-2", "two-hf"]
    assert [path.name for path in (out / "one-hf").iterdir()] == ["mine.txt"], "nothing that is there is replaced"
    assert window.queue.rows[0].sentence.startswith("Written and verified: 29 tensors, ")
    for folder in (out / "one-hf-2", out / "two-hf"):
        assert core_batch.judge(str(folder), window.queue.target).state == "clean"
    qtbot.waitUntil(lambda: window.summary.text() == "written: 2 · clean: 1 · unreadable: 1")
    assert str(out / "two-hf") in window.settings.targets(), "what a killed program leaves there is found"


def test_another_target_is_judged_anew(window: BatchWindow, qtbot: QtBot, tmp_path: Path) -> None:
    clean = cleaned(tmp_path / "clean")
    looked(window, qtbot, [str(clean)])
    assert states(window) == ["clean"]
    box = window.target.layout_box
    box.setCurrentIndex(box.findData("meta"))
    box.activated.emit(box.currentIndex())
    qtbot.waitUntil(lambda: states(window) == ["certain"])
    assert window.queue.rows[0].folder == str(tmp_path / "clean-meta")
    box.setCurrentIndex(box.findData("hf"))
    box.activated.emit(box.currentIndex())
    qtbot.waitUntil(lambda: states(window) == ["clean"])


def test_what_needs_a_decision_is_left_alone(window: BatchWindow, qtbot: QtBot, tmp_path: Path) -> None:
    (path,) = runs(tmp_path / "in", "one.pt")
    (tmp_path / "in" / "params.json").unlink()
    looked(window, qtbot, [path])
    row = window.queue.rows[0]
    assert row.state == "decision"
    assert "head" in row.sentence
    assert not window.fix_button.isEnabled()
    window.queue.fix([path])
    assert not window.queue.busy


def test_stopping_leaves_nothing_and_it_may_be_tried_again(
    window: BatchWindow, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = runs(tmp_path / "in", *(f"{n}.pt" for n in range(4)))
    looked(window, qtbot, paths)
    whole = batch_queue.write_certain

    def slow(*args: Any, cancelled: Callable[[], bool], progress: Callable[[str, int, int], None], **more: Any) -> Any:
        progress("writing", 3, 10)
        while not cancelled():
            time.sleep(0.01)
        raise Cancelled

    monkeypatch.setattr(batch_queue, "write_certain", slow)
    window.fix_all()
    qtbot.waitUntil(lambda: sum("30 %" in row.news() for row in window.queue.rows) == 2)
    assert states(window).count("queued") == 2, "two at a time; the others say that they wait"
    window.grab()  # with a bar in it
    qtbot.mouseClick(window.stop_button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: states(window) == ["stopped"] * 4)
    assert window.queue.rows[0].sentence == "Stopped. Nothing was kept at the target."
    assert sorted(path.name for path in (tmp_path / "in").iterdir()) == [*(f"{n}.pt" for n in range(4)), "params.json"]
    monkeypatch.setattr(batch_queue, "write_certain", whole)
    window.fix_all()
    qtbot.waitUntil(lambda: states(window) == ["written"] * 4)


def test_one_that_fails_says_why_and_the_others_go_on(window: BatchWindow, qtbot: QtBot, tmp_path: Path) -> None:
    paths = runs(tmp_path / "in", "good.pt", "gone.pt")
    looked(window, qtbot, paths)
    Path(paths[1]).unlink()
    window.fix_all()
    qtbot.waitUntil(lambda: not window.queue.busy)
    assert states(window) == ["written", "failed"]
    assert "there is no such file" in window.queue.rows[1].sentence
    qtbot.waitUntil(lambda: window.fix_button.text() == "Fix the one that is certain")  # it may be tried again


def test_closing_while_writing_asks_by_name_and_how_far(
    window: BatchWindow, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked(window, qtbot, runs(tmp_path / "in", "one.pt"))

    def slow(*_: Any, cancelled: Callable[[], bool], progress: Callable[[str, int, int], None], **__: Any) -> Any:
        progress("writing", 42, 100)
        while not cancelled():
            time.sleep(0.01)
        raise Cancelled

    monkeypatch.setattr(batch_queue, "write_certain", slow)
    window.fix_all()
    qtbot.waitUntil(lambda: window.queue.rows[0].percent == 42)
    asked: list[list[str]] = []
    window.ask_to_close = lambda _window, lines: bool(asked.append(list(lines)))
    assert not window.close()
    assert len(asked) == len(asked[0]) == 1
    assert asked[0][0].startswith("Exporting to ")
    assert asked[0][0].endswith(", 42 %")
    window.ask_to_close = lambda _window, _lines: True
    assert window.close()
    assert not window.jobs.running()


def test_rows_can_be_opened_removed_and_copied(window: BatchWindow, qtbot: QtBot, tmp_path: Path) -> None:
    paths = runs(tmp_path / "in", "one.pt", "two.pt")
    looked(window, qtbot, paths)
    QAbstractItemModelTester(window.table.rows_model, QAbstractItemModelTester.FailureReportingMode.Fatal, window)
    window.table.setCurrentIndex(window.table.rows_model.index(1, 0))
    assert "What would be done: Take the weights out of “model”" in window.details.text()
    with qtbot.waitSignal(window.open_wanted) as opened:
        qtbot.mouseClick(window.open_button, Qt.MouseButton.LeftButton)
    assert opened.args == [paths[1]]
    qtbot.keyClick(window.table, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    lines = QGuiApplication.clipboard().text().splitlines()
    assert lines[0].split("\t") == ["State", "Name", "What it is", "Size", "Why", "Written to"]
    assert lines[1].split("\t")[1] == "two.pt"
    qtbot.keyClick(window.table, Qt.Key.Key_Delete)
    assert [row.path for row in window.queue.rows] == [paths[0]]
    assert Path(paths[1]).exists(), "only off the list"


def test_shards_of_one_model_are_one_row(window: BatchWindow, qtbot: QtBot, tmp_path: Path) -> None:
    shards = [str(tmp_path / f"model-0000{n}-of-00002.safetensors") for n in (1, 2)]
    window.queue.add([*shards, *shards])
    assert [row.path for row in window.queue.rows] == [str(tmp_path)]
    window.queue.stop()
    qtbot.waitUntil(lambda: not window.queue.busy)


def test_a_folder_of_runs_gives_way_to_the_checkpoints_in_it(window: BatchWindow, qtbot: QtBot, tmp_path: Path) -> None:
    one, two = (cleaned(tmp_path / "runs" / name) for name in ("checkpoint-9", "checkpoint-10"))
    (tmp_path / "runs" / "logs").mkdir()
    (tmp_path / "empty").mkdir()
    looked(window, qtbot, [str(tmp_path / "empty"), str(tmp_path / "runs"), str(two)])
    qtbot.waitUntil(lambda: states(window) == ["error", "clean", "clean"])
    assert [row.path for row in window.queue.rows] == [str(tmp_path / "empty"), str(one), str(two)]
    assert window.table.rows_model.rowCount() == 3


def test_sizes_are_as_the_locale_writes_them_and_plain_in_copies(
    window: BatchWindow, qtbot: QtBot, tmp_path: Path
) -> None:
    looked(window, qtbot, [str(cleaned(tmp_path / "clean"))])
    before = QLocale()
    QLocale.setDefault(QLocale(QLocale.Language.German))
    try:
        (row,) = window.queue.rows
        row = replace(row, verdict=replace(row.verdict, nbytes=1_500_000))
        assert row.texts()[3] == "1,43 MiB"
        assert as_table([row]).splitlines()[1].split("\t")[3] == "1.43 MiB"
    finally:
        QLocale.setDefault(before)


@pytest.fixture
def windows(qapp: QApplication) -> Iterator[Windows]:
    made = Windows(Settings(), Theme(qapp, "light"))
    yield made
    made.close_all()


def test_a_row_opens_in_a_window_of_its_own(windows: Windows, qtbot: QtBot, tmp_path: Path) -> None:
    paths = runs(tmp_path / "in", "one.pt", "two.pt")
    first = windows.add()
    first.batch_wanted.emit(paths)
    batch = windows.batch
    assert batch is not None
    first.batch_wanted.emit(paths)
    assert windows.batch is batch, "one queue for all"
    batch.table.open_wanted.emit(paths[1])
    assert len(windows.open) == 2
    qtbot.waitUntil(lambda: windows.open[1].session.snapshot is not None)
    assert windows.open[1].session.path == paths[1]
    qtbot.waitUntil(lambda: not batch.queue.busy)


def test_the_decisions_of_a_plan_hold_for_all(window: BatchWindow, qtbot: QtBot, tmp_path: Path) -> None:
    paths = runs(tmp_path / "in", "one.pt", "two.pt")
    (tmp_path / "in" / "params.json").unlink()
    looked(window, qtbot, paths)
    assert states(window) == ["decision"] * 2, "the head counts are not known"
    plan = tmp_path / "plan.json"
    plan.write_text(plan_text(Policy(heads=6, kv_heads=2), Target("torchtune")))
    window.target.plan_wanted.emit(str(plan))
    qtbot.waitUntil(lambda: states(window) == ["certain"] * 2)
    assert window.target.layout_box.currentData() == "torchtune"
    assert [Path(row.folder).name for row in window.queue.rows] == ["one-torchtune", "two-torchtune"]
    window.fix_all()
    qtbot.waitUntil(lambda: states(window) == ["written"] * 2)
    plan.write_text("{}")
    with qtbot.waitSignal(window.queue.plan_refused) as refused:
        window.queue.take_plan(str(plan))
    assert "plan" in refused.args[0]
    window.queue.take_plan("")
    assert window.queue.policy == Policy()


def test_every_text_is_looked_up(qtbot: QtBot, qapp: QApplication, tmp_path: Path) -> None:
    with pseudo.brackets(qapp):
        window = BatchWindow(Settings(), Theme(qapp, "light"))
        window.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose, False)
        qtbot.addWidget(window)
        window.show()
        (tmp_path / "bad.pt").write_text("no checkpoint")
        looked(window, qtbot, [*runs(tmp_path / "in", "one.pt"), str(tmp_path / "bad.pt")])
        window.table.setCurrentIndex(window.table.rows_model.index(0, 0))
        assert {text for _, text in pseudo.texts_of(window) if pseudo.english(text)} == set()


def test_every_control_has_a_name(window: BatchWindow) -> None:
    controls = window.findChildren(QAbstractButton) + window.findChildren(QComboBox)
    shown = [it for it in controls if it.isVisibleTo(window)]
    assert len(shown) >= 9
    assert [it for it in shown if not it.accessibleName()] == []
