"""The inspector: details, statistics, and the tied pair with its plots."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QAbstractButton, QApplication, QLabel
from pytestqt.qtbot import QtBot

from ckpt_gui import dataclasses
from ckpt_gui.core.diff import Row
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.stats import pair_stats
from ckpt_gui.gui.models import overview as overview_module
from ckpt_gui.gui.panels import inspector_details as details_module
from ckpt_gui.gui.panels.docks import LEAST_EMS
from ckpt_gui.gui.panels.inspector_panel import InspectorPanel
from ckpt_gui.gui.session import Session
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.units import em, quoted
from ckpt_gui.gui.wording import capital
from tests.gui.panel_files import VOCAB, llama_folder, llama_tensors, make_theme, open_in, session_of

SAMPLE = Path(__file__).resolve().parents[2] / "resources" / "sample" / "tiny-llama-compiled.pt"


@pytest.fixture
def theme(qapp: QApplication) -> Theme:
    return make_theme(qapp)


@pytest.fixture
def session(qtbot: QtBot, tmp_path: Path) -> Iterator[Session]:
    with session_of(qtbot, llama_folder(tmp_path / "model", "differs")) as opened:
        yield opened


@pytest.fixture
def panel(qtbot: QtBot, session: Session, theme: Theme) -> InspectorPanel:
    made = InspectorPanel(session, theme)
    qtbot.addWidget(made)
    made.resize(420, 900)
    made.show()
    return made


def row_of(session: Session, key: str) -> Row:
    assert session.snapshot is not None
    return next(row for row in session.snapshot.diff.rows if key in (row.key, row.expected))


def shown_pair(panel: InspectorPanel, qtbot: QtBot) -> None:
    panel.show_pair()
    qtbot.waitUntil(lambda: panel.tied.plot.ready and not panel.tied.job.running)


# ------------------------------------------------------------------------------------------------------------- details


def test_without_a_selection_there_is_no_verdict(panel: InspectorPanel) -> None:
    assert panel.details.overview.isVisible()
    assert not panel.details.banner.isVisible()


def test_details_of_a_tensor(panel: InspectorPanel, session: Session) -> None:
    panel.show_row(row_of(session, "model.layers.0.self_attn.q_proj.weight"))
    details = panel.details
    assert details.banner.text == "Same"
    assert details.names.value("key") == "model.layers.0.self_attn.q_proj.weight"
    assert details.tensor.value("shape") == "16 × 16 = 256"
    assert details.tensor.value("bytes") == "1.00 KiB (1,024 bytes)"
    assert details.tensor.value("dtype") == "fp32, 32 bits each"
    assert details.place.value("file") == "model.safetensors"
    assert details.place.value("offset").startswith("byte ")
    assert details.export.value("ops") == "Unchanged, byte for byte"
    assert not details.place.value("shared")


def test_details_of_shared_storage_and_of_what_an_export_does(qtbot: QtBot, theme: Theme) -> None:
    with session_of(qtbot, SAMPLE) as session:
        panel = InspectorPanel(session, theme)
        qtbot.addWidget(panel)
        panel.show_row(row_of(session, "_orig_mod.output.weight"))
        details = panel.details
        assert details.names.value("section") == "model"
        assert details.place.value("shared") == "model._orig_mod.tok_embeddings.weight"
        assert details.export.value("left").startswith("Equals the embedding")
        panel.show_row(row_of(session, "_orig_mod.layers.0.attention.wq.weight"))
        assert details.banner.text == "Transform"
        assert details.export.value("ops") == "Rotary rows pairs → halves, 6 heads"
        assert details.export.value("written") == "model.layers.0.self_attn.q_proj.weight"
        assert not details.export.value("left")


def test_a_missing_tensor_and_a_snapshot_that_changes(qtbot: QtBot, theme: Theme, tmp_path: Path) -> None:
    folder = llama_folder(tmp_path / "m", without="up_proj")
    with session_of(qtbot, folder) as session:
        panel = InspectorPanel(session, theme)
        qtbot.addWidget(panel)
        panel.show_row(row_of(session, "model.layers.0.mlp.up_proj.weight"))
        assert panel.details.banner.text == "Missing"
        assert not panel.details.tensor.value("shape")
        assert panel.details.tensor.value("wanted") == "24 × 16"
        session.change_target(layout="meta")
        assert panel.details.names.value("expected") == ""  # that row is not in the other diff
        panel.show_row(row_of(session, "model.layers.0.self_attn.q_proj.weight"))
        assert panel.details.export.value("written") == "layers.0.attention.wq.weight"
        session.change_target(layout="hf")
        assert panel.details.export.value("written") == "model.layers.0.self_attn.q_proj.weight"
        session.close()
        assert panel.details.names.value("key") == ""


def test_names_from_files_are_shown_escaped_and_copied_whole(
    panel: InspectorPanel, session: Session, qtbot: QtBot
) -> None:
    hostile = "a.\x1b[31m<b>bold</b>\u202e.weight"
    row = dataclasses.replace(row_of(session, "model.norm.weight"), key=hostile)
    panel.show_row(row)
    assert panel.details.names.value("key") == "a.\\x1b[31m<b>bold</b>\\u202e.weight"
    labels = panel.findChildren(QLabel)
    assert all(label.textFormat() == Qt.TextFormat.PlainText for label in labels if "<b>" in label.text())
    button = next(b for b in panel.details.names.findChildren(QAbstractButton) if b.isVisible())
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    assert QGuiApplication.clipboard().text() == hostile


# ---------------------------------------------------------------------------------------------------------- statistics


def test_statistics_are_calculated_only_while_seen(panel: InspectorPanel, session: Session, qtbot: QtBot) -> None:
    panel.show_row(row_of(session, "model.embed_tokens.weight"))
    assert not session.jobs.running()
    panel.tabs.setCurrentWidget(panel.statistics)
    assert panel.statistics.job.running
    qtbot.waitUntil(lambda: not panel.statistics.job.running)
    values = llama_tensors()["model.embed_tokens.weight"].astype(np.float64)
    assert panel.statistics.moments.value("mean") == f"{values.mean():.6g}"
    assert panel.statistics.moments.value("std") == f"{values.std():.6g}"
    assert panel.statistics.counts.value("count") == f"{values.size:,}"
    assert panel.statistics.counts.value("distinct") == f"{len(np.unique(values)):,}"
    quantiles = dict(line.split("  ") for line in panel.statistics.moments.value("quantiles").split("\n"))
    middle = np.sort(values, axis=None)[(values.size - 1) // 2]  # the smallest that half of them do not exceed
    assert quantiles["50 %"] == f"{middle:.6g}"
    assert panel.statistics.values.value("first").split()[1] == f"{values[0, 1]:.6g}"
    assert panel.statistics.histogram.isVisible()
    panel.tabs.setCurrentWidget(panel.details)
    panel.tabs.setCurrentWidget(panel.statistics)
    assert not panel.statistics.job.running, "a result is remembered"


def test_another_selection_replaces_what_is_calculated(panel: InspectorPanel, session: Session, qtbot: QtBot) -> None:
    panel.tabs.setCurrentWidget(panel.statistics)
    for key in ("model.embed_tokens.weight", "lm_head.weight", "model.norm.weight"):
        panel.show_row(row_of(session, key))
    qtbot.waitUntil(lambda: not panel.statistics.job.running and not session.jobs.running())
    assert panel.statistics.moments.value("mean") == "1"
    panel.show_row(None)
    assert panel.statistics.moments.value("mean") == ""


def test_a_tab_that_is_left_stops_its_work(panel: InspectorPanel, session: Session, qtbot: QtBot) -> None:
    panel.show_row(row_of(session, "model.embed_tokens.weight"))
    panel.tabs.setCurrentWidget(panel.statistics)
    panel.tabs.setCurrentWidget(panel.details)
    assert not panel.statistics.job.running
    qtbot.waitUntil(lambda: not session.jobs.running())
    assert panel.statistics.moments.value("mean") == ""


def test_a_file_that_can_not_be_read_is_told_in_the_tab(
    panel: InspectorPanel, session: Session, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise CheckpointError("truncated", "The file ends early.", fix="Load it again.")

    monkeypatch.setattr("ckpt_gui.core.stats.tensor_stats", broken)
    panel.show_row(row_of(session, "model.norm.weight"))
    panel.tabs.setCurrentWidget(panel.statistics)
    qtbot.waitUntil(lambda: not panel.statistics.job.running)
    assert panel.statistics.message.text() == "The file ends early. Load it again."


# ----------------------------------------------------------------------------------------------------------- tied pair


def test_a_pair_that_differs(panel: InspectorPanel, session: Session, qtbot: QtBot) -> None:
    shown_pair(panel, qtbot)
    tied = panel.tied
    assert tied.banner.text == f"Different in 1 of {VOCAB * 16} elements"
    assert "throw the trained head away" in tied.banner.detail
    assert tied.facts.value("max") == "0.5"
    assert tied.facts.note("max") == "row 7, col 3"
    assert tied.apart.value("rows") == f"1 of {VOCAB:,} differ: 7"
    assert tied.apart.value("flips").endswith(f" of {VOCAB * 16:,}")
    assert tied.apart.value("ulp").startswith("at most ")
    assert tied.table.text("mean", 0) != tied.table.text("mean", 1)
    snapshot = session.snapshot
    assert snapshot is not None
    assert snapshot.plan.tie.embedding is not None
    assert snapshot.plan.tie.head is not None
    pair = pair_stats(snapshot.source, snapshot.plan.tie.embedding, snapshot.plan.tie.head)
    plot = tied.plot.plot
    assert plot is not None
    assert tuple(plot.row_line.get_ydata()) == pair.rows.values
    values, edges, _ = plot.lines[1].get_data()
    assert tuple(edges) == pair.edges
    assert [v for v in values if v >= 1] == [n for n in pair.hist_b if n]


def test_the_figure_is_built_once_and_follows_the_theme(
    panel: InspectorPanel, session: Session, qtbot: QtBot, theme: Theme, tmp_path: Path
) -> None:
    shown_pair(panel, qtbot)
    canvas = panel.tied.plot
    plot = canvas.plot
    assert plot is not None
    figure, fill = plot.figure, plot.fill
    light = figure.get_facecolor()
    theme.set_scheme("dark")
    qtbot.waitUntil(lambda: canvas.ready)
    assert figure.get_facecolor() != light
    assert canvas.grab().toImage().pixelColor(3, 3).lightness() < 80
    theme.set_scheme("light")
    open_in(qtbot, session, llama_folder(tmp_path / "other", "equal"))
    qtbot.waitUntil(lambda: not session.jobs.running())
    qtbot.waitUntil(lambda: canvas.ready and plot.row_note.get_text() == "No row differs.")
    assert canvas.plot is plot
    assert plot.figure is figure
    assert plot.fill is fill
    assert panel.tied.banner.text == "Equal, byte for byte"
    assert panel.tied.facts.value("max") == "0"
    assert not panel.tied.apart.isVisible()


def test_figures_of_the_same_pair_are_kept_when_decisions_change(
    panel: InspectorPanel, session: Session, qtbot: QtBot
) -> None:
    shown_pair(panel, qtbot)
    session.change_target(layout="meta")
    assert not panel.tied.job.running
    assert panel.tied.facts.value("max") == "0.5"


def test_same_storage_is_said(qtbot: QtBot, theme: Theme) -> None:
    with session_of(qtbot, SAMPLE) as session:
        panel = InspectorPanel(session, theme)
        qtbot.addWidget(panel)
        assert panel.tied.banner.text == "Same storage"
        assert panel.tied.banner.detail.endswith("writes the embedding only, and says tied.")


@pytest.mark.parametrize(("tied", "words"), [(True, "Nothing is missing"), (False, "An untied model needs one")])
def test_only_an_embedding(qtbot: QtBot, theme: Theme, tmp_path: Path, tied: bool, words: str) -> None:
    config = {"model_type": "llama", "num_attention_heads": 4, "num_key_value_heads": 2, "tie_word_embeddings": tied}
    with session_of(qtbot, llama_folder(tmp_path / "m", "none", config=config)) as session:
        panel = InspectorPanel(session, theme)
        qtbot.addWidget(panel)
        panel.show()
        panel.show_pair()
        assert panel.tied.isVisible()
        assert panel.tied.banner.text == "Only the embedding is stored"
        assert words in panel.tied.banner.detail
        assert not panel.tied.plot.isVisible()
        assert not session.jobs.running()


def test_without_a_checkpoint_there_is_no_pair(qtbot: QtBot, theme: Theme) -> None:
    with session_of(qtbot, None) as session:
        panel = InspectorPanel(session, theme)
        qtbot.addWidget(panel)
        assert not panel.tabs.isTabEnabled(2)
        panel.show_pair()
        assert panel.tabs.currentIndex() == 0


def test_every_button_has_a_name(panel: InspectorPanel, session: Session, qtbot: QtBot) -> None:
    panel.show_row(row_of(session, "model.norm.weight"))
    shown_pair(panel, qtbot)
    nameless = [
        b for b in panel.findChildren(QAbstractButton) if b.isVisible() and not (b.accessibleName() or b.text())
    ]
    assert not nameless


def test_it_fits_a_narrow_dock(panel: InspectorPanel, qtbot: QtBot) -> None:
    shown_pair(panel, qtbot)
    least = em(panel, LEAST_EMS["inspector"])
    assert least < 300
    panel.resize(least, 700)
    qtbot.waitUntil(lambda: panel.width() == least)
    body = panel.tied.widget()
    assert body.width() <= panel.tied.viewport().width()


# ------------------------------------------------------------------------------------------------------------ overview


def test_without_a_selection_the_whole_file_is_told(panel: InspectorPanel) -> None:
    overview = panel.details.overview
    assert overview.title.text() == "The whole file"
    assert overview.facts.value("tensors") == "12"
    assert overview.facts.value("types") == "fp32 100 %"
    assert overview.largest.value("0") in ("model.embed_tokens.weight", "lm_head.weight")


def test_a_group_is_told_in_figures(panel: InspectorPanel, session: Session) -> None:
    assert session.snapshot is not None
    index = session.snapshot.index
    model = next(node for node in index.children(index.root) if node.name == "model")
    layer = next(node for node in index.children(model) if not node.is_row)
    panel.show_group(overview_module.group(index, layer))
    overview = panel.details.overview
    assert overview.title.text().replace("\u200b", "") == "model.layers.0"
    assert overview.facts.value("tensors") == "9"
    assert overview.states.value("same") == "9 tensors"
    panel.show_group(None)
    assert overview.title.text() == "The whole file"


def test_a_large_group_is_told_without_a_look_at_every_row(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview_module, "MANY", 3)
    assert session.snapshot is not None
    index = session.snapshot.index
    told = overview_module.group(index, next(n for n in index.children(index.root) if not n.is_row))
    assert told.tensors == 11
    assert told.nbytes
    assert told.largest == ()


def test_relations_of_many_tensors_are_looked_up_in_a_job(
    panel: InspectorPanel, session: Session, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(details_module, "MANY", 3)
    panel.show_row(row_of(session, "model.norm.weight"))
    assert panel.details.tensor.value("shape") == "16", "what the row knows is there at once"
    assert panel.details.export.value("written") == ""
    qtbot.waitUntil(lambda: panel.details.export.value("written") == "model.norm.weight")


def test_a_note_that_starts_with_a_key_keeps_it() -> None:
    assert capital("rows change places") == "Rows change places"
    assert capital("tok_embeddings.weight is another") == "tok_embeddings.weight is another"


def test_a_sentence_about_a_tensor_without_a_name() -> None:
    assert quoted("It starts with ``, `w`.") == "It starts with “(no name)”, “w”."
