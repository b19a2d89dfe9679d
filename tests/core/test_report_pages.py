"""Reports as files: trees, tables and pictures in every form, hostile names in all of them, SARIF by its schema."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ckpt_gui.core.compare import compare, side_of_plan
from ckpt_gui.core.compare.findings import diff_findings
from ckpt_gui.core.diffing import diff_expected
from ckpt_gui.core.errors import Finding
from ckpt_gui.core.export import Target
from ckpt_gui.core.formats import open_checkpoint
from ckpt_gui.core.normalise import understand
from ckpt_gui.core.report import check_page, diff_document, diff_json, export_page, sarif
from ckpt_gui.core.report.expected_tree import expected_tree
from ckpt_gui.core.report.figures import bars, histograms
from ckpt_gui.core.report.name_tree import name_tree
from ckpt_gui.core.report.pictures import changed_picture, tied_picture
from ckpt_gui.core.retarget import retarget
from ckpt_gui.core.text import Branch, Document, Figure, Section, Table, html_page, markdown, plain_text
from tests.core import models

EVIL = "x`</code><img src=a onerror=b>\x1b[31m\u202e\n# y | *z* [l](javascript:1) <script>alert(1)</script>"
VOID = ("meta", "br", "rect", "path")


class Page(HTMLParser):
    """Takes a page apart: which elements it has, and whether each is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.open: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def harmless(text: str) -> Page:
    """A page that runs nothing and asks for nothing."""
    page = Page(text)
    assert not {"script", "img", "iframe", "link", "object", "embed", "base", "form"} & set(page.tags)
    assert not [name for name, _ in page.attributes if name.startswith("on") or name in ("src", "href", "xlink:href")]
    assert not {"\x1b", "\u202e"} & set(text)
    assert "prefers-color-scheme: dark" in text
    return page


# ---- the items


@pytest.fixture
def document() -> Document:
    tree = Branch(EVIL, EVIL, "error", (Branch(EVIL, EVIL, members=((EVIL, EVIL),)),))
    table = Table((EVIL, "n"), ((EVIL, "1"),))
    pictures = (bars(EVIL, [EVIL], [1.0]), histograms(EVIL, (0.0, 1.0), (EVIL, EVIL), ((1,), (2,))))
    return Document(EVIL, (Section(EVIL, (tree, table, *(p for p in pictures if p))),), EVIL)


def test_hostile_names_in_a_page(document: Document) -> None:
    page = harmless(html_page(document))
    assert page.tags.count("svg") == 2
    assert page.tags.count("details") == 2


def test_hostile_names_in_text_and_markdown(document: Document) -> None:
    for text in (plain_text(document), markdown(document)):
        assert not {"\x1b", "\u202e"} & set(text)
        assert "\n# y" not in text
    body = markdown(document)
    for place, char in enumerate(body):
        if char == "<" or body.startswith("](", place):
            assert body[place - 1] == "\\"


def test_tree_and_table_in_words() -> None:
    tree = Branch("model", children=(Branch("a", "equal"), Branch("b", children=(Branch("c", "missing"),))))
    table = Table(("name", "n"), (("long name", "1"), ("x", "1,000")))
    document = Document("t", (Section("h", (tree, table)),), "v")
    assert plain_text(document) == (
        "t\n\nh\n  model\n    a\n      equal\n    b\n      c\n        missing\n"
        "  name           n\n  long name      1\n  x          1,000\n\nv\n"
    )
    assert markdown(document) == (
        "# t\n\n## h\n\n- `model`\n  - `a`: equal\n  - `b`\n    - `c`: missing\n\n"
        "| name | n |\n| --- | ---: |\n| `long name` | 1 |\n| `x` | 1,000 |\n\n**v**\n"
    )


def test_a_name_tree_folds_only_children() -> None:
    lines = [(name, Branch("", name)) for name in ("m.a.b.c", "m.a.b.d", "m.e", "f.g.h")]
    made = name_tree(lines)
    assert [b.label for b in made] == ["m", "f.g.h"]
    assert [(b.label, [c.label for c in b.children]) for b in made[0].children] == [("a.b", ["c", "d"]), ("e", [])]
    assert made[1].note == "f.g.h"


def test_a_name_of_ten_thousand_segments() -> None:
    deep = ".".join("a" * 10_000)
    made = name_tree([(deep, Branch("", "n")), (deep + "x", Branch("", "n"))])
    (top,) = made
    assert [len(child.label.split(".")) for child in top.children] == [10_000 - 12] * 2
    assert "(19,976 characters)" in html_page(Document("t", (Section("", made),), "v"))


# ---- pictures


def test_bars_stand_on_a_scale_from_zero() -> None:
    picture = bars("c", ["a", "b"], [1.0, 2.0])
    assert picture is not None
    heights = [float(part.split('"')[0]) for part in picture.svg.split(' height="')[1:]]
    assert heights[1] == pytest.approx(2 * heights[0])
    assert (bars("c", [], []), bars("c", ["a"], [0.0]), bars("c", ["a"], [float("nan")])) == (None, None, None)


def test_the_pair_of_a_model_that_was_tied() -> None:
    state = models.state("hf")
    plan = models.plan(state, models.config(tie_word_embeddings=True))
    (picture,) = tied_picture(plan)
    assert "model.embed_tokens.weight" in picture.svg
    assert tied_picture(plan, budget=10) == ()
    assert tied_picture(models.plan(models.state("hf", head="absent"), models.config())) == ()


def test_the_tensor_that_has_changed_most() -> None:
    state = models.state("hf")
    q, norm = "model.layers.0.self_attn.q_proj.weight", "model.norm.weight"
    sides = [
        side_of_plan(models.plan(s, models.config())) for s in (state, state | {q: state[q] * 2, norm: state[norm] + 1})
    ]
    found = compare(*sides, values=True)
    (picture,) = changed_picture(found)
    assert q in picture.caption
    assert changed_picture(compare(sides[0], sides[0], values=True)) == ()


def test_a_report_does_without_a_picture_that_can_not_be_made(tmp_path: Path) -> None:
    one = models.save(tmp_path / "a", models.state("hf"), config=models.config(tie_word_embeddings=True))
    with open_checkpoint(one) as source:
        plan = understand(source)
        (one / "model.safetensors").write_bytes(b"")
        assert plan.tie.state == "different"
        assert tied_picture(plan) == ()


# ---- whole reports


def test_a_page_of_check() -> None:
    state = {f"_orig_mod.{key}": value for key, value in models.state("meta", head="equal").items()}
    plan = models.plan(state, None, models.params())
    page = check_page(plan, figures=(Figure("<svg></svg>", "here"),))
    headings = [s.heading for s in page.sections]
    plan_of = [f"What fix does: {part}" for part in ("Steps", "Tensors", "Left out")]
    assert headings[-5:] == ["Not as expected", *plan_of, "Pictures"]
    text = plain_text(page)
    assert "layers.0-2" in text
    assert "_orig_mod.layers.N.attention.wq.weight → model.layers.N.self_attn.q_proj.weight" in " ".join(text.split())
    harmless(html_page(page))


def test_a_page_of_fix() -> None:
    export = retarget(models.model("meta", head="equal"), Target("hf"))
    page = export_page(export, "Done.", "good", ("model.safetensors",))
    assert [s.heading for s in page.sections][-2:] == ["Files", "Source beside export"]
    text = " ".join(plain_text(page).split())
    assert "wo.weight 3 × renamed → `model.layers.0-2.self_attn.o_proj.weight`" in text
    assert "wq.weight 3 × values change places → `model.layers.0-2.self_attn.q_proj.weight`" in text
    harmless(html_page(page))


def test_what_is_not_as_expected() -> None:
    state = models.state("hf")
    odd = {k: v for k, v in state.items() if "layers.1.mlp.up" not in k} | {EVIL: np.ones(3, np.float32)}
    odd["model.norm.weight"] = np.ones(5, np.float32)
    plan = models.plan(odd, models.config())
    tree = expected_tree(diff_expected(retarget(plan, Target("same"))))
    document = Document("t", (Section("", tree),), "v")
    text = " ".join(plain_text(document).split())
    assert "layers.1.mlp.up_proj.weight missing" in text
    assert "norm.weight wrong shape; [5], expected [24]" in text
    assert "not expected" in text
    harmless(html_page(document))
    clean = models.plan(state, models.config())
    assert expected_tree(diff_expected(retarget(clean, Target("same")))) == ()


def test_a_page_of_diff_with_hostile_names() -> None:
    plans = [models.plan({EVIL: np.ones((2, 2), np.float32) * n, "b": np.ones(n, np.float32)}) for n in (1, 2)]
    found = compare(*map(side_of_plan, plans), values=True)
    findings = diff_findings(found)
    page = harmless(html_page(diff_document(found, found.rows, findings, changed_picture(found))))
    assert "details" in page.tags or "div" in page.tags
    text = json.dumps(diff_json(found, found.rows, findings))
    assert json.loads(text)["rows"][1]["key"] == EVIL


# ---- SARIF 2.1.0: required and allowed properties of the objects used here (OASIS, sarif-schema-2.1.0.json)

ALLOWED: dict[str, tuple[set[str], set[str]]] = {
    "log": ({"version", "runs"}, {"$schema"}),
    "run": ({"tool"}, {"results", "columnKind", "artifacts", "invocations"}),
    "tool": ({"driver"}, set()),
    "driver": ({"name"}, {"version", "rules", "informationUri"}),
    "rule": ({"id"}, {"name", "shortDescription", "defaultConfiguration"}),
    "result": ({"message"}, {"ruleId", "ruleIndex", "level", "locations"}),
    "message": (set(), {"text"}),
    "location": (set(), {"physicalLocation", "logicalLocations"}),
    "physicalLocation": (set(), {"artifactLocation"}),
    "artifactLocation": (set(), {"uri"}),
    "logicalLocation": (set(), {"fullyQualifiedName", "kind", "name"}),
}


def holds(kind: str, value: Any) -> Any:
    required, optional = ALLOWED[kind]
    assert isinstance(value, dict)
    assert required <= value.keys() <= required | optional, kind
    return value


def test_sarif_holds_to_its_schema(tmp_path: Path) -> None:
    state = models.state("hf")
    sides = [side_of_plan(models.plan(s, models.config())) for s in (state, {k: v + 1 for k, v in state.items()})]
    found = diff_findings(compare(*sides, values=True))
    evil = (Finding("unexpected-tensor", "warning", EVIL, (EVIL,), EVIL), Finding("config-missing", "info", "No."))
    log = json.loads(json.dumps(sarif("a b/x.pth", (*found, *evil))))
    assert holds("log", log)["version"] == "2.1.0"
    for run in log["runs"]:
        driver = holds("driver", holds("tool", holds("run", run)["tool"])["driver"])
        rules = [holds("rule", rule)["id"] for rule in driver["rules"]]
        assert len(set(rules)) == len(rules)
        for result in run["results"]:
            assert holds("result", result)["level"] in ("none", "note", "warning", "error")
            assert rules[result["ruleIndex"]] == result["ruleId"]
            assert holds("message", result["message"])["text"]
            for location in result["locations"]:
                place = holds("physicalLocation", holds("location", location)["physicalLocation"])
                assert holds("artifactLocation", place["artifactLocation"])["uri"] == "a%20b/x.pth"
                for name in location.get("logicalLocations", ()):
                    assert holds("logicalLocation", name)["kind"] == "member"
