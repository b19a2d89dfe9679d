"""The main job in the real window: open the sample, see diff and plan, export, open the export: clean."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from ckpt_gui.gui.main_window import MainWindow
from tests.gui.windows import make_window
from tests.tiny_llama import load_folder, loss

SAMPLE = Path(__file__).resolve().parents[2] / "resources" / "sample"


@pytest.fixture
def window(qtbot: QtBot, qapp: QApplication) -> MainWindow:
    return make_window(qtbot, qapp)


def opened(window: MainWindow, qtbot: QtBot) -> None:
    with qtbot.waitSignal(window.settled):
        qtbot.mouseClick(window.start_page.sample_button, Qt.MouseButton.LeftButton)


def exported(window: MainWindow, qtbot: QtBot, layout: str, folder: Path) -> None:
    """Choose a layout, press Fix, name a folder, press Export, and open what was written."""
    window.session.change_target(layout=layout)
    qtbot.mouseClick(window.tool_bar.fix_button, Qt.MouseButton.LeftButton)
    dialog = window.commands.dialog
    assert dialog is not None
    dialog.set_folder(str(folder))
    qtbot.waitUntil(dialog.export_button.isEnabled)
    qtbot.mouseClick(dialog.export_button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: not dialog.run.running)
    assert dialog.result_page.banner.text.startswith("Written and verified")
    qtbot.mouseClick(dialog.result_page.open_button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: shown(window) == str(folder))


def shown(window: MainWindow) -> str | None:
    """Return the path of the checkpoint that the window shows, once it does."""
    return window.session.snapshot.source.path if window.session.snapshot else None


def test_from_the_sample_to_a_clean_export(window: MainWindow, qtbot: QtBot, tmp_path: Path) -> None:
    opened(window, qtbot)
    snapshot = window.session.snapshot
    assert snapshot is not None
    assert snapshot.diff.counts == {"renamed": 23, "transform": 6, "tied": 1, "aside": 87}
    assert [s.id for s in snapshot.export.steps] == ["section", "unwrap", "rename", "permute", "tie", "config"]
    assert "29 match · 0 missing · 0 extra" in window.plan_panel.summary.text()

    exported(window, qtbot, "hf", tmp_path / "hf")
    snapshot = window.session.snapshot
    assert snapshot is not None
    assert snapshot.plan.findings == ()
    assert snapshot.diff.counts == {"same": 29}

    expected = json.loads((SAMPLE / "expected.json").read_text())
    weights, config = load_folder(tmp_path / "hf")
    measured = loss(weights, config, expected["sentence"].encode())
    assert measured == pytest.approx(expected["loss"], abs=expected["tolerance"])


def test_around_all_layouts_and_back(window: MainWindow, qtbot: QtBot, tmp_path: Path) -> None:
    opened(window, qtbot)
    for place, layout in enumerate(("hf", "meta", "torchtune", "same", "hf")):
        exported(window, qtbot, layout, tmp_path / f"{place}-{layout}")
        snapshot = window.session.snapshot
        assert snapshot is not None
        assert snapshot.plan.status == "clean"
    files = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("0-hf", "4-hf")]
    assert files[0] == files[1]
