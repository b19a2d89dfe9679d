"""The user guide: messages are explained by the kinds of its pages, commands are understood, pictures can be drawn."""

from __future__ import annotations

import json
import re
import shlex
import sys
from importlib import import_module
from pathlib import Path

import pytest

from ckpt_gui.cli.main import main
from ckpt_gui.cli.parser import Parser
from ckpt_gui.core.explain import KINDS, explain

ROOT = Path(__file__).resolve().parents[1]
GUIDE = ROOT / "docs" / "guide"
PAGES = sorted(page for page in GUIDE.glob("*.md") if page.name != "README.md")
sys.path.insert(0, str(ROOT / "scripts"))

import guide_pictures  # noqa: E402
import sentences  # noqa: E402


def kind_of(page: Path) -> str:
    return page.read_text(encoding="utf-8").split(".", 1)[0].removeprefix("# ")


def block(page: Path, language: str) -> list[str]:
    found = re.search(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    return found[1].strip().splitlines() if found else []


def test_there_is_a_page_and_a_picture_for_each_kind() -> None:
    assert sorted(kind_of(page) for page in PAGES) == sorted(KINDS)
    assert {example.kind: example.name for example in guide_pictures.EXAMPLES} == {
        kind_of(page): page.stem for page in PAGES
    }
    for page in PAGES:
        for scheme in ("light", "dark"):
            assert (GUIDE / "pictures" / f"{page.stem}-{scheme}.png").exists()
            assert f"pictures/{page.stem}-{scheme}.png" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_has_the_title_of_its_kind(page: Path) -> None:
    assert page.read_text(encoding="utf-8").startswith(f"# {kind_of(page)}. {KINDS[kind_of(page)]}\n")


@pytest.mark.parametrize(
    ("page", "message"), [(page, line) for page in PAGES for line in block(page, "text")], ids=lambda it: str(it)[-40:]
)
def test_a_message_of_a_page_is_explained_by_its_kind(page: Path, message: str) -> None:
    found = explain(message)
    assert found, message
    assert found[0].kind == kind_of(page), (found[0].id, found[0].kind)


@pytest.mark.parametrize(
    ("page", "command"), [(page, line) for page in PAGES for line in block(page, "sh")], ids=lambda it: str(it)[-40:]
)
def test_a_command_of_a_page_is_understood(page: Path, command: str) -> None:
    words = shlex.split(command)
    if words[0] == "ckpt-gui":
        command_module = import_module(f"ckpt_gui.cli.{words[1]}")
        parser = Parser(prog="ckpt-gui")
        command_module.add_arguments(parser)
        parser.read(words[2:])


@pytest.mark.parametrize("example", guide_pictures.EXAMPLES, ids=lambda example: example.name)
def test_the_checkpoint_of_a_picture_has_the_fault(
    example: guide_pictures.Example, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    whole = guide_pictures.make_whole(tmp_path / "whole")
    opened = guide_pictures.make(example, whole, tmp_path)
    assert codes(opened, whole if "--against" in example.view else None, capsys) >= FAULTS[example.kind]


FAULTS: dict[str, set[str]] = {
    "A": {"truncated"}, "B": {"tied-conflict"}, "C": set(), "D": {"wrapper-prefix"}, "E": {"shard-missing"},
    "F": {"unsafe-pickle", "foreign-object"}, "G": {"storage-bloat"}, "H": {"adapter-empty"}, "I": {"shard-missing"},
    "J": {"config-mismatch"}, "K": {"rope-permuted"}, "L": {"dtype-mixed"}, "M": {"quantised"},
    "N": {"several-sections"},
}  # fmt: skip


def codes(path: Path, reference: Path | None, capsys: pytest.CaptureFixture[str]) -> set[str]:
    main(["check", str(path), "--json", "-", *(["--against", str(reference)] if reference else [])])
    return {finding["code"] for finding in json.loads(capsys.readouterr().out)["findings"]}


@pytest.mark.parametrize("page", [*PAGES, GUIDE / "README.md"], ids=lambda page: page.stem)
def test_what_a_page_says_to_click_is_in_the_window(page: Path) -> None:
    there = {
        found.text.replace("&&", "\0").replace("&", "").replace("\0", "&").rstrip("…")
        for found in sentences.texts(places=["ckpt_gui/gui"])
    }
    named = {
        part for bold in re.findall(r"\*\*(.+?)\*\*", page.read_text(encoding="utf-8")) for part in bold.split(" → ")
    }
    assert {name for name in named if name.rstrip("…") not in there and not _is_emphasis(name)} == set()


def _is_emphasis(name: str) -> bool:
    return name[:1].islower() or "`" in name or name == "F2"
