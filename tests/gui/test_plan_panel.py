"""The fix plan: steps, ticks, what blocks, and the command."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication, QPushButton, QTreeWidgetItem
from pytestqt.qtbot import QtBot

from ckpt_gui.gui.fix_command import default_folder, fix_command, unsayable
from ckpt_gui.gui.panels import plan_changes
from ckpt_gui.gui.panels.export_check import Check, refusal
from ckpt_gui.gui.panels.plan_panel import PlanPanel
from ckpt_gui.gui.panels.plan_steps import CHECK, COUNT, EVIDENCE, STEP, SURE, VALUES
from ckpt_gui.gui.session import Session
from ckpt_gui.gui.theme import Theme
from tests.builders import safetensors_bytes
from tests.gui.panel_files import llama_folder, llama_tensors, make_theme, open_in, session_of
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
def panel(qtbot: QtBot, session: Session, theme: Theme) -> PlanPanel:
    made = PlanPanel(session, theme)
    qtbot.addWidget(made)
    made.resize(1100, 300)
    made.show()
    return made


def items(panel: PlanPanel) -> list[QTreeWidgetItem]:
    found = [panel.tree.topLevelItem(n) for n in range(panel.tree.topLevelItemCount())]
    return [item for item in found if item is not None]


def item_of(panel: PlanPanel, text: str) -> QTreeWidgetItem:
    return next(item for item in items(panel) if text in item.text(STEP))


def ticked(item: QTreeWidgetItem) -> bool:
    return item.checkState(CHECK) == Qt.CheckState.Checked


def test_every_step_is_a_row(panel: PlanPanel) -> None:
    assert [item.text(STEP) for item in items(panel)] == [
        "Take the weights out of “model”",
        "Take off “_orig_mod”",
        "Rename Meta → Hugging Face",
        "Reorder the rows of q and k",
        "Leave out “_orig_mod.output.weight”",
        "Write config.json",
    ]
    permute = item_of(panel, "Reorder")
    assert (permute.text(COUNT), permute.text(VALUES)) == ("6", "change")
    assert item_of(panel, "Rename").text(VALUES) == "same"
    assert panel.summary.text() == "After the plan: 29 match · 0 missing · 0 extra"


def test_only_optional_steps_can_be_ticked_off(panel: PlanPanel) -> None:
    free = [item for item in items(panel) if item.flags() & Qt.ItemFlag.ItemIsUserCheckable]
    assert [item.text(STEP) for item in free] == ["Leave out “_orig_mod.output.weight”"]
    assert all(ticked(item) for item in items(panel))
    assert "gibberish" in item_of(panel, "Reorder").toolTip(CHECK)


@pytest.mark.parametrize("by", ["click", "space"])
def test_ticking_a_step_off_and_on_makes_another_plan(
    panel: PlanPanel, session: Session, qtbot: QtBot, by: str
) -> None:
    def tick(text: str) -> None:
        item = item_of(panel, text)
        panel.tree.scrollToItem(item)
        box = panel.tree.visualItemRect(item)
        if by == "click":
            qtbot.mouseClick(panel.tree.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(10, box.center().y()))
        else:
            panel.tree.setCurrentItem(item)
            qtbot.keyClick(panel.tree, Qt.Key.Key_Space)

    with qtbot.waitSignal(session.changed):
        tick("Leave out")
    assert session.snapshot is not None
    assert session.snapshot.decisions.policy.skip == {"tie"}
    assert panel.summary.text().startswith("After the plan: 30 match")
    assert not ticked(item_of(panel, "Leave out")), "it stays in the list"
    with qtbot.waitSignal(session.changed):
        tick("Leave out")
    assert session.snapshot.decisions.policy.skip == frozenset()
    assert ticked(item_of(panel, "Leave out"))
    tick("Rename")
    with qtbot.waitSignal(session.changed):
        tick("Leave out")
    assert session.snapshot.decisions.policy.skip == {"tie"}, "what is required has no tick to take away"


def test_a_cast_is_taken_back_by_its_tick(panel: PlanPanel, session: Session, qtbot: QtBot) -> None:
    session.change_target(dtype="fp32")
    with qtbot.waitSignal(session.changed):
        item_of(panel, "Cast to fp32").setCheckState(CHECK, Qt.CheckState.Unchecked)
    assert session.snapshot is not None
    assert session.snapshot.decisions.target.dtype == "keep"


def test_tensors_left_out_by_hand_come_back_by_their_tick(panel: PlanPanel, session: Session, qtbot: QtBot) -> None:
    session.change_policy(dropped=frozenset({"model._orig_mod.norm.weight"}))
    assert session.snapshot is not None
    assert unsayable(session.snapshot) == 0
    assert fix_command(session.snapshot).endswith("--drop model._orig_mod.norm.weight")
    with qtbot.waitSignal(session.changed):
        item_of(panel, "Leave out 1 tensor").setCheckState(CHECK, Qt.CheckState.Unchecked)
    assert session.snapshot.decisions.policy.dropped == frozenset()


def test_a_selected_step_shows_examples_and_names_its_tensors(panel: PlanPanel, qtbot: QtBot) -> None:
    with qtbot.waitSignal(panel.step_selected) as signal:
        panel.tree.setCurrentItem(item_of(panel, "Rename"))
    assert len(signal.args[0]) == 29
    assert "model._orig_mod.norm.weight" in signal.args[0]
    first = panel.detail.changes.topLevelItem(0)
    assert first is not None
    assert (first.text(0), first.text(1)) == ("_orig_mod.tok_embeddings.weight", "model.embed_tokens.weight")
    assert panel.detail.reason.text().startswith("Required")
    panel.tree.setCurrentItem(item_of(panel, "Reorder"))
    first = panel.detail.changes.topLevelItem(0)
    assert first is not None
    assert first.text(1) == "rotary rows pairs → halves, 6 heads"
    panel.tree.setCurrentItem(item_of(panel, "Leave out"))
    first = panel.detail.changes.topLevelItem(0)
    assert first is not None
    assert first.text(1).startswith("– (equals the embedding")
    with qtbot.waitSignal(panel.step_selected) as signal:
        qtbot.keyClick(panel.tree, Qt.Key.Key_Escape)
    assert signal.args[0] == ()


def test_the_selection_survives_another_snapshot(panel: PlanPanel, session: Session) -> None:
    panel.tree.setCurrentItem(item_of(panel, "Reorder"))
    session.change_target(dtype="fp16")
    assert [item.text(STEP) for item in panel.tree.selectedItems()] == ["Reorder the rows of q and k"]
    session.change_target(layout="meta")
    assert panel.tree.selectedItems() == []


def test_what_blocks_comes_first_and_says_what_to_do(qtbot: QtBot, theme: Theme, tmp_path: Path) -> None:
    with session_of(qtbot, llama_folder(tmp_path / "m", without="up_proj")) as session:
        panel = PlanPanel(session, theme)
        qtbot.addWidget(panel)
        first = items(panel)[0]
        assert first.text(CHECK) == "✗"
        assert "missing" in first.text(STEP)
        assert panel.summary.text().endswith("1 finding blocks the export")
        with qtbot.waitSignal(panel.step_selected) as signal:
            panel.tree.setCurrentItem(first)
        assert signal.args[0] == ("model.layers.0.mlp.up_proj.weight",)
        assert panel.detail.evidence.text()
        shown = panel.detail.changes.topLevelItem(0)
        assert shown is not None
        assert shown.text(0) == "model.layers.0.mlp.up_proj.weight"


def test_nothing_to_change_is_said(qtbot: QtBot, theme: Theme, tmp_path: Path) -> None:
    with session_of(qtbot, llama_folder(tmp_path / "m", "none", config=None)) as session:
        session.change_target(layout="same")
        panel = PlanPanel(session, theme)
        qtbot.addWidget(panel)
        assert items(panel) == []
        assert panel.detail.title.text() == "Nothing to change"


def test_without_a_checkpoint_nothing_can_be_pressed(qtbot: QtBot, theme: Theme) -> None:
    with session_of(qtbot, None) as session:
        panel = PlanPanel(session, theme)
        qtbot.addWidget(panel)
        assert not panel.export_button.isEnabled()
        assert not panel.copy_button.isEnabled()
        open_in(qtbot, session, SAMPLE)
        assert panel.export_button.isEnabled()
        session.close()
        assert not panel.export_button.isEnabled()
        assert items(panel) == []


def test_both_themes_can_be_painted(panel: PlanPanel, theme: Theme) -> None:
    panel.tree.setCurrentItem(item_of(panel, "Rename"))
    light = panel.grab().toImage()
    theme.set_scheme("dark")
    assert panel.grab().toImage() != light
    assert panel.tree.selectedItems()
    theme.set_scheme("light")


def test_the_export_button_only_asks(panel: PlanPanel, qtbot: QtBot) -> None:
    with qtbot.waitSignal(panel.export_requested):
        qtbot.mouseClick(panel.export_button, Qt.MouseButton.LeftButton)


# ------------------------------------------------------------------------------------------------------------- command


def test_the_command_on_the_clipboard(panel: PlanPanel, session: Session, qtbot: QtBot) -> None:
    session.change_target(layout="meta", dtype="fp16", container="safetensors", max_shard_bytes=1_500_000_000)
    session.change_policy(tie="keep", heads=6, kv_heads=2)
    qtbot.mouseClick(panel.copy_button, Qt.MouseButton.LeftButton)
    words = shlex.split(QGuiApplication.clipboard().text())
    assert words[:3] == ["ckpt-gui", "fix", str(SAMPLE)]
    assert words[4:] == [
        "tiny-llama-compiled-meta", "--to", "meta", "--format", "safetensors", "--dtype", "fp16",
        "--max-shard-size", "1500000000", "--tie", "keep", "--heads", "6", "--kv-heads", "2",
    ]  # fmt: skip


def test_the_command_is_understood_by_the_command_line(session: Session) -> None:
    import argparse

    from ckpt_gui.cli import fix

    session.change_target(layout="torchtune", dtype="bf16", max_shard_bytes=2_000_000_000)
    session.change_policy(skip=frozenset({"tie"}), heads=6)
    assert session.snapshot is not None
    parser = argparse.ArgumentParser()
    fix.add_arguments(parser)
    args = parser.parse_args(shlex.split(fix_command(session.snapshot, "/a b/it's"))[2:])
    assert (args.path, args.out, args.to) == ([str(SAMPLE)], "/a b/it's", "torchtune")
    assert (args.dtype, args.max_shard_size, args.tie, args.heads) == ("bf16", 2_000_000_000, "keep", 6)


def test_the_default_folder_is_new_and_beside_the_source(tmp_path: Path) -> None:
    file = tmp_path / "last.v2.pt"
    file.touch()
    assert default_folder(str(file), "hf") == str(tmp_path / "last.v2-hf")
    (tmp_path / "last.v2-hf").mkdir()
    assert default_folder(str(file), "hf") == str(tmp_path / "last.v2-hf-2")
    folder = tmp_path / "model.1"
    folder.mkdir()
    assert default_folder(str(folder), "same") == str(tmp_path / "model.1-fixed")
    assert default_folder(str(folder / "model.safetensors.index.json"), "meta") == str(tmp_path / "model.1-meta")


# --------------------------------------------------------------------------------------------------------------- room


def test_the_list_has_all_the_room_until_a_step_is_selected(panel: PlanPanel, qtbot: QtBot) -> None:
    panel.resize(760, 260)
    panel.show()
    assert not panel.detail.isVisible()
    assert not panel.tree.isColumnHidden(EVIDENCE)
    panel.tree.setCurrentItem(item_of(panel, "Rename"))
    assert panel.detail.isVisible()
    list_width, detail_width = panel.split.sizes()
    assert list_width > detail_width
    panel.clear_selection()
    assert not panel.detail.isVisible()


@pytest.mark.parametrize("width", [320, 420, 560, 900, 1400])
def test_no_column_is_cut_at_any_width(panel: PlanPanel, qtbot: QtBot, width: int) -> None:
    panel.resize(width, 260)
    panel.show()
    panel.tree.setCurrentItem(item_of(panel, "Leave out"))
    qtbot.waitUntil(lambda: panel.tree.header().length() <= panel.tree.viewport().width())
    assert not panel.tree.isColumnHidden(COUNT)


def test_evidence_goes_on_in_a_second_line(panel: PlanPanel, qtbot: QtBot) -> None:
    panel.resize(760, 260)
    panel.show()
    line = panel.tree.fontMetrics().lineSpacing()
    qtbot.waitUntil(lambda: panel.tree.visualItemRect(item_of(panel, "Take off")).height() >= 2 * line)
    panel.resize(2400, 260)
    qtbot.waitUntil(lambda: panel.tree.visualItemRect(item_of(panel, "Take off")).height() < 2 * line)


def test_export_is_off_while_something_blocks(qtbot: QtBot, theme: Theme, tmp_path: Path) -> None:
    with session_of(qtbot, llama_folder(tmp_path / "m", without="up_proj")) as session:
        panel = PlanPanel(session, theme)
        qtbot.addWidget(panel)
        assert not panel.export_button.isEnabled()
        assert "missing" in panel.export_button.toolTip()
        assert panel.summary.wordWrap()


# --------------------------------------------------------------------------------------------------------- what changes


def test_changes_are_folded_over_layers(panel: PlanPanel) -> None:
    panel.tree.setCurrentItem(item_of(panel, "Rename"))
    tree = panel.detail.changes
    shown = [tree.topLevelItem(n) for n in range(tree.topLevelItemCount())]
    texts = [tuple(item.text(column) for column in range(3)) for item in shown if item is not None]
    wq = ("_orig_mod.layers.0-2.attention.wq.weight", "model.layers.0-2.self_attn.q_proj.weight", "×3")
    assert wq in texts
    assert sum(int(count.removeprefix("×")) for _, _, count in texts) == 29


def test_many_changes_are_folded_in_a_job(
    panel: PlanPanel, session: Session, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_changes, "MANY", 3)
    panel.tree.setCurrentItem(item_of(panel, "Rename"))
    panel.tree.setCurrentItem(item_of(panel, "Reorder"))
    qtbot.waitUntil(lambda: not session.jobs.running())
    first = panel.detail.changes.topLevelItem(0)
    assert first is not None
    assert (first.text(1), first.text(2)) == ("rotary rows pairs → halves, 6 heads", "×3")


def test_only_the_steps_of_a_selection(panel: PlanPanel, qtbot: QtBot) -> None:
    panel.show_steps_of({"model._orig_mod.output.weight"})
    assert [item.text(STEP) for item in items(panel)] == ["Leave out “_orig_mod.output.weight”"]
    assert panel.only_button.text().startswith("Only what concerns 1 selected tensor")
    qtbot.mouseClick(panel.only_button, Qt.MouseButton.LeftButton)
    assert len(items(panel)) == 6
    assert not panel.only_button.isVisible()


def test_f6_and_f7_plan_for_the_selection_and_for_all(qtbot: QtBot, qapp: QApplication) -> None:
    window = window_on(qtbot, qapp, SAMPLE, "tensors")
    plan = window.plan_panel
    window.tree_panel.select_key("_orig_mod.layers.1.attention.wq.weight")
    window.docks["plan"].hide()
    qtbot.keyClick(window, Qt.Key.Key_F6)
    assert window.docks["plan"].isVisible()
    assert [item.text(STEP) for item in items(plan)] == [
        "Take off “_orig_mod”", "Rename Meta → Hugging Face", "Reorder the rows of q and k",
    ]  # fmt: skip
    qtbot.keyClick(window, Qt.Key.Key_F7)
    assert len(items(plan)) == 6


# ---------------------------------------------------------------------------------------------- guesses, and ways out


def test_a_likely_step_wants_a_tick(qtbot: QtBot, theme: Theme, tmp_path: Path) -> None:
    with session_of(qtbot, llama_folder(tmp_path / "m", "none", config=None)) as session:
        session.change_policy(heads=4, kv_heads=2)
        session.change_target(layout="meta")
        panel = PlanPanel(session, theme)
        qtbot.addWidget(panel)
        panel.resize(1100, 300)
        panel.show()
        guess = item_of(panel, "Write the embedding as")
        assert guess.text(SURE) == "likely: tick it"
        assert not ticked(guess)
        assert panel.summary.text().endswith("a likely step wants a tick")
        assert session.snapshot is not None
        assert "likely, not certain" in refusal(session.snapshot, Check("x"), overwrite=False)
        with qtbot.waitSignal(session.changed):
            guess.setCheckState(CHECK, Qt.CheckState.Checked)
        assert ticked(item_of(panel, "Write the embedding as"))
        assert refusal(session.snapshot, Check("x"), overwrite=False) == ""
        assert session.undo_stack.undoText() == "agreeing to “Write the embedding as output.weight too”"
        session.undo_stack.undo()
        assert not ticked(item_of(panel, "Write the embedding as"))


def test_a_clash_is_resolved_by_leaving_one_out(qtbot: QtBot, theme: Theme, tmp_path: Path) -> None:
    tensors = llama_tensors("none")
    tensors["_orig_mod.model.norm.weight"] = tensors["model.norm.weight"] * 3
    folder = llama_folder(tmp_path / "m")
    (folder / "model.safetensors").write_bytes(safetensors_bytes(tensors))
    with session_of(qtbot, folder) as session:
        panel = PlanPanel(session, theme)
        qtbot.addWidget(panel)
        panel.resize(1100, 300)
        panel.show()
        first = items(panel)[0]
        assert first.text(CHECK) == "✗"
        panel.tree.setCurrentItem(first)
        ways = panel.detail.findChildren(QPushButton)
        assert [each.accessibleName() for each in ways] == [
            "Leave out “model.norm.weight”", "Leave out “_orig_mod.model.norm.weight”",
        ]  # fmt: skip
        qtbot.waitUntil(lambda: all(each.isVisible() for each in ways))
        assert not panel.export_button.isEnabled()
        qtbot.mouseClick(ways[1], Qt.MouseButton.LeftButton)
        assert session.snapshot is not None
        assert session.snapshot.decisions.policy.dropped == {"_orig_mod.model.norm.weight"}
        assert not session.snapshot.export.blocked
        session.undo_stack.undo()
        assert session.snapshot.export.blocked
