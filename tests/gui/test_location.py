"""Checkpoints on servers in the window: opening by address, what is kept of it, giving up, a file that changed."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QPointF, Qt, QUrl
from PySide6.QtGui import QDropEvent, QGuiApplication
from PySide6.QtWidgets import QApplication, QDialogButtonBox
from pytestqt.qtbot import QtBot

from ckpt_gui.gui.main_window import MainWindow
from ckpt_gui.gui.panels.location_dialog import LocationDialog
from ckpt_gui.gui.window_state import state_of
from tests.core.models import config, save_shards, state
from tests.core.remote.conftest import _alone, serve, server  # noqa: F401 - fixtures
from tests.core.remote.server import Server
from tests.gui.windows import make_window


@pytest.fixture
def window(qtbot: QtBot, qapp: QApplication) -> MainWindow:
    return make_window(qtbot, qapp)


@pytest.fixture
def url(server: Server, serve, tmp_path: Path) -> str:  # type: ignore[no-untyped-def]  # noqa: F811
    """A model of three shards on a server; the address has a password."""
    save_shards(tmp_path / "m", state(), 3, config=config())
    return serve(tmp_path / "m").replace("http://", "http://me:hush@")


def test_an_address_is_opened_and_its_secret_is_nowhere(window: MainWindow, qtbot: QtBot, url: str) -> None:
    with qtbot.waitSignal(window.session.changed):
        window.open_path(url)
    public = url.replace("me:hush@", "")
    assert window.session.path == public
    assert window.session.snapshot is not None
    assert len(window.session.snapshot.source.refs) == len(state())
    assert window.settings.recents()[0] == public
    shown = state_of(window)
    assert shown is not None
    assert shown.path == public
    assert "hush" not in "".join((window.windowTitle(), *window.settings.recents(), window.jobs.command()))
    ref = window.session.snapshot.source.refs[0]
    assert window.session.snapshot.source.read(ref)


def test_the_dialog_takes_addresses_only(window: MainWindow, qtbot: QtBot) -> None:
    QGuiApplication.clipboard().setText("s3://bucket/model")
    dialog = LocationDialog(window)
    qtbot.addWidget(dialog)
    opens = dialog.buttons.button(QDialogButtonBox.StandardButton.Open)
    assert dialog.edit.text() == "s3://bucket/model"
    assert opens.isEnabled()
    dialog.edit.setText("/models/a.pt")
    assert not opens.isEnabled()
    dialog.edit.setText(" hf://org/model ")
    with qtbot.waitSignal(dialog.chosen) as told:
        opens.click()
    assert told.args == ["hf://org/model"]
    QGuiApplication.clipboard().clear()


def test_the_command_asks_for_an_address(window: MainWindow, qtbot: QtBot, url: str) -> None:
    window.commands.open_location()
    dialog = window.findChild(LocationDialog)
    dialog.edit.setText(url)
    with qtbot.waitSignal(window.session.changed):
        dialog.accept()


def test_an_address_can_be_dropped(window: MainWindow, qtbot: QtBot, url: str) -> None:
    data = QMimeData()
    data.setUrls([QUrl(url)])
    copy = Qt.DropAction.CopyAction
    event = QDropEvent(QPointF(9, 9), copy, data, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier)
    with qtbot.waitSignal(window.session.changed):
        window.drops.eventFilter(window, event)
    assert window.session.path == url.replace("me:hush@", "")


def test_opening_tells_how_far_it_is_and_can_be_given_up(
    window: MainWindow,
    qtbot: QtBot,
    server: Server,  # noqa: F811
    url: str,
) -> None:
    server.misbehave("silent", where="00003-of-00003.safetensors")
    told: list[str] = []
    window.jobs.progressed.connect(lambda _job, text, _done, _total: told.append(text))
    window.open_path(url)
    qtbot.waitUntil(lambda: any("requests" in text for text in told))
    with qtbot.waitSignal(window.session.closed):
        window.loading_panel.cancel.emit()


def test_what_is_not_there_is_said_without_the_secret(window: MainWindow, qtbot: QtBot, url: str) -> None:
    with qtbot.waitSignal(window.session.failed) as failed:
        window.open_path(f"{url}/none.safetensors")
    assert "(404)" in str(failed.args[0])
    assert "hush" not in str(failed.args[0])


def test_reading_again_sees_the_new_file(
    window: MainWindow,
    qtbot: QtBot,
    server: Server,  # noqa: F811
    url: str,
    tmp_path: Path,
) -> None:
    with qtbot.waitSignal(window.session.changed):
        window.open_path(url)
    assert window.session.snapshot is not None
    before = {file.name: file.identity for file in window.session.snapshot.source.files}
    name = next(path for path in server.files if path.endswith(".safetensors"))
    data = bytearray(server.files[name])
    data[-1] ^= 1
    server.files[name] = bytes(data)
    with qtbot.waitSignal(window.session.changed):
        window.commands.reload()
    after = {file.name: file.identity for file in window.session.snapshot.source.files}
    changed = [name for name in before if before[name] != after[name]]
    assert changed == [name.rpartition("/")[2]]
