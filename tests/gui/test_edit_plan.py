"""What is changed by hand: names by F2, rules and candidates, fields, tensors left out; and plans as files."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest
from PySide6.QtCore import QMimeData, QPointF, Qt, QUrl
from PySide6.QtGui import QDropEvent, QGuiApplication
from PySide6.QtWidgets import QApplication, QDialog, QFileDialog, QMenu, QPushButton, QTreeWidgetItem
from pytestqt.qtbot import QtBot

from ckpt_gui.cli.main import main
from ckpt_gui.core.edits import FieldEdit, Rename
from ckpt_gui.core.export import Target
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.plan_file import parse_plan, plan_text, read_plan
from ckpt_gui.core.policy import Policy
from ckpt_gui.desktop.instance import Request
from ckpt_gui.gui.fix_command import fix_command
from ckpt_gui.gui.main_window import MainWindow
from ckpt_gui.gui.panels import rule_dialog
from ckpt_gui.gui.panels.fields_dialog import FieldsDialog
from ckpt_gui.gui.panels.map_dialog import MapDialog
from ckpt_gui.gui.panels.plan_steps import CHECK, COUNT, EVIDENCE, STEP
from ckpt_gui.gui.panels.rule_dialog import RuleDialog
from ckpt_gui.gui.settings import Settings
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.fields_table import AFTER
from ckpt_gui.gui.window_state import reopen, state_of
from ckpt_gui.gui.windows import Windows
from tests.builders import safetensors_bytes
from tests.gui.panel_files import CONFIG, llama_folder, llama_tensors
from tests.gui.windows import make_window, window_on

SAMPLE = Path(__file__).resolve().parents[2] / "resources" / "sample" / "tiny-llama-compiled.pt"
WQ = "_orig_mod.layers.1.attention.wq.weight"
GATE = Rename("blk.{layer}.gate", "model.layers.{layer}.mlp.gate_proj.weight", "template")
Dialog = TypeVar("Dialog", bound=QDialog)


@pytest.fixture
def window(qtbot: QtBot, qapp: QApplication) -> MainWindow:
    return window_on(qtbot, qapp, SAMPLE, "tensors")


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """A model of which two tensors have names that nobody knows."""
    folder = llama_folder(tmp_path / "odd")
    tensors = llama_tensors("none")
    tensors["blk.0.gate"] = tensors.pop("model.layers.0.mlp.gate_proj.weight")
    tensors["final_norm"] = tensors.pop("model.norm.weight")
    (folder / "model.safetensors").write_bytes(safetensors_bytes(tensors, {"format": "pt", "note": "old"}))
    return folder


def dialog_of(window: MainWindow, kind: type[Dialog]) -> Dialog:
    found = [each for each in window.findChildren(kind) if each.isVisible()]
    assert len(found) == 1
    return found[0]


def steps(window: MainWindow) -> list[QTreeWidgetItem]:
    tree = window.plan_panel.tree
    found = [tree.topLevelItem(n) for n in range(tree.topLevelItemCount())]
    return [item for item in found if item is not None]


def way_out(window: MainWindow, qtbot: QtBot, name: str) -> QPushButton:
    """Return the button of a way out of what blocks, once it is shown."""

    def found() -> list[QPushButton]:
        buttons = window.plan_panel.detail.findChildren(QPushButton)
        return [each for each in buttons if each.accessibleName() == name and each.isVisible()]

    qtbot.waitUntil(lambda: len(found()) == 1)
    return found()[0]


def renames(window: MainWindow) -> tuple[Rename, ...]:
    return window.session.decisions.policy.renames


# --------------------------------------------------------------------------------------------------------------- names


def test_f2_renames_a_key_in_all_layers(window: MainWindow, qtbot: QtBot) -> None:
    window.tree_panel.select_key(WQ)
    qtbot.keyClick(window, Qt.Key.Key_F2)
    dialog = dialog_of(window, RuleDialog)
    assert dialog.old_edit.text() == dialog.new_edit.text() == "layers.{layer}.attention.wq.weight"
    assert not dialog.ok_button.isEnabled()
    dialog.new_edit.clear()
    qtbot.keyClicks(dialog.new_edit, "layers.{layer}.attention.query")
    qtbot.waitUntil(dialog.ok_button.isEnabled)
    assert dialog.count_label.text() == "Matches 3 tensors"
    shown = [dialog.examples.topLevelItem(n) for n in range(3)]
    assert [item.text(1) for item in shown if item is not None] == [f"layers.{n}.attention.query" for n in range(3)]
    qtbot.keyClick(dialog, Qt.Key.Key_Return)
    assert renames(window) == (
        Rename("layers.{layer}.attention.wq.weight", "layers.{layer}.attention.query", "template"),
    )
    assert "3 missing" in window.plan_panel.summary.text()
    window.session.undo_stack.undo()
    assert renames(window) == ()
    assert "0 missing" in window.plan_panel.summary.text()


def test_f2_on_a_key_that_a_rule_has_renamed_changes_that_rule(window: MainWindow, qtbot: QtBot) -> None:
    first = Rename("layers.{layer}.attention.wk.weight", "layers.{layer}.attention.key", "template")
    made = Rename("layers.{layer}.attention.wq.weight", "layers.{layer}.attention.query", "template")
    window.session.change_policy(renames=(first, made))
    window.tree_panel.select_key(WQ)
    qtbot.keyClick(window, Qt.Key.Key_F2)
    dialog = dialog_of(window, RuleDialog)
    assert dialog.old_edit.text() == made.old
    assert dialog.new_edit.text() == made.new
    assert dialog.count_label.text() == "Matches 3 tensors"
    dialog.new_edit.setText("layers.{layer}.attention.q.weight")
    qtbot.waitUntil(dialog.ok_button.isEnabled)
    qtbot.keyClick(dialog, Qt.Key.Key_Return)
    assert renames(window) == (first, Rename(made.old, "layers.{layer}.attention.q.weight", "template"))


@pytest.mark.parametrize(
    ("rule", "skip", "name"),
    [
        (Rename(r"\.wq\.", ".query.", "regex"), (), "layers.{layer}.attention.query.weight"),
        (Rename("layers.{layer}.attention.wq.weight", "q.{layer}", "template"), ("edit:0",), None),
    ],
)
def test_f2_begins_with_the_name_that_the_rules_leave(
    window: MainWindow, qtbot: QtBot, rule: Rename, skip: tuple[str, ...], name: str | None
) -> None:
    window.session.change_policy(renames=(rule,), skip=frozenset(skip))
    window.tree_panel.select_key(WQ)
    qtbot.keyClick(window, Qt.Key.Key_F2)
    dialog = dialog_of(window, RuleDialog)
    assert dialog.old_edit.text() == dialog.new_edit.text() == (name or "layers.{layer}.attention.wq.weight")
    dialog.new_edit.setText("layers.{layer}.attention.other")
    qtbot.waitUntil(dialog.ok_button.isEnabled)
    assert dialog.count_label.text() == "Matches 3 tensors", "a rule that is ticked off does nothing before it"
    dialog.reject()


def test_what_is_wrong_with_a_rule_is_said_in_the_dialog(window: MainWindow, qtbot: QtBot) -> None:
    window.actions_by_id["rule"].trigger()
    dialog = dialog_of(window, RuleDialog)
    assert dialog.regex_box.isChecked()
    wrong = (
        ("(", "x", "is no regular expression"),
        ("wq", r"\7", "invalid group"),
        ("nowhere", "x", "Matches 0 tensors"),
    )
    for old, new, said in wrong:
        dialog.old_edit.setText(old)
        dialog.new_edit.setText(new)
        dialog._count()
        assert not dialog.ok_button.isEnabled(), old
        assert said in dialog.count_label.text()
    dialog.old_edit.setText(r"attention\.w([qk])\.weight")
    dialog.new_edit.setText(r"attn.\1")
    qtbot.waitUntil(dialog.ok_button.isEnabled)
    assert dialog.count_label.text() == "Matches 6 tensors"
    dialog.reject()
    assert renames(window) == ()


def test_many_keys_are_counted_in_a_job(window: MainWindow, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule_dialog, "MANY", 3)
    window.actions_by_id["rule"].trigger()
    dialog = dialog_of(window, RuleDialog)
    dialog.old_edit.setText("wq")
    dialog.new_edit.setText("query")
    qtbot.waitUntil(dialog.ok_button.isEnabled)
    assert dialog.count_label.text() == "Matches 3 tensors"
    dialog.old_edit.setText("wk")
    dialog._count()
    dialog.reject()  # while it is counted
    qtbot.waitUntil(lambda: not window.jobs.running())


def test_rules_are_rows_that_can_be_changed_moved_and_taken_out(qtbot: QtBot, qapp: QApplication, odd: Path) -> None:
    window = window_on(qtbot, qapp, odd, "tensors")
    assert window.session.snapshot is not None
    assert window.session.snapshot.export.blocked
    window.session.set_rule(GATE, None)
    window.session.set_rule(Rename("final_norm", "model.norm.weight"), None)
    window.session.set_rule(Rename("nothing", "x"), None)
    assert not window.session.snapshot.export.blocked
    plan = window.plan_panel
    rows = {item.text(STEP): item for item in steps(window)}
    idle = rows["Rename “nothing” to “x”"]
    assert (idle.text(COUNT), idle.text(EVIDENCE)) == ("0", "Fits no tensor of this checkpoint.")
    plan.tree.setCurrentItem(idle)
    qtbot.keyClick(plan.tree, Qt.Key.Key_Delete)
    assert len(renames(window)) == 2
    norm = next(item for item in steps(window) if "final_norm" in item.text(STEP))
    plan.tree.setCurrentItem(norm)
    qtbot.keyClick(plan.tree, Qt.Key.Key_Up, Qt.KeyboardModifier.ControlModifier)
    assert [rule.old for rule in renames(window)] == ["final_norm", "blk.{layer}.gate"]
    norm = next(item for item in steps(window) if "final_norm" in item.text(STEP))
    with qtbot.waitSignal(window.session.changed):
        norm.setCheckState(CHECK, Qt.CheckState.Unchecked)
    assert window.session.snapshot.export.blocked, "ticked off, it is not done"
    norm = next(item for item in steps(window) if "final_norm" in item.text(STEP))
    assert norm.checkState(CHECK) == Qt.CheckState.Unchecked
    plan.tree.setCurrentItem(norm)
    plan.tree.itemActivated.emit(norm, STEP)
    dialog = dialog_of(window, RuleDialog)
    assert dialog.old_edit.text() == "final_norm"
    dialog.new_edit.setText("model.norm.other")
    qtbot.waitUntil(dialog.ok_button.isEnabled)
    qtbot.mouseClick(dialog.ok_button, Qt.MouseButton.LeftButton)
    assert renames(window)[0].new == "model.norm.other"
    for _ in range(6):
        window.session.undo_stack.undo()
    assert renames(window)[:1] == (GATE,)


# ---------------------------------------------------------------------------------------------------------- candidates


@pytest.mark.parametrize("from_missing", [False, True])
def test_a_tensor_is_mapped_to_the_expected_one(
    qtbot: QtBot, qapp: QApplication, odd: Path, tmp_path: Path, from_missing: bool
) -> None:
    window = window_on(qtbot, qapp, odd, "tensors")
    for key, name in (("blk.0.gate", "model.layers.0.mlp.gate_proj.weight"), ("final_norm", "model.norm.weight")):
        window.tree_panel.select_key(name if from_missing else key)
        window.actions_by_id["map"].trigger()
        dialog = dialog_of(window, MapDialog)
        qtbot.waitUntil(lambda d=dialog: d.tree.topLevelItemCount() > 0)
        first = dialog.tree.topLevelItem(0)
        assert first is not None
        assert first.text(0) == (key if from_missing else name)
        assert first.text(1).startswith("=")
        qtbot.keyClick(dialog.tree, Qt.Key.Key_Return)
    assert window.session.snapshot is not None
    assert not window.session.snapshot.export.blocked
    assert "0 missing · 0 extra" in window.plan_panel.summary.text()


def test_what_is_missing_offers_to_map(qtbot: QtBot, qapp: QApplication, odd: Path) -> None:
    window = window_on(qtbot, qapp, odd, "tensors")
    plan = window.plan_panel
    plan.tree.setCurrentItem(steps(window)[0])
    qtbot.mouseClick(way_out(window, qtbot, "Map one of them…"), Qt.MouseButton.LeftButton)
    dialog_of(window, MapDialog).reject()
    qtbot.waitUntil(lambda: not window.jobs.running())


def test_a_rename_that_leaves_tensors_missing_can_be_taken_back_there(window: MainWindow, qtbot: QtBot) -> None:
    window.session.set_rule(Rename("layers.{layer}.attention.wq.weight", "layers.{layer}.query", "template"), None)
    plan = window.plan_panel
    plan.tree.setCurrentItem(steps(window)[0])
    name = "Do not rename “layers.{layer}.attention.wq.weight” to “layers.{layer}.query”"
    way = way_out(window, qtbot, name)
    assert "…" in way.text(), "short enough for its place"
    assert name in way.toolTip()
    assert plan.detail.widget().minimumSizeHint().width() <= plan.detail.viewport().width()
    qtbot.mouseClick(way, Qt.MouseButton.LeftButton)
    assert window.session.decisions.policy.skip == {"edit:0"}
    assert "0 missing" in plan.summary.text()


def test_the_menu_of_the_tree_offers_it(window: MainWindow) -> None:
    window.tree_panel.select_key(WQ)
    menu = QMenu(window)
    window.tree_panel.view.menu_opening.emit(menu, window.tree_panel.view.selected_rows())
    texts = [action.text().replace("&", "") for action in menu.actions()]
    assert {"Rename a key…", "Map to expected…"} <= set(texts)


def test_space_leaves_the_head_out_or_keeps_it(window: MainWindow, qtbot: QtBot) -> None:
    window.tree_panel.select_key("_orig_mod.output.weight")
    view = window.tree_panel.view.current
    qtbot.keyClick(view, Qt.Key.Key_Space)
    assert window.session.decisions.policy.skip == {"tie"}
    qtbot.keyClick(view, Qt.Key.Key_Space)
    assert window.session.decisions.policy.skip == frozenset()


def test_space_leaves_an_extra_tensor_out(qtbot: QtBot, qapp: QApplication, odd: Path) -> None:
    window = window_on(qtbot, qapp, odd, "tensors")
    window.tree_panel.select_key("final_norm")
    qtbot.keyClick(window.tree_panel.view.current, Qt.Key.Key_Space)
    assert window.session.decisions.policy.dropped == {"final_norm"}


def test_space_keeps_computed_tensors_one_by_one(qtbot: QtBot, qapp: QApplication, tmp_path: Path) -> None:
    folder = llama_folder(tmp_path / "m")
    first, second = "model.layers.0.self_attn.rotary_emb.inv_freq", "model.rotary_emb.inv_freq"
    tensors = llama_tensors() | {first: np.arange(2, dtype=np.float32), second: np.arange(3, dtype=np.float32)}
    (folder / "model.safetensors").write_bytes(safetensors_bytes(tensors, {"format": "pt"}))
    window = window_on(qtbot, qapp, folder, "tensors")
    window.tree_panel.select_key(second)
    view = window.tree_panel.view.current
    qtbot.keyClick(view, Qt.Key.Key_Space)
    assert window.session.decisions.policy.kept == {second}
    snapshot = window.session.snapshot
    assert snapshot is not None
    assert [d.ref.key for d in snapshot.export.dropped if d.kind == "buffer"] == [first]
    assert f"--keep {second}" in fix_command(snapshot)
    assert window.session.undo_stack.undoText() == "keeping 1 computed tensor"
    assert parse_plan(window.session.decisions.plan_text().encode()).policy.kept == {second}
    menu = QMenu(window)
    window.tree_panel.view.menu_opening.emit(menu, window.tree_panel.view.selected_rows())
    assert "Leave out of the export" in [action.text() for action in menu.actions()]
    qtbot.keyClick(window.tree_panel.view.current, Qt.Key.Key_Space)
    assert window.session.decisions.policy.kept == frozenset()


# -------------------------------------------------------------------------------------------------------------- fields


def test_fields_and_metadata_are_edited_and_written(qtbot: QtBot, qapp: QApplication, tmp_path: Path) -> None:
    window = window_on(qtbot, qapp, llama_folder(tmp_path / "m"), "tensors")
    window.actions_by_id["fields"].trigger()
    dialog = dialog_of(window, FieldsDialog)
    dialog.config.go_to("rms_norm_eps")
    dialog.config.item(dialog.config.currentRow(), AFTER).setText("0.5")  # type: ignore[union-attr]
    dialog.tabs.setCurrentWidget(dialog.metadata)
    qtbot.mouseClick(dialog.add_button, Qt.MouseButton.LeftButton)
    row = dialog.metadata.rowCount() - 1
    dialog.metadata.item(row, 0).setText("made")  # type: ignore[union-attr]
    dialog.metadata.item(row, AFTER).setText("by hand")  # type: ignore[union-attr]
    qtbot.mouseClick(dialog.ok_button, Qt.MouseButton.LeftButton)
    assert window.session.decisions.policy.config == (FieldEdit("rms_norm_eps", "0.5"),)
    assert window.session.decisions.target.metadata == (FieldEdit("made", "by hand"),)
    snapshot = window.session.snapshot
    assert snapshot is not None
    assert json.loads(snapshot.export.texts["config.json"])["rms_norm_eps"] == 0.5
    plan = window.plan_panel
    row_of = next(item for item in steps(window) if "rms_norm_eps" in item.text(STEP))
    plan.tree.setCurrentItem(row_of)
    first = plan.detail.changes.topLevelItem(0)
    assert first is not None
    assert (first.text(0), first.text(1)) == ("rms_norm_eps = 1e-05", "rms_norm_eps = 0.5")
    window.session.undo_stack.undo()
    assert window.session.decisions.policy.config == ()
    assert window.session.decisions.target.metadata == ()


def test_a_value_of_the_wrong_kind_is_refused_in_the_dialog(qtbot: QtBot, qapp: QApplication, tmp_path: Path) -> None:
    window = window_on(qtbot, qapp, llama_folder(tmp_path / "m"), "tensors")
    window.commands.edit_fields("vocab_size")
    dialog = dialog_of(window, FieldsDialog)
    cell = dialog.config.currentItem()
    assert cell is not None
    cell.setText("many")
    assert not dialog.ok_button.isEnabled()
    assert "vocab_size" in dialog.trouble.text()
    qtbot.mouseClick(dialog.back_button, Qt.MouseButton.LeftButton)
    assert dialog.ok_button.isEnabled()
    qtbot.mouseClick(dialog.remove_button, Qt.MouseButton.LeftButton)
    assert dialog.config_edits() == (FieldEdit("vocab_size", None),)
    dialog.reject()


def test_a_finding_that_names_a_field_leads_to_it(qtbot: QtBot, qapp: QApplication, tmp_path: Path) -> None:
    folder = llama_folder(tmp_path / "m", config={**CONFIG, "vocab_size": 9})
    window = window_on(qtbot, qapp, folder, "tensors")
    buttons = [each for each in window.checkpoint_panel.findChildren(QPushButton) if each.text() == "Edit vocab_size…"]
    qtbot.mouseClick(buttons[0], Qt.MouseButton.LeftButton)
    dialog = dialog_of(window, FieldsDialog)
    assert not any("hidden" in each.text() for each in buttons)
    assert dialog.config.currentItem() is not None
    assert dialog.config.item(0, 0).text() == "vocab_size"  # type: ignore[union-attr]
    dialog.reject()


# --------------------------------------------------------------------------------------------------------------- files


def saved(window: MainWindow, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_args, **_more: (str(path), ""))
    window.actions_by_id["save-plan"].trigger()


def test_a_plan_is_saved_and_applied_to_another_checkpoint(
    qtbot: QtBot, qapp: QApplication, odd: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = window_on(qtbot, qapp, odd, "tensors")
    window.session.set_rule(GATE, None)
    window.session.change_target(dtype="bf16")
    assert window.session.unsaved
    saved(window, tmp_path / "plan.json", monkeypatch)
    assert not window.session.unsaved
    assert not window.isWindowModified()
    assert read_plan(tmp_path / "plan.json").policy.renames == (GATE,)

    other = window_on(qtbot, qapp, SAMPLE, "tensors")
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_args, **_more: (str(tmp_path / "plan.json"), ""))
    with qtbot.waitSignal(other.session.changed):
        other.actions_by_id["load-plan"].trigger()
    assert other.session.decisions.target.dtype == "bf16"
    assert any("blk.{layer}.gate" in item.text(STEP) for item in steps(other)), "what does not fit is a row, too"
    assert other.session.snapshot is not None
    assert "edit-unmatched" in {finding.code for finding in other.session.snapshot.export.findings}
    other.session.undo_stack.undo()
    assert renames(other) == ()


def test_a_plan_is_dropped_on_the_window(
    window: MainWindow, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    window.session.change_policy(tie="keep")
    saved(window, tmp_path / "plan.json", monkeypatch)
    window.session.undo_stack.undo()
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(tmp_path / "plan.json"))])
    action, buttons, keys = Qt.DropAction.CopyAction, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    with qtbot.waitSignal(window.session.changed):
        window.drops.eventFilter(window, QDropEvent(QPointF(1, 1), action, data, buttons, keys))
    assert window.session.decisions.policy.tie == "keep"
    assert window.session.path == str(SAMPLE), "the checkpoint stays open"


def test_what_is_no_plan_is_told(window: MainWindow, qtbot: QtBot, tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text('{"schema": 1, "policy": {"nonsense": 1}, "target": {}}')
    window.plan_keeper.load(str(tmp_path / "p.json"))
    qtbot.waitUntil(lambda: "nonsense" in window.notices.text("plan"))


def test_the_question_can_save_the_plan(
    window: MainWindow, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    window.session.change_policy(tie="keep")
    window.plan_keeper.ask = lambda _window, _name: "save"
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_args, **_more: ("", ""))
    assert not window.close(), "no file was named, so nothing is lost"
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_args, **_more: (str(tmp_path / "p.json"), ""))
    assert window.close()
    assert read_plan(tmp_path / "p.json").policy.tie == "keep"


def test_the_last_session_has_the_edited_plan(window: MainWindow, qtbot: QtBot, qapp: QApplication) -> None:
    window.session.set_rule(Rename("a", "b"), None)
    state = state_of(window)
    assert state is not None
    other = make_window(qtbot, qapp)
    reopen(other, state)
    qtbot.waitUntil(lambda: other.session.snapshot is not None and bool(renames(other)))
    assert renames(other) == (Rename("a", "b"),)


def test_the_copied_command_does_the_same(qtbot: QtBot, qapp: QApplication, odd: Path, tmp_path: Path) -> None:
    window = window_on(qtbot, qapp, odd, "tensors")
    window.session.set_rule(GATE, None)
    window.session.set_rule(Rename(r"^final_(\w+)$", r"model.\1.weight", "regex"), None)
    window.session.change_policy(config=(FieldEdit("rms_norm_eps", "0.5"), FieldEdit("vocab_size", None)))
    window.session.change_target(layout="hf", metadata=(FieldEdit("note", "new text"),))
    assert window.session.snapshot is not None
    assert not window.session.snapshot.export.blocked
    qtbot.mouseClick(window.plan_panel.copy_button, Qt.MouseButton.LeftButton)
    words = shlex.split(QGuiApplication.clipboard().text())
    words[words.index("-o") + 1] = str(tmp_path / "out")
    assert main(words[1:]) == 0
    assert json.loads((tmp_path / "out" / "config.json").read_text())["rms_norm_eps"] == 0.5
    with open_checkpoint(tmp_path / "out") as source:
        assert dict(source.metadata) == {"format": "pt", "note": "new text"}
        assert {"model.norm.weight", "model.layers.0.mlp.gate_proj.weight"} <= {ref.key for ref in source.refs}


def test_the_program_starts_with_a_plan(qtbot: QtBot, qapp: QApplication, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(plan_text(Policy(tie="keep"), Target("torchtune")))
    windows = Windows(Settings(), Theme(qapp, "light"))
    window = windows.take(Request((str(SAMPLE),), plan=str(tmp_path / "plan.json")))
    assert isinstance(window, MainWindow)
    qtbot.addWidget(window)
    qtbot.waitUntil(lambda: window.session.decisions.policy.tie == "keep")
    assert window.session.decisions.target.layout == "torchtune"
    windows.close_all()


def test_a_key_in_a_finding_names_no_field(qtbot: QtBot, qapp: QApplication, tmp_path: Path) -> None:
    folder = llama_folder(tmp_path / "m", config={**CONFIG, "layers": 1}, without="up_proj")
    window = window_on(qtbot, qapp, folder, "tensors")
    (card,) = [each for each in window.checkpoint_panel.finding_cards if each.finding.code == "missing-tensor"]
    assert "layers.0" in card.finding.message
    assert [each.text() for each in card.findChildren(QPushButton)] == []
