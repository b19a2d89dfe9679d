"""Every text of the window is looked up, sentences of the core included; numbers are as the locale writes them."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QLocale, QTranslator
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from ckpt_gui.desktop.resources import SAMPLE, resource
from ckpt_gui.gui import language
from ckpt_gui.gui.language import Templates, local, said
from ckpt_gui.gui.models.tree_columns import Column
from tests.gui import pseudo
from tests.gui.windows import make_window

sys.path.insert(0, str(pseudo.ROOT / "scripts"))

import sentences
import translations


@pytest.fixture
def german(qapp: QApplication) -> Iterator[None]:
    before = QLocale()
    QLocale.setDefault(QLocale(QLocale.Language.German, QLocale.Country.Germany))
    yield
    QLocale.setDefault(before)
    language.speak(None)
    for translator in qapp.findChildren(QTranslator):
        qapp.removeTranslator(translator)
        translator.deleteLater()


def shown_in_english(app: QApplication) -> set[str]:
    """Return what is not looked up in the windows that are open."""
    for _ in range(3):
        app.processEvents()
    tops = [top for top in app.topLevelWidgets() if top.isVisible()]
    return {text for top in tops for _, text in pseudo.texts_of(top) if pseudo.english(text)}


@pytest.mark.parametrize("page", ["tensors", "overview", "values", "plots", "scan", "compare"])
def test_every_text_of_a_page_is_looked_up(qtbot: QtBot, qapp: QApplication, page: str) -> None:
    with pseudo.brackets(qapp):
        window = make_window(qtbot, qapp)
        window.open_path(str(resource(SAMPLE)))
        qtbot.waitUntil(lambda: window.session.snapshot is not None)
        window.page_tabs.show_page(page)
        window.tree_panel.view.current.selectAll()
        qtbot.waitUntil(lambda: not window.session.jobs.running())

        assert shown_in_english(qapp) == set()


@pytest.mark.parametrize(
    "command",
    [
        "export",
        "show_legend",
        "explain_error",
        "show_about",
        "open_location",
        "show_palette",
        "show_settings",
        "show_shortcuts",
        "show_help",
        "fix_and_export",
        "edit_fields",
        "add_rule",
        "map_to_expected",
    ],
)
def test_every_text_of_a_dialog_is_looked_up(qtbot: QtBot, qapp: QApplication, command: str) -> None:
    with pseudo.brackets(qapp):
        window = make_window(qtbot, qapp)
        window.open_path(str(resource(SAMPLE)))
        qtbot.waitUntil(lambda: window.session.snapshot is not None)
        getattr(window.commands, command)()

        assert shown_in_english(qapp) == set()
        for top in qapp.topLevelWidgets():
            if top is not window and top.isVisible():
                top.close()


def test_the_start_page_is_looked_up(qtbot: QtBot, qapp: QApplication) -> None:
    with pseudo.brackets(qapp):
        make_window(qtbot, qapp)
        assert shown_in_english(qapp) == set()


def test_no_widget_is_given_a_text_that_is_not_looked_up() -> None:
    assert sentences.loose() == ()


def test_a_template_is_found_by_what_it_says_most_exactly() -> None:
    templates = Templates(["{0} of {1}", "{0} of {1} tensors", "All {0} tensors are there", "as it is"])
    assert templates.find("3 of 4 tensors") == ("{0} of {1} tensors", ("3", "4"))
    assert templates.find("All 12 tensors are there") == ("All {0} tensors are there", ("12",))
    assert templates.find("as it is") == ("as it is", ())
    assert templates.find("something else") is None


def test_a_sentence_with_its_values_is_translated_and_counts_as_the_locale_does(
    qapp: QApplication, german: None, tmp_path: Path
) -> None:
    file = translations.update("de", tmp_path)
    spoken = {
        "All {0} expected tensors are there": "Alle {0} erwarteten Tensoren sind da",
        "{0} tensors": "{0} Tensoren",
        "no config": "keine Konfiguration",
    }
    text = file.read_text(encoding="utf-8")
    for source, german_text in spoken.items():
        before = f'<source>{source}</source>\n      <translation type="unfinished" />'
        assert before in text, source
        text = text.replace(before, f"<source>{source}</source>\n      <translation>{german_text}</translation>")
    file.write_text(text, encoding="utf-8")
    translations.release(file)
    translations.write_templates(tmp_path)
    language.install(qapp, tmp_path)

    assert said("All 1,291 expected tensors are there") == "Alle 1.291 erwarteten Tensoren sind da"
    assert said("Alle 1.291 erwarteten Tensoren sind da") == "Alle 1.291 erwarteten Tensoren sind da"
    assert said("1,291 tensors, no config") == "1.291 Tensoren, keine Konfiguration"
    assert said("model.layers.0.q_proj.weight") == "model.layers.0.q_proj.weight"
    assert local("2.30 GiB") == "2,30 GiB"


def test_what_was_translated_is_kept_when_the_texts_change(tmp_path: Path) -> None:
    file = translations.update("de", tmp_path)
    before = '<source>no config</source>\n      <translation type="unfinished" />'
    text = file.read_text(encoding="utf-8")
    assert before in text
    file.write_text(text.replace(before, "<source>no config</source><translation>ohne</translation>"), "utf-8")

    translations.update("de", tmp_path)

    assert translations.read_translations(file) == {("sentences", "no config"): "ohne"}


def test_qt_finds_each_text_of_a_class_under_the_name_of_that_class(tmp_path: Path) -> None:
    """Qt's own tool finds the same texts in tr(): so they are looked up where they are put."""
    files = sorted((pseudo.ROOT / "ckpt_gui/gui").rglob("*.py"))
    made = tmp_path / "by_qt.ts"
    tool = Path(sys.executable).with_name("pyside6-lupdate")
    subprocess.run([tool, "-silent", *files, "-ts", made], check=True, capture_output=True)
    by_qt = {
        (context.findtext("name"), message.findtext("source"))
        for context in ET.parse(made).getroot().iter("context")
        for message in context.iter("message")
    }
    ours = {(found.context, found.text) for found in sentences.texts()}
    assert len(by_qt) > 500
    assert {each for each in by_qt if each[0] and each not in ours} == set()


def test_figures_are_shown_as_the_locale_writes_them_and_copied_as_programs_read_them(
    qtbot: QtBot, qapp: QApplication, german: None
) -> None:
    window = make_window(qtbot, qapp)
    window.open_path(str(resource(SAMPLE)))
    qtbot.waitUntil(lambda: window.session.snapshot is not None)
    window.tree_panel.set_mode("flat")
    view = window.tree_panel.view
    window.tree_panel.select_key("model._orig_mod.tok_embeddings.weight")
    assert view.currentIndex().siblingAtColumn(Column.SIZE).data() == "24,0 KiB"

    window.tree_panel.copying.copy_rows()
    assert "24,0" not in QApplication.clipboard().text()
