"""The box that explains a pasted message: cards, buttons, what an open checkpoint adds, and its ways in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication, QKeySequence
from PySide6.QtWidgets import QAbstractButton, QApplication, QFileDialog, QLabel
from pytestqt.qtbot import QtBot
from safetensors.numpy import save

from ckpt_gui.core.explain import CAUSES, Opened, Step
from ckpt_gui.core.export import Target
from ckpt_gui.core.policy import Policy
from ckpt_gui.desktop.resources import SAMPLE, resource
from ckpt_gui.gui.actions import ACTIONS
from ckpt_gui.gui.fix_command import fix_command
from ckpt_gui.gui.main_window import MainWindow
from ckpt_gui.gui.models.deeds import Deed, deed
from ckpt_gui.gui.models.explaining import EMPTY, UNKNOWN, answer
from ckpt_gui.gui.panels.explain_dialog import ExplainDialog
from ckpt_gui.gui.widgets.copy_button import CopyButton
from tests.gui.checkpoints import source
from tests.gui.windows import make_window

COMPILED = (
    'RuntimeError: Error(s) in loading state_dict for Transformer:\n\tMissing key(s) in state_dict: "norm.weight". \n'
    '\tUnexpected key(s) in state_dict: "_orig_mod.norm.weight". '
)
POINTER = "_pickle.UnpicklingError: invalid load key, 'v'."


def shown(window: MainWindow, qtbot: QtBot, text: str) -> ExplainDialog:
    """Return the box with a text in it, once it is explained."""
    window.actions_by_id["explain"].trigger()
    dialog = window.findChild(ExplainDialog)
    assert dialog is not None
    with qtbot.waitSignal(dialog.answered):
        dialog.edit.setPlainText(text)
    return dialog


def labels(dialog: ExplainDialog) -> str:
    """Return what the cards say, without the marks at which it may be broken."""
    return "\n".join(it.text() for it in dialog.area.findChildren(QLabel)).replace("\u200b", "")


@pytest.fixture
def window(qtbot: QtBot, qapp: QApplication) -> MainWindow:
    return make_window(qtbot, qapp)


@pytest.fixture
def full(qtbot: QtBot, qapp: QApplication) -> MainWindow:
    return make_window(qtbot, qapp, source())


def test_a_card_says_kind_cause_and_commands(window: MainWindow, qtbot: QtBot) -> None:
    dialog = shown(window, qtbot, POINTER)
    (card,) = dialog.cards
    assert card.explanation.id == "lfs-pointer"
    assert card.accessibleName().startswith("Damaged, cut short, or not a checkpoint: The file begins with “v”")
    assert "A  ·  Damaged" in labels(dialog)
    assert "git lfs pull\nckpt-gui check PATH" in labels(dialog)
    assert dialog.told.text() == "1 explanation."


def test_commands_are_copied(window: MainWindow, qtbot: QtBot) -> None:
    dialog = shown(window, qtbot, POINTER)
    copy = dialog.cards[0].findChildren(CopyButton)[0]
    copy.setFocus()
    qtbot.keyClick(copy, Qt.Key.Key_Space)
    assert QGuiApplication.clipboard().text() == "git lfs pull"
    assert copy.accessibleName() == "Copy the command git lfs pull"


def test_an_open_checkpoint_confirms_and_is_named(full: MainWindow, qtbot: QtBot) -> None:
    dialog = shown(full, qtbot, COMPILED)
    assert dialog.cards[0].explanation.confirmed
    assert "✓ The open checkpoint shows it: All" in labels(dialog)
    assert "ckpt-gui fix tiny.pt -o OUT --to same" in labels(dialog)


def test_a_button_exports_to_the_layout(full: MainWindow, qtbot: QtBot) -> None:
    dialog = shown(full, qtbot, COMPILED)
    same = next(it for it in dialog.cards[0].buttons if it.text() == "Export in the same layout…")
    same.click()
    assert full.session.decisions.target.layout == "same"
    assert full.commands.dialog is not None
    assert full.commands.dialog.isVisible()


def test_opening_a_checkpoint_explains_anew(window: MainWindow, qtbot: QtBot) -> None:
    dialog = shown(window, qtbot, f"{COMPILED}\nwhile loading '{resource(SAMPLE)}'")
    assert [it.text() for it in dialog.cards[0].buttons] == ["Open the file…"]
    opener = next(it for it in dialog.area.findChildren(QAbstractButton) if it.text() == "Open tiny-llama-compiled.pt")
    with qtbot.waitSignals([window.settled, dialog.answered]):
        opener.click()
    qtbot.waitUntil(lambda: bool(dialog.cards) and dialog.cards[0].explanation.confirmed)


def test_unknown_and_empty_texts_say_what_to_try(window: MainWindow, qtbot: QtBot) -> None:
    dialog = shown(window, qtbot, "it does not work")
    assert dialog.cards == []
    assert "ckpt-gui check PATH" in dialog.told.text()
    with qtbot.waitSignal(dialog.answered):
        dialog.edit.clear()
    assert dialog.told.text() == EMPTY


def test_what_was_copied_is_pasted_by_a_button(window: MainWindow, qtbot: QtBot) -> None:
    dialog = shown(window, qtbot, "x")
    QGuiApplication.clipboard().setText(POINTER)
    with qtbot.waitSignal(dialog.answered):
        dialog.paste_button.click()
    assert len(dialog.cards) == 1


def test_the_ways_in(window: MainWindow, qtbot: QtBot) -> None:
    keys = [QKeySequence(key).toString() for spec in ACTIONS for key in spec.keys]
    assert keys.count("Ctrl+Shift+H") == 1
    window.start_page.explain_button.click()
    first = window.findChild(ExplainDialog)
    assert first is not None
    assert first.isVisible()
    window.actions_by_id["explain"].trigger()
    assert window.findChildren(ExplainDialog) == [first]
    first.close()
    window.actions_by_id["explain"].trigger()
    assert any(it.isVisible() for it in window.findChildren(ExplainDialog))


def test_every_control_has_a_name_and_the_keyboard_reaches_it(full: MainWindow, qtbot: QtBot) -> None:
    dialog = shown(full, qtbot, COMPILED)
    buttons = [it for it in dialog.findChildren(QAbstractButton) if it.isVisible()]
    assert all(it.accessibleName() or it.text() for it in buttons)
    assert all(it.focusPolicy() & Qt.FocusPolicy.TabFocus for it in buttons)
    assert dialog.edit.accessibleName()
    qtbot.keyClick(dialog.edit, Qt.Key.Key_Tab)
    assert "\t\t" not in dialog.edit.toPlainText()
    assert dialog.edit.toPlainText() == COMPILED


def test_large_letters_break_the_lines(full: MainWindow, qtbot: QtBot) -> None:
    dialog = shown(full, qtbot, COMPILED)
    dialog.resize(300, 500)
    font = dialog.font()
    font.setPointSizeF(font.pointSizeF() * 2)
    dialog.setFont(font)
    QApplication.processEvents()
    assert dialog.area.widget().minimumSizeHint().width() <= dialog.area.viewport().width()
    assert dialog.area.horizontalScrollBarPolicy() is Qt.ScrollBarPolicy.ScrollBarAlwaysOff


def test_closing_the_window_stops_the_look_up(window: MainWindow, qtbot: QtBot) -> None:
    window.actions_by_id["explain"].trigger()
    dialog = window.findChild(ExplainDialog)
    assert dialog is not None
    dialog.edit.setPlainText(POINTER * 1000)
    window.close()
    assert window.jobs.running() == []


def test_files_that_are_named_and_exist(tmp_path: Path) -> None:
    there = tmp_path / "model.safetensors"
    there.touch()
    text = f"KeyError: 'metadata' in '{there}' and '{tmp_path}/gone.pt'"
    assert answer(text, None).files == (str(there),)
    assert answer(text, Opened(str(there), frozenset())).files == ()
    assert answer("?", None).told == UNKNOWN


@pytest.mark.parametrize(
    ("step", "is_open", "made"),
    [
        (Step("check"), False, Deed("Open the file…", "open-file")),
        (Step("check"), True, Deed("Show the findings", "findings")),
        (Step("check", ("--deep",)), True, Deed("Check all values", "check-values")),
        (Step("check", ("--lora-alpha", "16")), True, Deed("Give alpha…", "export")),
        (Step("check", ("--section", "NAME")), True, Deed("Choose the section", "findings")),
        (Step("check", ("--take", "FILE")), True, Deed("Take one of the models…", "take-model")),
        (Step("check", ("--config", "CONFIG")), True, Deed("Choose a config…", "choose-config")),
        (Step("fix", ("--adapter", "ADAPTER", "--to", "hf")), True, Deed("Merge an adapter…", "merge-adapter")),
        (Step("fix", ("--to", "meta")), True, Deed("Export to Meta…", "export", (("layout", "meta"),))),
        (Step("fix", ("--to", "meta")), False, Deed("Open the file…", "open-file")),
        (Step("fix", ("--salvage",)), True, Deed("Open what is whole…", "salvage")),
        (Step("fix", ("--salvage",)), False, Deed("Open what is whole…", "salvage")),
        (
            Step("fix", ("--to", "same", "--assigned-only")),
            True,
            Deed(
                "Export in the same layout with only what the index assigns…",
                "export",
                (("layout", "same"),),
                (("assigned_only", True),),
            ),
        ),
        (
            Step("fix", ("--to", "hf", "--tie", "copy")),
            True,
            Deed(
                "Export to Hugging Face with a copy of the embedding as head…",
                "export",
                (("layout", "hf"),),
                (("tie", "copy"),),
            ),
        ),
        (
            Step("fix", ("--to", "torchtune", "--max-shard-size", "10TB")),
            True,
            Deed(
                "Export to torchtune as one file…",
                "export",
                (("layout", "torchtune"), ("max_shard_bytes", 10 * 10**12)),
            ),
        ),
        (Step("shell", ("git", "lfs", "pull")), True, None),
    ],
)
def test_buttons_of_steps(step: Step, is_open: bool, made: Deed | None) -> None:
    assert deed(step, is_open=is_open) == made


@pytest.mark.parametrize("is_open", [True, False])
def test_every_cause_has_something_to_click(is_open: bool) -> None:
    known = {spec.id for spec in ACTIONS}
    for cause in CAUSES:
        deeds = [made for step in cause.steps if (made := deed(step, is_open=is_open)) is not None]
        assert deeds, cause.id
        assert {made.action for made in deeds} <= known, cause.id
        for made in deeds:
            Target(**dict(made.target))
            Policy(**dict(made.policy))


def test_a_button_decides_about_the_tied_pair(full: MainWindow, qtbot: QtBot) -> None:
    full.commands.do(deed(Step("fix", ("--to", "torchtune", "--tie", "keep", "--dtype", "bf16")), is_open=True))
    decisions = full.session.decisions
    assert (decisions.target.layout, decisions.target.dtype, decisions.policy.tie) == ("torchtune", "bf16", "keep")
    assert full.commands.dialog is not None
    assert full.commands.dialog.isVisible()


def test_what_is_whole_of_a_damaged_file_is_a_click_away(window: MainWindow, qtbot: QtBot, tmp_path: Path) -> None:
    path = tmp_path / "cut.safetensors"
    tensors = {f"layers.{n}.w": np.full((64, 64), n + 1, np.float32) for n in range(4)}
    path.write_bytes(save(tensors)[:-20_000])
    with qtbot.waitSignal(window.settled):
        window.open_path(str(path))
    panel = window.error_panel
    assert window.pages.currentWidget() is panel
    assert not panel.salvage_button.isHidden()
    assert (panel.salvage_button.property("kind"), panel.other_button.property("kind")) == ("primary", "")
    with qtbot.waitSignal(window.settled):
        panel.salvage_button.click()
    snapshot = window.session.snapshot
    assert snapshot is not None
    assert sorted(ref.key for ref in snapshot.source.refs) == ["layers.0.w", "layers.1.w"]
    assert fix_command(snapshot).endswith("--salvage")
    (tmp_path / "none.pt").write_bytes(b"no checkpoint")
    with qtbot.waitSignal(window.settled):
        window.open_path(str(tmp_path / "none.pt"))
    assert panel.salvage_button.isHidden()
    assert panel.other_button.property("kind") == "primary"


def test_one_of_several_models_is_taken(
    window: MainWindow, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("a.safetensors", 1), ("b.safetensors", 2)):
        (tmp_path / name).write_bytes(save({"w": np.full((8, 8), value, np.float32)}))
    with qtbot.waitSignal(window.settled):
        window.open_path(str(tmp_path))
    chosen = str(tmp_path / "b.safetensors")
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_args, **_options: (chosen, ""))
    with qtbot.waitSignal(window.settled):
        window.actions_by_id["take-model"].trigger()
    snapshot = window.session.snapshot
    assert snapshot is not None
    assert [ref.file for ref in snapshot.source.refs] == ["b.safetensors"]
    assert "--take b.safetensors" in fix_command(snapshot)
