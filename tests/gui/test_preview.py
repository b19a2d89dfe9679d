"""The preview: the tree as the plan would write it, with undo in it, and the summary that is always there."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QLabel
from pytestqt.qtbot import QtBot

from ckpt_gui.gui import planning as planning_module
from ckpt_gui.gui.main_window import MainWindow
from ckpt_gui.gui.models.tree_columns import Column
from tests.gui.windows import window_on

SAMPLE = Path(__file__).resolve().parents[2] / "resources" / "sample" / "tiny-llama-compiled.pt"


@pytest.fixture
def window(qtbot: QtBot, qapp: QApplication) -> MainWindow:
    return window_on(qtbot, qapp, SAMPLE, "tensors")


def keys(window: MainWindow) -> set[str]:
    return {row.path for row in window.tree_panel.model.tree.rows}


def key_title(window: MainWindow) -> str:
    return str(window.tree_panel.model.headerData(Column.KEY, Qt.Orientation.Horizontal))


def test_f9_shows_what_would_be_written_and_the_file_again(window: MainWindow, qtbot: QtBot) -> None:
    panel = window.tree_panel
    assert panel.select_key("_orig_mod.norm.weight")
    qtbot.keyClick(window, Qt.Key.Key_F9)
    assert panel.preview_bar.isVisible()
    assert panel.preview_bar.text.startswith("Preview")
    assert key_title(window) == "Key as it will be written"
    assert "model.layers.2.self_attn.q_proj.weight" in keys(window)
    assert not any("_orig_mod" in key for key in keys(window))
    assert {row.state for row in panel.model.tree.rows} == {"same"}
    assert window.actions_by_id["preview"].isChecked()
    assert window.plan_panel.preview_box.isChecked()
    current = panel.model.row(panel.view.currentIndex())
    assert current is not None
    assert current.key == "model.norm.weight", "the same tensor stays selected"
    qtbot.mouseClick(panel.preview_bar.back_button, Qt.MouseButton.LeftButton)
    assert not panel.preview_bar.isVisible()
    assert key_title(window) == "Key in file"
    assert "_orig_mod.norm.weight" in keys(window)
    assert not window.actions_by_id["preview"].isChecked()


def test_the_box_in_the_plan_does_the_same(window: MainWindow, qtbot: QtBot) -> None:
    window.plan_panel.preview_box.click()
    assert window.session.preview
    window.plan_panel.preview_box.click()
    assert not window.session.preview


def test_decisions_and_undo_change_the_preview(window: MainWindow) -> None:
    window.session.set_preview(True)
    assert "lm_head.weight" not in keys(window)
    window.session.change_policy(tie="keep")
    assert "lm_head.weight" in keys(window)
    window.session.change_target(layout="torchtune")
    assert "layers.2.attn.q_proj.weight" in keys(window)
    window.session.undo_stack.undo()
    window.session.undo_stack.undo()
    assert "lm_head.weight" not in keys(window)
    assert "model.norm.weight" in keys(window)
    assert not window.session.undo_stack.canUndo(), "to look is no decision"


def test_it_ends_with_the_checkpoint(window: MainWindow, qtbot: QtBot) -> None:
    window.session.set_preview(True)
    with qtbot.waitSignal(window.settled):
        window.open_path(str(SAMPLE))
    assert not window.session.preview
    assert not window.tree_panel.preview_bar.isVisible()


def test_a_large_one_is_worked_out_in_a_job(window: MainWindow, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning_module, "MANY", 3)
    window.session.set_preview(True)
    assert window.jobs.running()
    window.session.change_policy(tie="keep")  # takes the place of the one that was begun
    qtbot.waitUntil(lambda: not window.jobs.running())
    assert "lm_head.weight" in keys(window)
    window.session.set_preview(False)
    qtbot.waitUntil(lambda: "_orig_mod.norm.weight" in keys(window))
    assert window.session.decisions.policy.tie == "keep"


def test_the_summary_is_of_what_will_be_there(window: MainWindow) -> None:
    assert window.plan_panel.summary.text() == "After the plan: 29 match · 0 missing · 0 extra"
    window.session.change_policy(tie="keep")
    assert window.plan_panel.summary.text() == "After the plan: 30 match · 0 missing · 0 extra"


def test_a_group_of_the_preview_is_told_in_figures(window: MainWindow) -> None:
    window.session.set_preview(True)
    panel, tabs = window.tree_panel, window.inspector_panel
    panel.clear_filter()
    place = next(n for n in range(panel.model.rowCount()) if panel.model.index(n, Column.KEY).data() == "model")
    panel.view.tree.setCurrentIndex(panel.model.index(place, 0))
    texts = [each.text() for each in tabs.findChildren(QLabel) if each.isVisible()]
    assert any("29 tensors" in text for text in texts) or "29" in texts, texts
