"""Adapters in the window: what they are, merging into a base from either side, alpha, converting, the command."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PySide6.QtWidgets import QApplication, QMenu
from pytestqt.qtbot import QtBot

from ckpt_gui.cli.main import main
from ckpt_gui.core.batch import load_plan
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.plan_file import read_plan
from ckpt_gui.gui import open_adapters
from ckpt_gui.gui.fix_command import fix_command
from ckpt_gui.gui.main_window import MainWindow
from tests.builders import index_bytes, safetensors_bytes
from tests.gui import patience
from tests.gui.checkpoints import PatternReader, source
from tests.gui.panel_files import CONFIG, llama_folder, llama_tensors
from tests.gui.windows import make_window

Q = "model.layers.0.self_attn.q_proj"
GATE = "model.layers.0.mlp.gate_proj"


@pytest.fixture
def window(qtbot: QtBot, qapp: QApplication) -> MainWindow:
    return make_window(qtbot, qapp)


def opened(window: MainWindow, qtbot: QtBot, path: Path) -> None:
    with qtbot.waitSignal(window.settled):
        window.open_path(str(path))


def adapter_folder(path: Path, *, modules: tuple[str, ...] = (Q, GATE), **changes: Any) -> Path:
    """Write a LoRA of PEFT's for the small Llama; a change to None takes a field out."""
    path.mkdir()
    base, rng = llama_tensors(), np.random.default_rng(5)
    tensors = {}
    for number, module in enumerate(modules):
        rows, columns = base[f"{Q if module not in (Q, GATE) else module}.weight"].shape
        rank = 2 + 2 * number
        for part, shape in (("lora_A", (rank, columns)), ("lora_B", (rows, rank))):
            tensors[f"base_model.model.{module}.{part}.weight"] = rng.normal(0, 1, shape).astype(np.float32)
    config = {"peft_type": "LORA", "r": 2, "lora_alpha": 8, "rank_pattern": {"gate_proj": 4}, "target_modules": []}
    config = {name: value for name, value in (config | changes).items() if value is not None}
    (path / "adapter_model.safetensors").write_bytes(safetensors_bytes(tensors, {"format": "pt"}))
    (path / "adapter_config.json").write_text(json.dumps(config))
    return path


def fact(window: MainWindow, label: str) -> str:
    card = window.checkpoint_panel.card
    assert card is not None
    return next((f.value for f in card.facts if f.label == label), "")


def merged(window: MainWindow, qtbot: QtBot) -> None:
    qtbot.waitUntil(lambda: bool(fact(window, "Adapter")))


def test_an_adapter_shows_rank_alpha_and_scale_of_every_module(
    window: MainWindow, qtbot: QtBot, tmp_path: Path
) -> None:
    opened(window, qtbot, adapter_folder(tmp_path / "lora"))
    card = window.checkpoint_panel.adapter_card
    assert card is not None
    rows = [[card.table.topLevelItem(n).text(c) for c in range(4)] for n in range(card.table.topLevelItemCount())]
    assert sorted(rows) == sorted([[Q, "2", "8", "4"], [GATE, "4", "8", "2"]])
    actions = window.actions_by_id
    assert actions["merge-into"].isEnabled()
    assert not actions["merge-adapter"].isEnabled()


def test_an_adapter_is_merged_into_a_base_and_left_out_again(window: MainWindow, qtbot: QtBot, tmp_path: Path) -> None:
    lora = adapter_folder(tmp_path / "lora")
    opened(window, qtbot, llama_folder(tmp_path / "base"))
    assert window.actions_by_id["merge-adapter"].isEnabled()
    window.commands.merge(str(lora / "adapter_config.json"))
    merged(window, qtbot)
    assert fact(window, "Adapter").startswith("2 of 2 modules; rank ")
    snapshot = window.session.snapshot
    assert snapshot is not None
    step = next(s for s in snapshot.steps if s.id == "merge")
    assert step.changes_values
    command = fix_command(snapshot, "out")
    assert f"--adapter {lora}" in command
    assert window.session.undo_stack.undoText() == "merging of an adapter"
    window.plan_panel._on_ticked("merge")
    qtbot.waitUntil(lambda: not fact(window, "Adapter"))
    window.session.undo_stack.undo()
    assert fact(window, "Adapter")
    window.session.undo_stack.undo()
    assert not fact(window, "Adapter")


def test_a_saved_plan_merges_the_adapter_again(window: MainWindow, qtbot: QtBot, tmp_path: Path) -> None:
    lora, base, plan = adapter_folder(tmp_path / "lora"), llama_folder(tmp_path / "base"), tmp_path / "plan.json"
    opened(window, qtbot, base)
    window.commands.merge(str(lora))
    merged(window, qtbot)
    window.plan_keeper.save(str(plan))
    assert not window.session.unsaved
    assert read_plan(plan).adapter == str(lora)
    opened(window, qtbot, llama_folder(tmp_path / "other"))
    assert not fact(window, "Adapter")
    window.plan_keeper.load(str(plan))
    merged(window, qtbot)
    out, wanted = tmp_path / "by-plan", tmp_path / "by-hand"
    assert main(["fix", str(base), "--plan", str(plan), "-o", str(out)]) == 0
    assert main(["fix", str(base), "--adapter", str(lora), "-o", str(wanted)]) == 0
    assert (out / "model.safetensors").read_bytes() == (wanted / "model.safetensors").read_bytes()
    with pytest.raises(CheckpointError, match="one checkpoint at a time"):
        load_plan(str(plan))


def test_a_base_is_opened_from_the_adapter_and_written_merged(window: MainWindow, qtbot: QtBot, tmp_path: Path) -> None:
    base, lora = llama_folder(tmp_path / "base"), adapter_folder(tmp_path / "lora")
    opened(window, qtbot, lora)
    window.commands.open_base(str(base))
    merged(window, qtbot)
    assert window.session.path == str(base)
    window.commands.export()
    dialog = window.commands.dialog
    assert dialog is not None
    dialog.set_folder(str(tmp_path / "out"))
    qtbot.waitUntil(dialog.export_button.isEnabled)
    dialog.start()
    qtbot.waitUntil(lambda: dialog.pages.currentWidget() is dialog.result_page)
    assert (tmp_path / "out" / "model.safetensors").exists()


def test_an_adapter_that_fits_nothing_is_told_and_the_base_stands(
    window: MainWindow, qtbot: QtBot, tmp_path: Path
) -> None:
    lora = adapter_folder(tmp_path / "lora", modules=("model.layers.7.self_attn.q_proj",))
    opened(window, qtbot, llama_folder(tmp_path / "base"))
    window.commands.merge(str(lora))
    qtbot.waitUntil(lambda: bool(window.notices.text("trouble")))
    assert "0 of 1 modules of the adapter are in the base" in window.notices.text("trouble")
    assert window.session.snapshot is not None
    assert window.session.snapshot.decisions.adapter is None
    assert window.session.undo_stack.isClean()


def test_an_adapter_that_comes_after_the_checkpoint_is_closed(
    window: MainWindow, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go, made = threading.Event(), threading.Event(), source()

    def slow(_path: str) -> object:
        begun.set()
        go.wait(patience.SECONDS)
        return made

    monkeypatch.setattr(open_adapters, "open_adapter", slow)
    opened(window, qtbot, llama_folder(tmp_path / "base"))
    window.commands.merge("late")
    qtbot.waitUntil(begun.is_set)  # one that still waits for a thread is taken away, and opens nothing
    window.commands.close_checkpoint()
    opened(window, qtbot, llama_folder(tmp_path / "other"))
    go.set()
    reader = made.readers["w.pt"]
    assert isinstance(reader, PatternReader)
    qtbot.waitUntil(lambda: reader.closed)
    assert window.session.snapshot is not None
    assert window.session.snapshot.decisions.adapter is None, "another checkpoint is open"


def test_alpha_is_asked_for_where_nothing_tells(window: MainWindow, qtbot: QtBot, tmp_path: Path) -> None:
    opened(window, qtbot, adapter_folder(tmp_path / "lora", lora_alpha=None))
    snapshot = window.session.snapshot
    assert snapshot is not None
    assert snapshot.export.blocked
    card = next(c for c in window.checkpoint_panel.finding_cards if c.finding.code == "adapter-empty")
    next(b for b in card.findChildren(type(window.start_page.file_button)) if "alpha" in b.text()).click()
    dialog = window.commands.dialog
    assert dialog is not None
    spin = dialog.form.choices.alpha_spin
    assert spin.isVisible()
    assert spin.text() == "as the adapter says"
    spin.setValue(16)
    assert window.session.snapshot is not None
    assert not window.session.snapshot.export.blocked
    assert "--lora-alpha 16" in fix_command(window.session.snapshot)
    assert window.checkpoint_panel.adapter_card is not None
    assert window.checkpoint_panel.adapter_card.table.topLevelItem(0).text(2) == "16"


def test_an_adapter_is_converted(window: MainWindow, qtbot: QtBot, tmp_path: Path) -> None:
    lora = adapter_folder(tmp_path / "lora", rank_pattern=None)
    (lora / "config.json").write_text(json.dumps(CONFIG))
    opened(window, qtbot, lora)
    assert window.checkpoint_panel.adapter_card is not None
    window.checkpoint_panel.adapter_card.convert_button.click()
    dialog = window.commands.dialog
    assert dialog is not None
    box = dialog.form.choices.layout_box
    usable = {box.itemData(n) for n in range(box.count()) if box.model().flags(box.model().index(n, 0)).value & 32}
    assert usable == {"hf", "torchtune", "same"}
    box.setCurrentIndex(box.findData("torchtune"))
    box.activated.emit(box.currentIndex())
    assert dialog.form.choices.layout_note.text() == "adapter_model.pt, as torchtune has it."


def test_files_are_cut_for_ranks_where_the_layout_is_meta(window: MainWindow, qtbot: QtBot, tmp_path: Path) -> None:
    opened(window, qtbot, llama_folder(tmp_path / "base"))
    window.commands.export()
    dialog = window.commands.dialog
    assert dialog is not None
    choices = dialog.form.choices
    assert not choices.ranks_spin.isVisible()
    choices.layout_box.activated.emit(choices.layout_box.findData("hf"))
    window.session.change_target(layout="meta")
    assert choices.ranks_spin.isVisible()
    assert not choices.shard_box.isVisible()
    choices.ranks_spin.setValue(2)
    snapshot = window.session.snapshot
    assert snapshot is not None
    assert snapshot.export.ranks == 2
    assert "--model-parallel 2" in fix_command(snapshot)
    assert window.session.undo_stack.undoText() == "files for 2 ranks"
    window.tree_panel.bar.layout_chosen.emit("hf")
    assert window.session.snapshot is not None
    assert window.session.snapshot.decisions.target.model_parallel is None


def test_only_what_an_index_assigns_is_used(window: MainWindow, qtbot: QtBot, tmp_path: Path) -> None:
    folder = tmp_path / "shards"
    folder.mkdir()
    tensors = llama_tensors("none")
    names = list(tensors)
    parts = {"model-00001-of-00002.safetensors": names[:6], "model-00002-of-00002.safetensors": names[6:]}
    for file, keys in parts.items():
        extra = (
            {"left.over.weight": np.ones(3, np.float32)} if keys is names[6:] or file.startswith("model-00002") else {}
        )
        (folder / file).write_bytes(safetensors_bytes({key: tensors[key] for key in keys} | extra, {"format": "pt"}))
    weight_map = {key: file for file, keys in parts.items() for key in keys}
    (folder / "model.safetensors.index.json").write_bytes(index_bytes(weight_map))
    (folder / "config.json").write_text(json.dumps(CONFIG))
    opened(window, qtbot, folder)
    card = next(c for c in window.checkpoint_panel.finding_cards if c.finding.code == "shard-unindexed")
    buttons = {b.text(): b for b in card.findChildren(type(window.start_page.file_button))}
    assert set(buttons) == {"Write it with a new index…", "Use only what the index assigns"}
    buttons["Use only what the index assigns"].click()
    snapshot = window.session.snapshot
    assert snapshot is not None
    assert [d.ref.key for d in snapshot.export.dropped if d.kind == "unassigned"] == ["left.over.weight"]
    assert "--assigned-only" in fix_command(snapshot)
    assert any(s.id == "assigned" for s in snapshot.steps)


def test_the_menu_has_what_the_card_has(window: MainWindow) -> None:
    menus = {menu.title(): [a.text() for a in menu.actions()] for menu in window.menuBar().findChildren(QMenu)}
    assert "Merge an &adapter…" in menus["F&ix"]
    assert "Merge into a &base…" in menus["F&ix"]
