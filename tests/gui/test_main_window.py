"""The window: pages, findings, errors, closing, actions."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QPointF, Qt, QUrl
from PySide6.QtGui import QDropEvent, QFont
from PySide6.QtWidgets import QAbstractButton, QApplication, QComboBox, QLabel, QLineEdit, QToolButton
from pytestqt.qtbot import QtBot

from ckpt_gui.core.errors import CheckpointError, Finding
from ckpt_gui.core.tensors import TensorRef
from ckpt_gui.gui import planning as planning_module
from ckpt_gui.gui import snapshot as snapshot_module
from ckpt_gui.gui.actions import ACTIONS
from ckpt_gui.gui.hooks import caught
from ckpt_gui.gui.jobs import Job
from ckpt_gui.gui.main_window import MainWindow
from ckpt_gui.gui.panels.error_panel import error_words
from ckpt_gui.gui.panels.help_dialogs import AboutDialog, LegendDialog
from ckpt_gui.gui.panels.parts import ElidedLabel
from ckpt_gui.gui.panels.tool_bar import tensors_to_fix
from ckpt_gui.gui.panels.what_card import WhatCard
from ckpt_gui.gui.settings import Settings
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.windows import Windows
from tests.gui import patience
from tests.gui.checkpoints import PatternReader, llama_refs, source
from tests.gui.windows import make_window, settle, snapshot_of


@pytest.fixture
def window(qtbot: QtBot, qapp: QApplication) -> MainWindow:
    return make_window(qtbot, qapp)


def opened(window: MainWindow, qtbot: QtBot, path: Path | str) -> None:
    with qtbot.waitSignal(window.settled):
        window.open_path(str(path))


# ----------------------------------------------------------------------------------------------------------- start page


def test_the_start_page_comes_first_and_offers_the_sample(window: MainWindow, qtbot: QtBot) -> None:
    assert window.pages.currentWidget() is window.start_page
    assert not any(dock.isVisible() for dock in window.docks.values())
    assert not window.actions_by_id["export"].isEnabled()
    with qtbot.waitSignal(window.settled):
        qtbot.mouseClick(window.start_page.sample_button, Qt.MouseButton.LeftButton)
    assert window.pages.currentWidget() is window.page_tabs
    assert all(dock.isVisible() for dock in window.docks.values())
    assert window.checkpoint_panel.card is not None
    assert window.checkpoint_panel.card.title == "Llama, Meta layout"
    assert window.tool_bar.fix_button.text() == "Fix 30…"
    assert window.session.snapshot is not None
    recent = window.settings.recents()[0]
    assert recent.endswith("tiny-llama-compiled.pt")
    assert window.settings.recent_notes() == {recent: (window.session.snapshot.overview.nbytes, "certain")}
    window.start_page.refresh()
    label = window.start_page.recent_card.findChildren(ElidedLabel)[-1]
    assert label.toolTip() == f"776 KiB · certain fix · {Path(recent).parent}"


def test_what_writes_stays_on_the_tool_bar_where_letters_are_large(window: MainWindow, qtbot: QtBot) -> None:
    bar = window.tool_bar
    buttons = (bar.previous_button, bar.next_button, bar.export_button, bar.fix_button)

    def whole(button: QToolButton) -> bool:
        inside = bar.rect().contains(button.geometry()) and button.isVisible()
        grown = bar.font().pointSize() == window.theme.points
        return inside and grown and button.width() >= button.minimumSizeHint().width()

    with qtbot.waitSignal(window.settled):
        window.start_page.sample_button.click()
    for points, width in ((20, 1280), (24, 1280), (20, 1000), (24, 1000)):
        window.theme.set_points(points)
        window.resize(width, 800)
        qtbot.waitUntil(lambda: all(whole(button) for button in buttons))
    assert (bar.previous_button.text(), bar.previous_button.accessibleName()) == ("◀", "Previous difference")
    window.theme.set_points(0)
    window.resize(1280, 800)
    qtbot.waitUntil(lambda: bar.previous_button.text() == "◀  Previous" and bar.compare_box.name.isVisible())


def test_the_tool_bar_makes_room_for_a_part_that_grows_alone(window: MainWindow, qtbot: QtBot) -> None:
    """Whether its parts take larger letters before or after the bar is not told by anybody."""
    with qtbot.waitSignal(window.settled):
        window.start_page.sample_button.click()
    bar = window.tool_bar
    qtbot.waitUntil(lambda: bar.previous_button.text() == "◀  Previous")
    bar.fix_button.setText("Fix" * 60)
    qtbot.waitUntil(lambda: bar.previous_button.text() == "◀")
    bar.fix_button.setText("Fix…")
    qtbot.waitUntil(lambda: bar.previous_button.text() == "◀  Previous")


def test_return_presses_a_button_of_the_start_page(window: MainWindow, qtbot: QtBot) -> None:
    window.start_page.sample_button.setFocus()
    with qtbot.waitSignal(window.settled):
        qtbot.keyClick(window.start_page.sample_button, Qt.Key.Key_Return)
    assert window.pages.currentWidget() is window.page_tabs


def test_recents_are_listed_and_dead_ones_can_be_removed(window: MainWindow, qtbot: QtBot, tmp_path: Path) -> None:
    window.settings.add_recent(str(tmp_path))
    window.settings.add_recent("/gone/model.pt")
    window.start_page.refresh()
    buttons = [b for b in window.start_page.recent_card.findChildren(QAbstractButton) if b.parent() is not None]
    by_name = {b.accessibleName(): b for b in buttons}
    assert not by_name["Open /gone/model.pt"].isEnabled()
    qtbot.mouseClick(by_name["Remove /gone/model.pt from the list"], Qt.MouseButton.LeftButton)
    assert window.settings.recents() == [str(tmp_path)]


def test_recents_keep_ten_newest_first() -> None:
    settings = Settings()
    for number in range(12):
        settings.add_recent(f"/x/{number}")
    settings.add_recent("/x/5")
    assert settings.recents()[:2] == ["/x/5", "/x/11"]
    assert len(settings.recents()) == 10
    settings.clear()
    assert settings.recents() == []
    settings.add_recent("/one")
    assert Settings().recents() == ["/one"]


def test_settings_that_keep_nothing_leave_the_file_as_it_is() -> None:
    Settings().add_recent("/one")
    passing = Settings(keeps=False)
    passing.scheme = "dark"
    passing.add_recent("/two")
    passing.add_target("/out")
    assert passing.recents() == ["/two", "/one"]
    assert (passing.scheme, passing.targets()) == ("dark", ["/out"])
    passing.clear()
    assert (passing.recents(), passing.scheme, passing.targets()) == ([], "system", [])
    assert (Settings().recents(), Settings().scheme, Settings().targets()) == (["/one"], "system", [])


def test_the_recent_menu_opens_and_forgets(window: MainWindow, qtbot: QtBot, tmp_path: Path) -> None:
    menu = window.tool_bar.open_button.menu()
    window.recents.fill()
    assert [action.text() for action in menu.actions()] == ["Nothing yet"]
    window.settings.add_recent(str(tmp_path))
    window.recents.fill()
    with qtbot.waitSignal(window.settled):
        menu.actions()[0].trigger()
    assert window.last_path == str(tmp_path)
    menu.actions()[-1].trigger()
    assert window.settings.recents() == []


def test_files_can_be_dropped(window: MainWindow, qtbot: QtBot, tmp_path: Path) -> None:
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(tmp_path / "a.pt")), QUrl.fromLocalFile(str(tmp_path / "b.pt"))])
    action, buttons, keys = Qt.DropAction.CopyAction, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    many: list[list[str]] = []
    window.batch_wanted.connect(many.append)
    window.drops.eventFilter(window, QDropEvent(QPointF(1, 1), action, data, buttons, keys))
    assert many == [[str(tmp_path / "a.pt"), str(tmp_path / "b.pt")]]
    data.setUrls(data.urls()[:1])
    with qtbot.waitSignal(window.settled):
        window.drops.eventFilter(window, QDropEvent(QPointF(1, 1), action, data, buttons, keys))
    assert window.last_path == str(tmp_path / "a.pt")


# --------------------------------------------------------------------------------------------------------------- errors


def test_a_file_that_is_none_is_told_in_place(window: MainWindow, qtbot: QtBot, tmp_path: Path) -> None:
    path = tmp_path / "notes.pt"
    path.write_bytes(b"hello, this is no checkpoint")
    opened(window, qtbot, path)
    panel = window.error_panel
    assert window.pages.currentWidget() is panel
    assert panel.title.text() == "notes.pt cannot be opened"
    assert panel.message.text()
    assert window.windowTitle().startswith("notes.pt")
    path.write_bytes(b"")
    with qtbot.waitSignal(window.settled):
        qtbot.mouseClick(panel.again_button, Qt.MouseButton.LeftButton)
    qtbot.mouseClick(panel.leave_button, Qt.MouseButton.LeftButton)
    assert window.pages.currentWidget() is window.start_page


def test_error_words_say_what_where_and_what_to_do() -> None:
    error = CheckpointError(
        "truncated", "It ends early.", fix="Copy it again.", path="/m/a.pt", offset=1234, key="w\x1b"
    )
    title, message, details = error_words("/m", error)
    assert (title, message) == ("m cannot be opened", "It ends early.")
    assert dict(details) == {
        "Where": "/m/a.pt, at byte 1,234", "Tensor": "w\\x1b", "What to do": "Copy it again.", "Code": "truncated",
    }  # fmt: skip
    assert "Permission denied" in error_words("/m", PermissionError(13, "Permission denied"))[1]
    assert "fault of this program" in error_words("/m", ZeroDivisionError())[2][1][1]


def test_an_unexpected_exception_is_shown_and_can_be_copied(qtbot: QtBot, qapp: QApplication) -> None:
    windows = Windows(Settings(), Theme(qapp, "light"))
    window = windows.add()
    qtbot.addWidget(window)
    window.tell.trouble(ValueError("odd <b>"))
    assert window.notices.isVisible()
    assert "ValueError: odd <b>" in window.notices.text("trouble")
    windows.close_all()


@pytest.mark.allow_log("ValueError")
def test_the_hooks_catch_and_are_taken_off_again(qtbot: QtBot, qapp: QApplication) -> None:
    import sys

    windows = Windows(Settings(), Theme(qapp, "light"))
    window = windows.add()
    qtbot.addWidget(window)
    before = sys.excepthook
    with caught(windows.show_trouble):
        sys.excepthook(ValueError, ValueError("from a slot"), None)
    assert sys.excepthook is before
    assert "from a slot" in window.notices.text("trouble")


# ------------------------------------------------------------------------------------------------------------- findings


def test_a_click_on_a_finding_shows_its_tensors(qtbot: QtBot, qapp: QApplication) -> None:
    window = make_window(qtbot, qapp, source())
    card = next(c for c in window.checkpoint_panel.finding_cards if c.finding.code == "wrapper-prefix")
    qtbot.mouseClick(card, Qt.MouseButton.LeftButton)
    panel = window.tree_panel
    assert panel.model.flat
    assert panel.model.rowCount() == len(card.finding.keys)
    assert panel.view.currentIndex().row() == 0
    assert "wrapper-prefix" in panel.bar.only_button.text()
    qtbot.mouseClick(panel.bar.only_button, Qt.MouseButton.LeftButton)
    assert not panel.model.flat


def test_missing_tensors_come_first_and_are_shown_by_state(qtbot: QtBot, qapp: QApplication) -> None:
    window = make_window(qtbot, qapp, source(without="layers.1"))
    cards = window.checkpoint_panel.finding_cards
    assert cards[0].finding.code == "missing-tensor"
    cards[0].setFocus()
    qtbot.keyClick(cards[0], Qt.Key.Key_Return)
    assert window.tree_panel.filter_box.text() == "state:missing"
    assert window.tree_panel.model.rowCount() == 9


def test_the_card_says_what_it_is(qtbot: QtBot, qapp: QApplication) -> None:
    window = make_window(qtbot, qapp, source(llama_refs(prefix="_orig_mod.", section=("model",))))
    card = window.checkpoint_panel.card
    assert card is not None
    assert card.nesting == ("inside {'model': …}", "inside torch.compile")
    facts = {fact.label: fact.value for fact in card.facts}
    assert facts["Types"] == "bf16 100 %"
    assert facts["Model"] == "2 layers, hidden 8, 2 heads (1 key/value)"
    assert facts["Beside it"] == "params.json, no tokenizer"
    assert card.safe
    assert "All 21 expected tensors are there" in card.passed
    assert "params.json agrees with the tensors" in card.passed


def test_foreign_objects_are_told(qtbot: QtBot, qapp: QApplication) -> None:
    unsafe = Finding("unsafe-pickle", "error", "It would call os.system.", fix="Export it.")
    card = make_window(qtbot, qapp, source(problems=(unsafe,))).checkpoint_panel.card
    assert card is not None
    assert not card.safe
    assert "would run code" in card.safety
    assert not any("opens whole" in text for text in card.passed)


def test_the_user_chooses_between_sections(qtbot: QtBot, qapp: QApplication) -> None:
    refs = [*llama_refs(section=("model",)), *llama_refs(section=("ema",))]
    window = make_window(qtbot, qapp, source(refs))
    card = window.checkpoint_panel.card
    assert card is not None
    assert set(card.sections) == {("model",), ("ema",)}
    chooser = next(c for c in window.findChildren(QComboBox) if c.accessibleName() == "Section with the weights")
    assert (chooser.currentIndex(), chooser.placeholderText()) == (-1, "Choose one…"), "nothing is chosen yet"
    window.session.change_policy(section=("ema",))
    assert window.session.snapshot is not None
    assert window.session.snapshot.plan.section == ("ema",)
    assert window.isWindowModified()
    window.session.undo_stack.undo()
    assert window.session.snapshot.plan.section == ("model",)
    assert not window.isWindowModified()


@pytest.mark.case(25)
def test_names_from_the_file_are_never_rich_text(qtbot: QtBot, qapp: QApplication) -> None:
    refs = [*llama_refs(prefix="_orig_mod."), TensorRef("<h1>big</h1>", "bf16", (2,), (), "w.pt", "x")]
    window = make_window(qtbot, qapp, source(refs, path="<h1>path</h1>"))
    for found in window.findChildren(QLabel):
        if "h1" in found.text():
            assert found.textFormat() == Qt.TextFormat.PlainText, found.text()


# -------------------------------------------------------------------------------------------------- session and closing


def test_closing_closes_the_files(qtbot: QtBot, qapp: QApplication) -> None:
    made = source()
    window = make_window(qtbot, qapp, made)
    window.commands.close_checkpoint()
    reader = made.readers["w.pt"]
    assert isinstance(reader, PatternReader)
    assert reader.closed
    assert window.pages.currentWidget() is window.start_page
    assert window.tree_panel.model.rowCount() == 0


def test_a_source_that_comes_after_the_user_moved_on_is_closed(
    window: MainWindow, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go, late = threading.Event(), threading.Event(), source()

    def slow(path: object, **_: object) -> object:
        begun.set()
        go.wait(patience.SECONDS)
        return late

    monkeypatch.setattr(snapshot_module, "open_checkpoint", slow)
    window.open_path("slow.pt")
    qtbot.waitUntil(begun.is_set)
    window.session.close()
    go.set()
    reader = late.readers["w.pt"]
    assert isinstance(reader, PatternReader)
    qtbot.waitUntil(lambda: reader.closed)
    assert window.session.snapshot is None


def test_closing_the_window_while_opening_leaves_nothing(
    window: MainWindow, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, late = threading.Event(), source()
    monkeypatch.setattr(snapshot_module, "open_checkpoint", lambda path, **_: (begun.set(), late)[1])
    window.open_path("quick.pt")
    assert begun.wait(patience.SECONDS), "not by the loop of events, which could take the result"
    window.close()
    reader = late.readers["w.pt"]
    assert isinstance(reader, PatternReader)
    assert reader.closed


def test_opening_can_be_cancelled(window: MainWindow, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    late = source()

    def slow(path: object, cancelled: object = None, **_: object) -> object:
        assert callable(cancelled)
        while not cancelled():
            pass
        return late

    monkeypatch.setattr(snapshot_module, "open_checkpoint", slow)
    window.open_path("slow.pt")
    assert window.pages.currentWidget() is window.loading_panel
    with qtbot.waitSignal(window.settled):
        window.loading_panel.cancel.emit()
    assert window.pages.currentWidget() is window.start_page


def test_closing_with_running_work_asks_by_name(window: MainWindow, qtbot: QtBot) -> None:
    go, asked, answers = threading.Event(), [], [False, True]

    def work(job: Job) -> None:
        job.progress("writing", 42, 100)
        while not (job.cancelled() or go.wait(0.01)):
            pass

    running = window.jobs.start("Exporting tiny", work, lambda _: None, lambda _: None)
    qtbot.waitUntil(lambda: running.percent == 42)
    window.ask_to_close = lambda _window, titles: bool(asked.append(list(titles))) or answers.pop(0)
    assert not window.close()
    assert window.isVisible()
    assert window.close()
    assert asked == [["Exporting tiny, 42 %"], ["Exporting tiny, 42 %"]]
    assert not window.jobs.running()


def test_a_large_checkpoint_is_planned_in_a_job(
    qtbot: QtBot, qapp: QApplication, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning_module, "MANY", 3)
    window = make_window(qtbot, qapp, source())
    window.session.change_target(layout="meta")
    window.session.change_target(layout="torchtune")
    window.session.change_policy(tie="keep")
    qtbot.waitUntil(lambda: not window.jobs.running())
    assert window.session.snapshot is not None
    decisions = window.session.snapshot.decisions
    assert (decisions.target.layout, decisions.policy.tie) == ("torchtune", "keep"), "no decision is lost on the way"


def test_docks_come_after_the_tree_and_not_if_it_is_closed_before(qtbot: QtBot, qapp: QApplication) -> None:
    window = make_window(qtbot, qapp)
    window.session.publish(snapshot_of(source()))
    assert window.tree_panel.isVisible()
    assert not window.docks["inspector"].isVisible()
    assert not window.checkpoint_panel.findChildren(WhatCard), "it is made when it is seen"
    window.commands.close_checkpoint()
    qtbot.wait(20)
    assert not window.docks["inspector"].isVisible()
    window.session.publish(snapshot_of(source()))
    settle(qtbot, window)
    assert window.docks["inspector"].isVisible()
    assert window.checkpoint_panel.findChildren(WhatCard)


def test_a_dock_that_was_hidden_stays_hidden(qtbot: QtBot, qapp: QApplication) -> None:
    window = make_window(qtbot, qapp, source())
    window.docks["plan"].hide()
    window.commands.close_checkpoint()
    window.session.publish(snapshot_of(source()))
    settle(qtbot, window)
    assert not window.docks["plan"].isVisible()
    assert window.docks["inspector"].isVisible()
    window.close()
    again = make_window(qtbot, qapp)
    again.restore()
    again.session.publish(snapshot_of(source()))
    settle(qtbot, again)
    assert not again.docks["plan"].isVisible()


def test_a_refused_decision_is_told_in_the_bar(qtbot: QtBot, qapp: QApplication) -> None:
    window = make_window(qtbot, qapp, source())
    window.session.change_target(layout="nonsense")
    assert "nonsense" in window.notices.text("trouble")
    window.session.change_target(layout="meta")
    assert window.session.snapshot is not None
    assert window.session.snapshot.decisions.target.layout == "meta"


def test_tensors_to_fix_counts_what_changes() -> None:
    assert tensors_to_fix(snapshot_of(source())) == 21
    assert tensors_to_fix(snapshot_of(source(llama_refs("hf"), params=None))) == 0


# -------------------------------------------------------------------------------------------------------------- actions


def test_every_action_has_a_handler_and_no_shortcut_is_taken_twice(window: MainWindow) -> None:
    taken: dict[str, str] = {}
    for spec in ACTIONS:
        assert callable(getattr(window.commands, spec.handler))
        for key in window.actions_by_id[spec.id].shortcuts():
            assert key.toString() not in taken, (spec.id, taken[key.toString()])
            taken[key.toString()] = spec.id
    assert taken["Ctrl+O"] == "open-file"


def test_shortcuts_move_through_the_differences(qtbot: QtBot, qapp: QApplication) -> None:
    window = make_window(qtbot, qapp, source())
    window.actions_by_id["next"].trigger()
    assert window.tree_panel.view.currentIndex().isValid()
    window.actions_by_id["list"].trigger()
    assert window.tree_panel.model.flat
    window.actions_by_id["tree"].trigger()
    assert not window.tree_panel.model.flat


def test_controls_have_names(qtbot: QtBot, qapp: QApplication) -> None:
    window = make_window(qtbot, qapp, source())
    mine = (
        window.start_page,
        window.error_panel,
        window.tree_panel,
        window.checkpoint_panel,
        window.tool_bar,
        window.status_bar,
    )
    nameless = [
        (type(panel).__name__, type(w).__name__, w.objectName())
        for panel in mine
        for kind in (QAbstractButton, QLineEdit)
        for w in panel.findChildren(kind)
        if not (w.accessibleName() or getattr(w, "text", str)()) and not w.objectName().startswith("qt_")
        and type(w.parent()).__name__ not in ("QLineEdit",)
    ]  # fmt: skip
    assert not nameless


def test_the_scheme_is_remembered(window: MainWindow) -> None:
    window.actions_by_id["theme-dark"].trigger()
    assert window.theme.dark
    assert Settings().scheme == "dark"
    window.actions_by_id["theme-light"].trigger()
    assert not window.theme.dark


def test_help_opens(window: MainWindow, qtbot: QtBot) -> None:
    for made in (LegendDialog(window.theme, window), AboutDialog(window)):
        made.open()
        assert made.isVisible()
        made.close()


# -------------------------------------------------------------------------------------------------- what blocks, focus


def test_fix_is_off_while_something_blocks_and_says_why(qtbot: QtBot, qapp: QApplication) -> None:
    window = make_window(qtbot, qapp, source(without="layers.1."))
    assert not window.tool_bar.fix_button.isEnabled()
    assert window.tool_bar.fix_button.toolTip().startswith("Blocked: ")
    assert not window.actions_by_id["fix"].isEnabled()
    assert window.actions_by_id["export"].isEnabled(), "the dialog says what can be done"
    window.session.publish(snapshot_of(source()))
    assert window.tool_bar.fix_button.isEnabled()


def test_a_finding_about_the_pair_shows_the_pair(qtbot: QtBot, qapp: QApplication) -> None:
    window = make_window(qtbot, qapp, source())
    window.checkpoint_panel.finding_chosen.emit(Finding("renamed", "warning", "x", keys=()))
    assert window.inspector_panel.tabs.currentWidget() is window.inspector_panel.details
    window.checkpoint_panel.finding_chosen.emit(Finding("tied-conflict", "error", "x", keys=("output.weight",)))
    assert window.inspector_panel.tabs.currentWidget() is window.inspector_panel.tied


def test_the_head_counts_are_a_click_away(qtbot: QtBot, qapp: QApplication) -> None:
    window = make_window(qtbot, qapp, source(params=None))
    button = next(
        b for b in window.checkpoint_panel.findChildren(QAbstractButton) if b.text() == "Give the head counts…"
    )
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    dialog = window.commands.dialog
    assert dialog is not None
    assert not dialog.form.choices.heads_row.isHidden()
    dialog.close()


def test_tab_goes_through_the_findings_where_they_stand(qtbot: QtBot, qapp: QApplication) -> None:
    window = make_window(qtbot, qapp, source())
    cards = [card for card in window.checkpoint_panel.finding_cards if card.finding.keys]
    assert cards
    following, steps = window.checkpoint_panel.nextInFocusChain(), 0
    while not following.focusPolicy() & Qt.FocusPolicy.TabFocus:
        following, steps = following.nextInFocusChain(), steps + 1
        assert steps < 500
    assert following is cards[0]


@pytest.mark.parametrize("points", [9.0, 14.0])
def test_the_window_fits_a_small_screen(qtbot: QtBot, qapp: QApplication, points: float) -> None:
    usual = qapp.font()
    larger = QFont(usual)
    larger.setPointSizeF(points)
    qapp.setFont(larger)
    try:
        window = make_window(qtbot, qapp, source(without="layers.1."))
        window.plan_panel.tree.setCurrentItem(window.plan_panel.tree.topLevelItem(0))
        least = window.minimumSizeHint()
        assert (least.width(), least.height()) <= (1280, 800)
        assert least.height() <= 800
    finally:
        qapp.setFont(usual)


def test_the_window_closes_without_a_question_while_it_only_looks(qtbot: QtBot, qapp: QApplication) -> None:
    window = make_window(qtbot, qapp, source())
    window.ask_to_close = lambda _window, titles: pytest.fail(f"asked about {titles}")
    window.inspector_panel.show_pair()
    window.commands.export()
    dialog = window.commands.dialog
    assert dialog is not None
    dialog._look()
    assert window.jobs.running()
    window.close()
    assert not window.isVisible()
