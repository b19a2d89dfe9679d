"""What killed exports have left is found at the next start and beside what is opened; nothing goes unasked."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from ckpt_gui.core import shards
from ckpt_gui.core.errors import Cancelled
from ckpt_gui.core.export import Target
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.normalise import understand
from ckpt_gui.core.retarget import retarget
from ckpt_gui.core.writer import can_resume, write_export
from ckpt_gui.gui.main_window import MainWindow
from ckpt_gui.gui.models.leftover_list import folders_to_look_in
from ckpt_gui.gui.panels.export_check import notes
from tests.gui.panel_files import llama_folder
from tests.gui.windows import make_window

DEAD = 2**22 + 1  # above the largest number of a process
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="nobody can tell there whether a process lives")


@pytest.fixture
def window(qtbot: QtBot, qapp: QApplication) -> MainWindow:
    return make_window(qtbot, qapp)


def leave(folder: Path, *, number: int = DEAD, name: str = "m-hf", old: bool = False) -> Path:
    """Leave what a killed export leaves."""
    part = folder / f".ckpt-gui-{name}-{number}-0a1b2c3d{'-old' if old else ''}.part"
    part.mkdir(parents=True)
    (part / "model.safetensors").write_bytes(bytes(3_000))
    return part


def settled(window: MainWindow, qtbot: QtBot) -> None:
    qtbot.waitUntil(lambda: not window.jobs.running())


@pytest.mark.case(95)
def test_what_a_killed_export_left_is_offered_at_the_next_start(
    window: MainWindow, qtbot: QtBot, tmp_path: Path
) -> None:
    part = leave(tmp_path / "out")
    window.leftovers.look()
    settled(window, qtbot)
    assert window.notices.by_name == {}, "nobody exported there"
    window.settings.add_target(str(tmp_path / "out" / "m-hf"))
    window.leftovers.look()
    settled(window, qtbot)
    said = window.notices.text("leftovers")
    assert said == f"An export to “m-hf” was killed before its end and left 2.93 KiB in {tmp_path / 'out'}."
    assert part.exists(), "nothing is removed unasked"
    window.notices.by_name["leftovers"].buttons["Remove"].click()
    settled(window, qtbot)
    assert not part.exists()
    assert not window.notices.isVisible()


def test_what_is_kept_is_not_asked_about_again(window: MainWindow, qtbot: QtBot, tmp_path: Path) -> None:
    part = leave(tmp_path)
    leave(tmp_path, name="other")
    window.settings.add_target(str(tmp_path / "m-hf"))
    window.leftovers.look()
    settled(window, qtbot)
    assert "2 exports were killed" in window.notices.text("leftovers")
    window.notices.by_name["leftovers"].buttons["Keep"].click()
    window.leftovers.look()
    settled(window, qtbot)
    assert window.notices.by_name == {}
    assert part.exists()
    part.rename(tmp_path / "moved")
    assert len(window.settings.kept_leftovers()) == 1, "what is gone is forgotten"


def test_one_whose_owner_lives_is_left_alone(window: MainWindow, qtbot: QtBot, tmp_path: Path) -> None:
    leave(tmp_path, number=os.getpid())
    window.settings.add_target(str(tmp_path / "m-hf"))
    window.leftovers.look()
    settled(window, qtbot)
    assert window.notices.by_name == {}


def test_they_are_found_beside_what_is_opened(window: MainWindow, qtbot: QtBot, tmp_path: Path) -> None:
    folder = llama_folder(tmp_path / "m")
    leave(tmp_path)
    leave(folder, name="inside")
    with qtbot.waitSignal(window.settled):
        window.open_path(str(folder))
    qtbot.waitUntil(lambda: "leftovers" in window.notices.by_name)
    assert window.notices.text("leftovers").startswith("2 exports were killed before their end and left 5.86 KiB in ")


def test_what_stood_at_a_target_before_can_be_put_back(window: MainWindow, qtbot: QtBot, tmp_path: Path) -> None:
    part = leave(tmp_path, old=True)
    window.settings.add_target(str(tmp_path / "m-hf"))
    window.leftovers.look()
    settled(window, qtbot)
    assert "leftovers" not in window.notices.by_name, "it is the only copy: not to be removed"
    assert "what stood there lies in" in window.notices.text("lost")
    window.notices.by_name["lost"].buttons["Put it back"].click()
    settled(window, qtbot)
    assert not part.exists()
    assert (tmp_path / "m-hf" / "model.safetensors").stat().st_size == 3_000


def test_an_export_is_remembered_before_it_begins(window: MainWindow, qtbot: QtBot, tmp_path: Path) -> None:
    with qtbot.waitSignal(window.settled):
        window.open_path(str(llama_folder(tmp_path / "m")))
    window.commands.export()
    dialog = window.commands.dialog
    assert dialog is not None
    dialog.set_folder(str(tmp_path / "out"))
    qtbot.waitUntil(dialog.export_button.isEnabled)
    dialog.start()
    assert window.settings.targets() == [str(tmp_path / "out")]
    qtbot.waitUntil(lambda: not dialog.run.running)


def test_where_is_looked(tmp_path: Path) -> None:
    (tmp_path / "a" / "model").mkdir(parents=True)
    (tmp_path / "b").mkdir()
    targets = [str(tmp_path / "b" / "one"), str(tmp_path / "b" / "two"), str(tmp_path / "gone" / "three")]
    assert folders_to_look_in(str(tmp_path / "a" / "model"), targets) == (
        tmp_path / "a" / "model", tmp_path / "a", tmp_path / "b",
    )  # fmt: skip
    assert folders_to_look_in(str(tmp_path / "a" / "x.pt"), ()) == (tmp_path / "a",)
    assert folders_to_look_in(None, ()) == ()


def test_an_interrupted_export_is_resumed(
    window: MainWindow, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The offer opens the source, then the dialog with the target; what is whole is kept."""
    source = llama_folder(tmp_path / "m")
    target = Target("hf", max_shard_bytes=2_000)
    real, names = shards.fill_file, []

    def stop(path: Path, file: Any, *rest: Any) -> Any:
        names.append(file.name)
        if len(names) == 3:
            raise Cancelled
        return real(path, file, *rest)

    with open_checkpoint(source) as opened, monkeypatch.context() as patch:
        patch.setattr(shards, "fill_file", stop)
        with pytest.raises(Cancelled):
            write_export(retarget(understand(opened), target), tmp_path / "m-out", resume=True)
    window.settings.add_target(str(tmp_path / "m-out"))
    window.leftovers.look()
    settled(window, qtbot)
    window.notices.by_name["leftovers"].buttons["Resume"].click()
    qtbot.waitUntil(lambda: window.session.snapshot is not None)
    qtbot.waitUntil(lambda: "leftovers" in window.notices.by_name)
    window.notices.by_name["leftovers"].buttons["Resume"].click()
    dialog = window.commands.dialog
    assert dialog is not None
    assert dialog.folder == str(tmp_path / "m-out")
    snapshot = window.session.snapshot
    assert snapshot is not None
    export = retarget(snapshot.plan, target)
    written = write_export(export, dialog.folder, resume=can_resume(export, dialog.folder))
    assert written.resumed == 2
    assert notes(export, written)[0] == "2 files of the interrupted export were whole, and kept."
