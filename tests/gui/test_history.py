"""Undo and redo of everything, the history, the mark of an edited plan, and the question before it is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QComboBox, QMessageBox
from pytestqt.qtbot import QtBot

from ckpt_gui.gui.main_window import MainWindow
from ckpt_gui.gui.panels import close_question
from ckpt_gui.gui.panels.history_panel import HistoryPanel
from tests.gui.panel_files import llama_folder
from tests.gui.windows import make_window, window_on

SAMPLE = Path(__file__).resolve().parents[2] / "resources" / "sample" / "tiny-llama-compiled.pt"


@pytest.fixture
def window(qtbot: QtBot, qapp: QApplication) -> MainWindow:
    return window_on(qtbot, qapp, SAMPLE, "tensors")


def history(window: MainWindow) -> HistoryPanel:
    found = window.docks["history"].widget()
    assert isinstance(found, HistoryPanel)
    return found


def lines(window: MainWindow) -> list[str]:
    model = history(window).view.model()
    return [str(model.index(row, 0).data()) for row in range(model.rowCount())]


def choose(box: QComboBox, data: object) -> None:
    place = box.findData(data)
    box.setCurrentIndex(place)
    box.activated.emit(place)


def test_the_history_lists_decisions_and_goes_back_to_any(window: MainWindow) -> None:
    assert lines(window) == ["As opened"]
    window.session.change_target(layout="meta")
    window.session.change_target(dtype="bf16")
    window.session.change_policy(tie="keep")
    assert lines(window) == ["As opened", "Layout Meta", "Cast to bf16", "Keep a stored head"]
    assert window.session.undo_stack.undoText() == "keep a stored head"
    view = history(window).view
    view.setCurrentIndex(view.model().index(1, 0))
    assert (window.session.decisions.target.layout, window.session.decisions.target.dtype) == ("meta", "keep")
    assert window.session.decisions.policy.tie == "auto"
    assert window.isWindowModified()
    view.setCurrentIndex(view.model().index(0, 0))
    assert not window.isWindowModified()


def test_every_control_of_the_export_dialog_is_undone(window: MainWindow, qtbot: QtBot) -> None:
    window.commands.export()
    dialog = window.commands.dialog
    assert dialog is not None
    choices, stack = dialog.form.choices, window.session.undo_stack
    first = window.session.decisions

    def heads() -> None:
        choices.heads_spin.setValue(6)
        choices.kv_heads_spin.setValue(2)
        choices._on_heads()

    acts: tuple[Callable[[], None], ...] = (
        lambda: choose(choices.layout_box, "meta"),
        lambda: choose(choices.container_box, "safetensors"),
        lambda: choose(choices.dtype_box, "fp16"),
        lambda: choose(choices.tie_box, "copy"),
        lambda: choose(choices.shard_box, 2 * 10**9),
        lambda: choices.ranks_spin.setValue(2),
        lambda: choices.alpha_spin.setValue(8),
        heads,
        lambda: window.session.change_policy(dropped=frozenset({"model._orig_mod.norm.weight"})),
        lambda: window.session.change_policy(assigned_only=True),
    )
    for number, act in enumerate(acts, 1):
        before = window.session.decisions
        act()
        assert stack.count() == number, stack.undoText()
        stack.undo()
        assert window.session.decisions == before
        stack.redo()
    last = window.session.decisions
    while stack.canUndo():
        stack.undo()
    assert window.session.decisions == first
    while stack.canRedo():
        stack.redo()
    assert window.session.decisions == last


def test_files_taken_from_a_folder_are_undone(window: MainWindow, qtbot: QtBot, tmp_path: Path) -> None:
    base = llama_folder(tmp_path / "base")
    window.commands.export()
    dialog = window.commands.dialog
    assert dialog is not None
    with qtbot.waitSignal(window.session.changed):
        dialog.base.take(str(base))
    assert window.session.undo_stack.undoText() == "files beside the weights"
    window.session.undo_stack.undo()
    assert window.session.decisions.target.base is None


# ------------------------------------------------------------------------------------------------------------- leaving


def test_an_edited_plan_is_asked_about_once_by_name(window: MainWindow, qtbot: QtBot) -> None:
    asked: list[str] = []
    window.plan_keeper.ask = lambda _window, name: asked.append(name) or "stay"  # type: ignore[func-returns-value]
    window.session.change_policy(tie="keep")
    assert not window.close()
    window.actions_by_id["close"].trigger()
    window.open_path(str(SAMPLE))
    assert asked == ["tiny-llama-compiled.pt"] * 3
    assert window.session.snapshot is not None
    assert window.session.decisions.policy.tie == "keep", "it is all still there"
    window.plan_keeper.ask = lambda _window, _name: "leave"
    assert window.close()


def test_nobody_is_asked_about_a_form_of_the_export_or_what_was_taken_back(window: MainWindow) -> None:
    window.plan_keeper.ask = lambda _window, name: pytest.fail(f"asked about {name}")
    window.session.change_target(layout="meta")
    assert not window.session.unsaved
    window.session.change_policy(tie="keep")
    assert window.session.unsaved
    window.session.undo_stack.undo()
    assert window.close()


def test_an_exported_plan_is_not_lost(window: MainWindow, qtbot: QtBot, tmp_path: Path) -> None:
    window.plan_keeper.ask = lambda _window, name: pytest.fail(f"asked about {name}")
    window.session.change_policy(tie="keep")
    assert window.isWindowModified()
    window.commands.export()
    dialog = window.commands.dialog
    assert dialog is not None
    dialog.set_folder(str(tmp_path / "out"))
    qtbot.waitUntil(dialog.export_button.isEnabled)
    qtbot.mouseClick(dialog.export_button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: dialog.run.written is not None)
    assert not window.isWindowModified()
    assert window.session.undo_stack.canUndo(), "what was decided can still be taken back"
    assert window.close()


@pytest.mark.parametrize(("button", "answer"), [("Let it go", "leave"), ("Stay here", "stay")])
def test_the_question_names_the_checkpoint(
    window: MainWindow, monkeypatch: pytest.MonkeyPatch, button: str, answer: str
) -> None:
    shown: list[str] = []

    def press(box: QMessageBox) -> int:
        shown.append(box.text())
        next(each for each in box.buttons() if each.text() == button).click()
        return 0

    monkeypatch.setattr(QMessageBox, "exec", press)
    assert close_question.ask_about_plan(window, "model.pt") == answer
    assert "model.pt" in shown[0]


# ----------------------------------------------------------------------------------------------------------- once more


def test_reading_again_keeps_what_was_decided(window: MainWindow, qtbot: QtBot) -> None:
    window.session.change_policy(tie="keep")
    window.session.change_target(layout="torchtune")
    decided = window.session.decisions
    with qtbot.waitSignal(window.settled):
        window.actions_by_id["reload"].trigger()
    assert window.session.decisions == decided
    assert window.session.undo_stack.canUndo()
    window.session.undo_stack.undo()
    assert window.session.decisions.policy.tie == "auto"


def test_another_config_keeps_what_was_decided_and_the_layout_that_it_makes_possible(
    qtbot: QtBot, qapp: QApplication, tmp_path: Path
) -> None:
    window = make_window(qtbot, qapp)
    folder = llama_folder(tmp_path / "m")
    with qtbot.waitSignal(window.settled):
        window.open_path(str(folder))
    window.session.change_policy(tie="keep")
    with qtbot.waitSignal(window.settled):
        window.session.reopen(config=folder / "config.json")
    assert window.session.decisions.policy.tie == "keep"
    assert window.session.decisions.config == str(folder / "config.json")
    with qtbot.waitSignal(window.settled):
        window.actions_by_id["reload"].trigger()
    assert window.session.decisions.config == str(folder / "config.json"), "reading again uses the same config"
    assert window.session.decisions.policy.tie == "keep"
