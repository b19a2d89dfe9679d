"""The export dialog: choices, what stands in the way, writing, cancelling, and the result."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QAbstractButton, QApplication, QComboBox
from pytestqt.qtbot import QtBot

from ckpt_gui.core.errors import Cancelled, CheckpointError
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.gui.panels import export_check
from ckpt_gui.gui.panels.export_dialog import ExportDialog
from ckpt_gui.gui.session import Session
from ckpt_gui.gui.theme import Theme
from tests.gui.panel_files import CONFIG, llama_folder, make_theme, session_of
from tests.gui.windows import window_on

SAMPLE = Path(__file__).resolve().parents[2] / "resources" / "sample" / "tiny-llama-compiled.pt"


@pytest.fixture
def theme(qapp: QApplication) -> Theme:
    return make_theme(qapp)


@pytest.fixture
def session(qtbot: QtBot) -> Iterator[Session]:
    with session_of(qtbot, SAMPLE) as opened:
        yield opened


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


@pytest.fixture
def dialog(qtbot: QtBot, session: Session, theme: Theme, out: Path) -> ExportDialog:
    return make_dialog(qtbot, session, theme, out)


def make_dialog(qtbot: QtBot, session: Session, theme: Theme, folder: Path) -> ExportDialog:
    made = ExportDialog(session, theme)
    qtbot.addWidget(made)
    made.show()
    made.set_folder(str(folder))
    looked(made, qtbot)
    return made


def looked(dialog: ExportDialog, qtbot: QtBot) -> None:
    """Wait until the folder has been looked at."""
    qtbot.waitUntil(lambda: dialog._check is not None and dialog._check.folder == dialog.folder)


def exported(dialog: ExportDialog, qtbot: QtBot) -> None:
    qtbot.mouseClick(dialog.export_button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: not dialog.run.running)


def choose(box: QComboBox, data: object) -> None:
    index = box.findData(data)
    box.setCurrentIndex(index)
    box.activated.emit(index)


def test_nothing_is_cut_at_the_side_on_a_small_screen(dialog: ExportDialog) -> None:
    dialog.resize(10, 10)
    assert dialog.form.viewport().width() >= dialog.form.widget().minimumSizeHint().width()


def test_the_first_folder_is_a_new_one_beside_the_source(qtbot: QtBot, theme: Theme, tmp_path: Path) -> None:
    with session_of(qtbot, llama_folder(tmp_path / "model")) as session:
        dialog = ExportDialog(session, theme)
        qtbot.addWidget(dialog)
        assert dialog.folder == str(tmp_path / "model-hf")
        choose(dialog.form.choices.layout_box, "meta")
        assert dialog.folder == str(tmp_path / "model-meta")
        dialog.set_folder(str(tmp_path / "mine"))
        choose(dialog.form.choices.layout_box, "torchtune")
        assert dialog.folder == str(tmp_path / "mine"), "a folder that the user has named stays"
        looked(dialog, qtbot)


def test_choices_are_the_sessions_decisions(dialog: ExportDialog, session: Session, qtbot: QtBot) -> None:
    form = dialog.form
    assert form.choices.container_box.isVisible()
    assert form.choices.shard_box.isVisible()
    choose(form.choices.dtype_box, "fp16")
    choose(form.choices.tie_box, "keep")
    choose(form.choices.shard_box, 10**9)
    assert session.snapshot is not None
    target, policy = session.snapshot.decisions.target, session.snapshot.decisions.policy
    assert (target.dtype, target.max_shard_bytes, policy.tie) == ("fp16", 10**9, "keep")
    choose(form.choices.layout_box, "same")
    assert not form.choices.container_box.isVisible()
    assert not form.choices.shard_box.isVisible()
    session.change_target(layout="meta", max_shard_bytes=123_000_000)
    assert form.choices.layout_box.currentData() == "meta"
    assert form.choices.shard_box.currentData() == 123_000_000
    looked(dialog, qtbot)


def test_an_export_is_written_verified_and_can_be_opened(
    dialog: ExportDialog, session: Session, qtbot: QtBot, out: Path
) -> None:
    assert dialog.summary.text().startswith("29 tensors · 262 KiB in 1 file · ")
    exported(dialog, qtbot)
    page = dialog.result_page
    assert page.banner.text == "Written and verified 29/29"
    assert page.facts.value("folder") == str(out)
    assert page.facts.value("files").splitlines()[0].startswith("model.safetensors  (262 KiB)")
    assert "Reorder the rows of q and k  (6 tensors)" in page.steps.text()
    assert "No tokenizer" in page.notes.text()
    with open_checkpoint(out) as written:
        assert len(written.refs) == 29
    with qtbot.waitSignal(dialog.open_result) as signal:
        qtbot.mouseClick(page.open_button, Qt.MouseButton.LeftButton)
    assert signal.args == [str(out)]
    assert not dialog.isVisible()


def test_the_command_of_a_written_export(dialog: ExportDialog, qtbot: QtBot, out: Path) -> None:
    out.mkdir()
    (out / "old.txt").write_text("old")
    dialog.set_folder(str(out))
    looked(dialog, qtbot)
    dialog.form.place.overwrite_box.setChecked(True)
    exported(dialog, qtbot)
    qtbot.mouseClick(dialog.result_page.copy_button, Qt.MouseButton.LeftButton)
    command = QGuiApplication.clipboard().text()
    assert command.startswith("ckpt-gui fix ")
    assert command.endswith("--to hf --overwrite")
    assert not (out / "old.txt").exists()


@pytest.mark.parametrize("suffix", [".html", ".md", ".json"])
def test_reports_are_saved(dialog: ExportDialog, qtbot: QtBot, tmp_path: Path, suffix: str) -> None:
    exported(dialog, qtbot)
    path = tmp_path / f"report{suffix}"
    dialog.result_page.save_report(str(path))
    qtbot.waitUntil(lambda: dialog.result_page.message.text().startswith("Saved"))
    text = path.read_text()
    assert "29" in text
    if suffix == ".json":
        assert json.loads(text)["result"]["verified"] == 29


def test_a_full_folder_asks_first(dialog: ExportDialog, qtbot: QtBot, out: Path) -> None:
    out.mkdir()
    for name in "ab":
        (out / name).touch()
    dialog.set_folder(str(out))
    looked(dialog, qtbot)
    assert "2 entries" in dialog.form.place.folder_note.text()
    assert dialog.form.place.overwrite_box.isVisible()
    assert not dialog.export_button.isEnabled()
    dialog.form.place.overwrite_box.setChecked(True)
    assert dialog.export_button.isEnabled()
    dialog.set_folder(str(out) + "-new")
    looked(dialog, qtbot)
    assert not dialog.form.place.overwrite_box.isVisible()
    assert not dialog.form.place.overwrite_box.isChecked(), "consent is for one folder only"


def test_the_source_is_refused(qtbot: QtBot, theme: Theme, tmp_path: Path) -> None:
    folder = llama_folder(tmp_path / "model")
    with session_of(qtbot, folder) as session:
        for target in (folder, folder / "inside", tmp_path):
            dialog = make_dialog(qtbot, session, theme, target)
            assert "source" in dialog.form.place.folder_note.text()
            assert not dialog.export_button.isEnabled()
            dialog.start()
            assert not dialog.run.running
        dialog.set_folder("")
        looked(dialog, qtbot)
        assert dialog.form.place.folder_note.text() == "No folder is named."


def test_what_blocks_is_said_at_the_top(qtbot: QtBot, theme: Theme, tmp_path: Path, out: Path) -> None:
    with session_of(qtbot, llama_folder(tmp_path / "m", without="up_proj")) as session:
        dialog = make_dialog(qtbot, session, theme, out)
        assert dialog.form.banner.isVisible()
        assert "missing" in dialog.form.banner.text
        assert not dialog.export_button.isEnabled()
        assert "missing" in dialog.export_button.toolTip()
        assert dialog.summary.text() == "One finding blocks the export: see above."


def test_head_counts_can_be_given_but_are_never_guessed(qtbot: QtBot, theme: Theme, tmp_path: Path, out: Path) -> None:
    with session_of(qtbot, llama_folder(tmp_path / "m", "none", config=None)) as session:
        session.change_target(layout="meta")
        dialog = make_dialog(qtbot, session, theme, out)
        form = dialog.form
        assert form.choices.heads_row.isVisible()
        assert not form.choices.heads_button.isEnabled()
        form.choices.heads_spin.setValue(4)
        form.choices.kv_heads_spin.setValue(2)
        qtbot.mouseClick(form.choices.heads_button, Qt.MouseButton.LeftButton)
        assert session.snapshot is not None
        assert session.snapshot.decisions.policy.heads == 4
        assert not session.snapshot.export.blocked
        looked(dialog, qtbot)
        assert not dialog.export_button.isEnabled()
        assert "likely" in dialog.export_button.toolTip()
        (box,) = form.confirm.boxes
        qtbot.mouseClick(box, Qt.MouseButton.LeftButton, pos=QPoint(5, box.height() // 2))
        looked(dialog, qtbot)
        exported(dialog, qtbot)
        assert dialog.result_page.banner.text.startswith("Written and verified")


def test_files_of_a_base_folder_are_carried(
    dialog: ExportDialog, session: Session, qtbot: QtBot, tmp_path: Path, out: Path
) -> None:
    base = tmp_path / "base"
    base.mkdir()
    (base / "config.json").write_text(json.dumps(CONFIG))
    (base / "tokenizer.json").write_text("{}")
    with qtbot.waitSignal(session.changed):
        dialog.base.take(str(base))
    assert "tokenizer.json" in dialog.form.carried.names.text()
    assert dialog.form.carried.drop_base_button.isVisible()
    looked(dialog, qtbot)
    exported(dialog, qtbot)
    assert (out / "tokenizer.json").read_text() == "{}"
    session.change_target(base=None)
    assert "tokenizer.json" not in dialog.form.carried.names.text()
    looked(dialog, qtbot)


class Gate:
    """A write that waits until it is let go or cancelled."""

    def __init__(self, error: Exception | None = None) -> None:
        self.go, self.error = threading.Event(), error
        self.begun = threading.Event()

    def __call__(self, export: object, folder: object, *, progress: Any, cancelled: Any, **_: object) -> None:
        progress("Writing", 10**12, 4 * 10**12)
        self.begun.set()
        while not self.go.wait(0.01):
            if cancelled():
                raise Cancelled
        if self.error:
            raise self.error


def test_escape_stops_a_running_export_and_keeps_the_dialog(
    dialog: ExportDialog, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_check, "write_export", Gate())
    dialog.start()
    qtbot.waitUntil(lambda: dialog.progress_page.note.text() != "")
    assert dialog.progress_page.note.text() == "25 % · 931 GiB of 3.64 TiB"
    qtbot.keyClick(dialog, Qt.Key.Key_Escape)
    assert dialog.isVisible()
    qtbot.waitUntil(lambda: not dialog.run.running)
    assert dialog.pages.currentIndex() == 0
    assert dialog.form.banner.text == "Stopped"
    looked(dialog, qtbot)
    assert dialog.export_button.isEnabled()


def test_a_failure_is_told_where_it_happened(
    dialog: ExportDialog, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(CheckpointError("target-refused", "The disk is full.", fix="Free some space."))
    gate.go.set()
    monkeypatch.setattr(export_check, "write_export", gate)
    exported(dialog, qtbot)
    assert dialog.form.banner.isVisible()
    assert dialog.form.banner.text == "The disk is full."
    assert dialog.form.banner.detail == "Free some space."
    looked(dialog, qtbot)


def test_both_themes_and_names(dialog: ExportDialog, theme: Theme, qtbot: QtBot) -> None:
    nameless = [
        b for b in dialog.findChildren(QAbstractButton) if b.isVisible() and not (b.accessibleName() or b.text())
    ]
    assert not nameless
    light = dialog.grab().toImage()
    theme.set_scheme("dark")
    assert dialog.grab().toImage() != light
    theme.set_scheme("light")
    looked(dialog, qtbot)


def test_a_closed_session_leaves_nothing_to_export(dialog: ExportDialog, session: Session) -> None:
    session.close()
    assert not dialog.export_button.isEnabled()
    assert dialog.export_button.toolTip() == "No checkpoint is open."


# ------------------------------------------------------------------------------------------------------------ in short


def test_fix_and_export_is_one_look_and_one_enter(qtbot: QtBot, qapp: QApplication, tmp_path: Path) -> None:
    window = window_on(qtbot, qapp, SAMPLE, "tensors")
    qtbot.keyClick(window, Qt.Key.Key_E, Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier)
    dialog = window.commands.dialog
    assert dialog is not None
    assert dialog.brief.isVisible()
    assert not dialog.form.isVisible()
    assert dialog.brief.banner.text == "Every step is certain."
    assert dialog.brief.banner.detail == "After the plan: 29 match · 0 missing · 0 extra"
    dialog.set_folder(str(tmp_path / "out"))
    qtbot.waitUntil(dialog.export_button.isEnabled)
    assert dialog.brief.place.text().replace("\u200b", "") == str(tmp_path / "out")
    qtbot.keyClick(dialog, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: dialog.run.written is not None)
    assert (tmp_path / "out" / "model.safetensors").exists()


def test_everything_can_still_be_chosen(qtbot: QtBot, dialog: ExportDialog) -> None:
    dialog.show_summary()
    qtbot.mouseClick(dialog.brief.change_button, Qt.MouseButton.LeftButton)
    assert dialog.form.isVisible()
    assert not dialog.brief.isVisible()
    assert dialog.export_button.text() == "Export"


@pytest.mark.parametrize("lacking", [False, True])
def test_what_stands_in_the_way_of_the_short_way_is_told_and_shown(
    qtbot: QtBot, qapp: QApplication, tmp_path: Path, lacking: bool
) -> None:
    path = llama_folder(tmp_path / "m", "none", config=None)
    if lacking:
        path = llama_folder(tmp_path / "lacking", without="up_proj")
    window = window_on(qtbot, qapp, path, "overview")
    if not lacking:
        window.session.change_policy(heads=4, kv_heads=2)
        window.session.change_target(layout="meta")
    keys = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier
    qtbot.keyClick(window, Qt.Key.Key_E, keys)
    assert window.commands.dialog is None
    snapshot, row = window.session.snapshot, window.plan_panel.tree.row()
    assert snapshot is not None
    assert window.page_tabs.current_name == "tensors"
    assert window.docks["plan"].isVisible()
    if lacking:
        assert row == snapshot.export.blocked[0]
        assert "missing" in window.notices.text("doubt")
    else:
        assert row == next(step for step in snapshot.steps if not step.certain)
        assert "likely, not certain" in window.notices.text("doubt")
    window.plan_panel.clear_selection()
    window.notices.by_name["doubt"].buttons["Show it in the plan"].click()
    assert window.plan_panel.tree.row() == row
    window.commands.close_checkpoint()
    assert window.notices.text("doubt") == ""
