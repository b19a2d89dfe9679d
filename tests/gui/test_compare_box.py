"""Comparing with something else than the own layout: the box, the tree, the findings, the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from ckpt_gui.core.families.known import KNOWN
from ckpt_gui.gui.main_window import MainWindow
from ckpt_gui.gui.models.tree_cells import row_cells
from ckpt_gui.gui.models.tree_columns import Column
from ckpt_gui.gui.panels.compare_box import OWN
from ckpt_gui.gui.window_state import arrange
from tests.builders import safetensors_bytes
from tests.gui.panel_files import CONFIG, llama_folder, llama_tensors
from tests.gui.windows import make_window

NORM, HEAD = "model.norm.weight", "lm_head.weight"


@pytest.fixture
def window(qtbot: QtBot, qapp: QApplication, tmp_path: Path) -> MainWindow:
    made = make_window(qtbot, qapp)
    with qtbot.waitSignal(made.settled):
        made.open_path(str(llama_folder(tmp_path / "mine", "differs")))
    return made


def compared(window: MainWindow, qtbot: QtBot, name: object) -> None:
    with qtbot.waitSignal(window.session.reference.ended):
        window.commands.compare_with(str(name))


def other_folder(path: Path) -> Path:
    """Write a model whose norm differs, which lacks a tensor and has another instead."""
    path.mkdir()
    tensors = llama_tensors("differs")
    tensors[NORM] = tensors[NORM] + 1
    del tensors["model.layers.0.mlp.up_proj.weight"]
    tensors["model.layers.1.input_layernorm.weight"] = tensors["model.layers.0.input_layernorm.weight"]
    (path / "model.safetensors").write_bytes(safetensors_bytes(tensors, {"format": "pt"}))
    (path / "config.json").write_text(json.dumps({**CONFIG, "num_hidden_layers": 2}))
    return path


def states(window: MainWindow) -> dict[str, str]:
    assert window.session.snapshot is not None
    return {row.path: row.state for row in window.session.snapshot.index.rows}


def test_both_shapes_can_be_read_and_missing_tensors_are_not_in_the_file(window: MainWindow, qtbot: QtBot) -> None:
    view, facts = window.tree_panel.view.current, window.inspector_panel.details.overview.facts
    stored = len(window.session.snapshot.source.refs)  # type: ignore[union-attr]
    compared(window, qtbot, "Llama-3.2-1B")
    assert {"shape", "missing"} <= set(states(window).values())
    rows = [row for row in window.session.snapshot.index.rows if row.state == "shape"]  # type: ignore[union-attr]
    longest = max((row_cells(row, None)[Column.SHAPE] for row in rows), key=len)
    assert view.columnWidth(Column.SHAPE) > view.fontMetrics().horizontalAdvance(longest)
    assert facts.value("tensors") == str(stored)


def test_another_checkpoint(window: MainWindow, qtbot: QtBot, tmp_path: Path) -> None:
    other = other_folder(tmp_path / "other")
    compared(window, qtbot, other)
    found = states(window)
    assert found[NORM] == "differs"
    assert found["model.layers.0.mlp.up_proj.weight"] == "extra"
    assert found["model.layers.1.input_layernorm.weight"] == "missing"
    assert found["model.layers.0.self_attn.q_proj.weight"] == "same"
    model = window.tree_panel.model
    title = model.headerData(Column.EXPECTED, Qt.Orientation.Horizontal)
    assert title == "Key in the reference"
    card = window.checkpoint_panel.card
    assert card is not None
    fact = next(f for f in card.facts if f.label == "Compared with")
    assert fact.value.startswith("other: 10 of 13 tensors alike")
    assert "different in values" in fact.evidence
    assert any(str(other) in f.message for f in card.findings)
    assert window.tree_panel.select_key(NORM)
    assert "different in values" in window.inspector_panel.details.banner.detail.lower()
    assert window.tool_bar.compare_box.combo.currentText() == str(other)


def test_back_to_its_own_layout(window: MainWindow, qtbot: QtBot, tmp_path: Path) -> None:
    before = states(window)
    compared(window, qtbot, other_folder(tmp_path / "other"))
    assert states(window) != before
    box = window.tool_bar.compare_box
    box.combo.setCurrentIndex(OWN)
    box.combo.activated.emit(OWN)
    assert states(window) == before
    assert window.session.reference.name == ""
    assert window.tree_panel.model.headerData(Column.EXPECTED, Qt.Orientation.Horizontal) == "Expected key"


def test_a_known_model_is_found_by_typing(window: MainWindow, qtbot: QtBot) -> None:
    box = window.tool_bar.compare_box
    completer = box.combo.completer()
    assert completer is not None
    completer.setCompletionPrefix("3.2-1b")
    assert completer.currentCompletion() == "Llama-3.2-1B"
    with qtbot.waitSignal(window.session.reference.ended):
        box.combo.activated.emit(box.combo.findData("Llama-3.2-1B"))
    assert window.session.snapshot is not None
    assert window.session.snapshot.beside is not None
    assert window.session.snapshot.beside.kind == "known"
    assert states(window)[NORM] == "shape"
    assert box.combo.count() == len(KNOWN) + 4


def test_a_config_and_a_path_that_is_typed(window: MainWindow, qtbot: QtBot, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**CONFIG, "num_hidden_layers": 2}))
    edit = window.tool_bar.compare_box.combo.lineEdit()
    assert edit is not None
    edit.setText(str(path))
    with qtbot.waitSignal(window.session.reference.ended):
        qtbot.keyClick(edit, Qt.Key.Key_Return)
    assert list(states(window).values()).count("missing") == 9


def test_what_is_no_reference_is_told_and_the_old_one_stands(window: MainWindow, qtbot: QtBot) -> None:
    before = states(window)
    compared(window, qtbot, "Lama-3.2-1B")
    assert "neither a file or folder nor the name of a known model" in window.notices.text("trouble")
    assert "Llama-3.2-1B" in window.notices.text("trouble"), "and what is spelled alike"
    assert window.tool_bar.compare_box.combo.currentText() == "its own layout"
    assert states(window) == before


def test_decisions_are_followed_beside_a_reference(window: MainWindow, qtbot: QtBot, tmp_path: Path) -> None:
    compared(window, qtbot, other_folder(tmp_path / "other"))
    window.session.change_target(layout="meta")
    assert states(window)[NORM] == "differs", "another target changes nothing of it"
    with qtbot.waitSignal(window.session.reference.ended):
        window.session.change_policy(tie="keep")
    assert states(window)[NORM] == "differs", "what is understood anew is compared anew"
    window.plan_panel.copy_command()
    check, fix = QGuiApplication.clipboard().text().splitlines()
    assert check.startswith("ckpt-gui check ")
    assert check.endswith(f" --against {tmp_path / 'other'}")
    assert "--tie keep" in fix


def test_the_command_line_names_a_reference(window: MainWindow, qtbot: QtBot, tmp_path: Path) -> None:
    other = other_folder(tmp_path / "other")
    with qtbot.waitSignal(window.session.reference.ended):
        arrange(window, None, None, None, str(other))
    assert states(window)[NORM] == "differs"
    window.commands.close_checkpoint()
    assert window.session.reference.name == ""
    assert window.tool_bar.compare_box.combo.currentText() == "its own layout"


def test_a_pair_that_should_be_one_is_marked(window: MainWindow) -> None:
    assert window.session.snapshot is not None
    row = next(row for row in window.session.snapshot.index.rows if row.key == HEAD)
    assert row.state == "differs"
    assert "the config says that the two are tied" in row.note
