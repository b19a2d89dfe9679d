"""The window lives through what happens to files and workers while it is open, and says what happened."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QMimeData, QPointF, Qt, QUrl
from PySide6.QtGui import QDropEvent
from PySide6.QtWidgets import QApplication, QLabel
from pytestqt.qtbot import QtBot

from ckpt_gui.core.families import generic
from ckpt_gui.core.tensors import TensorRef
from ckpt_gui.gui.jobs import Job
from ckpt_gui.gui.main_window import MainWindow
from ckpt_gui.gui.models.file_changes import Change, change_words
from ckpt_gui.gui.panels import export_check
from ckpt_gui.gui.settings import Settings
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.windows import Windows
from tests.builders import set_back
from tests.gui.checkpoints import llama_refs, source
from tests.gui.panel_files import llama_folder
from tests.gui.windows import make_window


@pytest.fixture
def window(qtbot: QtBot, qapp: QApplication) -> MainWindow:
    return make_window(qtbot, qapp)


def opened(window: MainWindow, qtbot: QtBot, path: Path) -> None:
    with qtbot.waitSignal(window.settled):
        window.open_path(str(path))


def noticed(window: MainWindow, qtbot: QtBot, words: str) -> str:
    """Wait until the window says these words of its files, which it may have looked at by itself, and return all."""
    window.watch.look()
    qtbot.waitUntil(lambda: words in window.notices.text("changed"))
    return window.notices.text("changed")


def weights(folder: Path) -> Path:
    return folder / "model.safetensors"


# --------------------------------------------------------------------------------------------------- files that change


@pytest.mark.case(87)
def test_a_file_that_is_cut_while_figures_are_wanted(window: MainWindow, qtbot: QtBot, tmp_path: Path) -> None:
    folder = llama_folder(tmp_path / "m")
    opened(window, qtbot, folder)
    size = weights(folder).stat().st_size
    os.truncate(weights(folder), size // 2)
    assert window.tree_panel.select_key("model.norm.weight")
    inspector = window.inspector_panel
    inspector.tabs.setCurrentWidget(inspector.statistics)
    qtbot.waitUntil(lambda: bool(inspector.statistics.message.text()))
    assert "model.safetensors" in inspector.statistics.message.text()
    assert window.page_tabs.isVisible(), "the tree is still there"
    assert noticed(window, qtbot, "has shrunk") == (
        f"“model.safetensors” has shrunk by {size - size // 2:,} bytes on the disk. "
        "What is beyond can not be read any more."
    )
    with qtbot.waitSignal(window.settled):
        window.notices.by_name["changed"].buttons["Read again"].click()
    assert "changed" not in window.notices.by_name
    assert not window.isHidden()


@pytest.mark.case(88)
def test_a_file_that_is_replaced_is_read_to_its_end(window: MainWindow, qtbot: QtBot, tmp_path: Path) -> None:
    folder = llama_folder(tmp_path / "m")
    opened(window, qtbot, folder)
    other = llama_folder(tmp_path / "other", "differs")
    os.replace(weights(other), weights(folder))
    assert window.tree_panel.select_key("model.norm.weight")
    inspector = window.inspector_panel
    inspector.tabs.setCurrentWidget(inspector.statistics)
    qtbot.waitUntil(lambda: inspector.statistics.moments.value("mean") == "1")
    noticed(window, qtbot, "The file at this path has changed")


@pytest.mark.case(88)
def test_a_file_that_is_written_over_or_gone_is_told_once(window: MainWindow, qtbot: QtBot, tmp_path: Path) -> None:
    folder = llama_folder(tmp_path / "m")
    opened(window, qtbot, folder)
    times = weights(folder).stat()
    with weights(folder).open("r+b") as stream:
        stream.seek(-4, os.SEEK_END)
        stream.write(b"\0\0\0\0")
    set_back(weights(folder), times)  # as if nothing had happened
    noticed(window, qtbot, "has changed on the disk")
    window.notices.dismiss("changed")
    told: list[object] = []
    window.watch.changed.connect(told.append)
    window.watch.look()
    qtbot.waitUntil(lambda: window.watch._job is None)
    assert told == [], "the same state is told once"
    shutil.rmtree(folder)
    noticed(window, qtbot, "is no longer there")
    with qtbot.waitSignal(window.settled):
        window.commands.reload()
    assert window.pages.currentWidget() is window.error_panel
    assert window.notices.by_name == {}


def test_words_for_several_files() -> None:
    assert change_words((Change("changed", "/a/x"), Change("gone", "/a/y"), Change("gone", "/a/z"))).startswith(
        "`x` and 2 other files have changed"
    )


# ---------------------------------------------------------------------------------------------------- workers that die


@pytest.mark.case(108)
@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_worker_that_is_killed_is_a_finding(
    window: MainWindow, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = {"model_type": "some_new_model", "hidden_size": 16, "num_hidden_layers": 1}
    folder = llama_folder(tmp_path / "m", config=config)
    monkeypatch.setattr(generic, "available", lambda: True)
    monkeypatch.setattr(generic, "_cache_file", lambda _text: None)
    monkeypatch.setattr(generic, "CHILD", ["-c", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"])
    opened(window, qtbot, folder)
    assert window.pages.currentWidget() is window.page_tabs
    said = " ".join(card.finding.message for card in window.checkpoint_panel.finding_cards)
    assert "it was killed" in said
    assert window.tree_panel.select_key("model.norm.weight")


# --------------------------------------------------------------------------------------------------- exports that end


@pytest.mark.case(96)
def test_a_window_that_closes_leaves_no_part_behind(
    qtbot: QtBot, qapp: QApplication, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = make_window(qtbot, qapp)
    opened(window, qtbot, llama_folder(tmp_path / "m"))
    window.commands.export()
    dialog = window.commands.dialog
    assert dialog is not None
    target = tmp_path / "out" / "here"
    dialog.set_folder(str(target))
    qtbot.waitUntil(dialog.export_button.isEnabled)
    in_work = threading.Event()
    whole = export_check.write_export

    def slow(*args: Any, cancelled: Callable[[], bool], **more: Any) -> Any:
        def asked() -> bool:
            if target.parent.exists() and list(target.parent.glob(".ckpt-gui-*")):
                in_work.set()
                while not cancelled():
                    time.sleep(0.01)
            return cancelled()

        return whole(*args, cancelled=asked, **more)

    monkeypatch.setattr(export_check, "write_export", slow)
    dialog.start()
    qtbot.waitUntil(in_work.is_set)
    window.ask_to_close = lambda _window, _titles: True
    window.close()
    assert not window.jobs.running()
    assert not target.exists()
    assert not target.parent.exists(), "nor the folder that was made for it"


# ---------------------------------------------------------------------------------------------------------------- drops


@pytest.fixture
def windows(qapp: QApplication) -> Iterator[Windows]:
    made = Windows(Settings(), Theme(qapp, "light"))
    yield made
    made.close_all()


def drop(window: MainWindow, data: QMimeData) -> None:
    action, buttons, keys = Qt.DropAction.CopyAction, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    window.drops.eventFilter(window, QDropEvent(QPointF(1, 1), action, data, buttons, keys))


@pytest.mark.case(109)
def test_ten_bad_files_dropped_at_once(windows: Windows, qtbot: QtBot, tmp_path: Path) -> None:
    first = windows.add()
    data, urls = QMimeData(), []
    for number in range(10):
        path = tmp_path / f"bad{number}.pt"
        path.write_bytes(b"nonsense" * 25 * number)
        urls.append(QUrl.fromLocalFile(str(path)))
    data.setUrls(urls)
    drop(first, data)
    assert len(windows.open) == 1
    assert windows.batch is not None
    queue = windows.batch.queue
    qtbot.waitUntil(lambda: not queue.busy)
    assert [row.state for row in queue.rows] == ["error"] * 10
    assert queue.rows[0].sentence.endswith("bad0.pt is empty (0 bytes).")
    assert not windows.batch.fix_button.isEnabled()


@pytest.mark.case(109)
def test_a_thousand_files_dropped_at_once(windows: Windows, qtbot: QtBot) -> None:
    first = windows.add()
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(f"/nowhere/{number}.pt") for number in range(1000)])
    drop(first, data)
    assert len(windows.open) == 1
    assert windows.batch is not None
    assert windows.batch.table.rows_model.rowCount() == 1000


@pytest.mark.case(109)
@pytest.mark.parametrize("kind", ["address", "text", "nothing"])
def test_what_is_no_file_is_answered(window: MainWindow, kind: str) -> None:
    data = QMimeData()
    if kind == "address":
        data.setUrls([QUrl("mailto:me@example.org")])
    elif kind == "text":
        data.setText("model.safetensors")
    drop(window, data)
    assert "no file of this computer" in window.notices.text("drop")
    assert window.pages.currentWidget() is window.start_page


def test_a_job_that_ends_after_its_window_closed_says_nothing(qtbot: QtBot, qapp: QApplication) -> None:
    window = make_window(qtbot, qapp)

    def fail(job: Job) -> None:
        while not job.cancelled():
            pass
        raise ValueError("too late")

    window.jobs.start("Failing", fail, pytest.fail, pytest.fail, quiet=True)
    window.close()
    assert not window.jobs.running()


# --------------------------------------------------------------------------------------------- keys that mean no good


HOSTILE = ("\x1b[31mred", "<b>bold</b><img src=x>", "right\u202eleft", "line\nfeed", "a" * (1 << 20))


@pytest.mark.case(25, 31)
def test_hostile_keys_are_shown_as_what_they_are(qtbot: QtBot, qapp: QApplication) -> None:
    refs = [*llama_refs(), *(TensorRef(key, "bf16", (2,), (), "w.pt", key) for key in HOSTILE)]
    window = make_window(qtbot, qapp, source(refs))
    model, view = window.tree_panel.model, window.tree_panel.view
    for key in HOSTILE:
        assert window.tree_panel.select_key(key)
        index = view.currentIndex()
        row = model.row(index)
        assert row is not None
        assert row.key == key
        for column in range(model.columnCount()):
            for role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.ToolTipRole, Qt.ItemDataRole.AccessibleTextRole):
                text = str(model.data(index.siblingAtColumn(column), role) or "")
                assert not set(text) & set("\x1b\u202e\n"), f"column {column}, role {role}"
                assert len(text) < 5_000, "elided"
                if role == Qt.ItemDataRole.ToolTipRole:
                    assert "<b>" not in text
                    assert "<img" not in text
        window.tree_panel.copying.copy_keys()
        assert QApplication.clipboard().text() == key, "a copy is the whole key"
    for shown in window.findChildren(QLabel):
        assert not set(shown.text()) & set("\x1b\u202e"), shown.text()
        assert shown.textFormat() == Qt.TextFormat.PlainText or "<" not in shown.text()


@pytest.mark.case(30)
def test_a_hundred_thousand_tensors_are_one_family(qtbot: QtBot, qapp: QApplication) -> None:
    refs = [TensorRef(f"t.{number // 400}.{number % 400}", "bf16", (2,), (), "w.pt", "x") for number in range(100_000)]
    window = make_window(qtbot, qapp, source(refs))
    panel = window.tree_panel
    assert panel.model.index(0, 1).data() == "t.{0-249}.{0-399}"
    assert panel.select_key("t.249.399")
    panel.set_mode("tree")
    assert [row.key for row in panel.view.selected_rows()] == ["t.249.399"]
    panel.set_mode("flat")
    assert panel.view.currentIndex().row() == 99_999
