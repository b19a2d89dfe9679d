from __future__ import annotations

import json
from pathlib import PurePosixPath

import pytest

from ckpt_gui.core.beside import Sidecars
from ckpt_gui.core.errors import CheckpointError, Finding
from ckpt_gui.core.export import Export, Target
from ckpt_gui.core.normalise import normalise
from ckpt_gui.core.plan import Plan
from ckpt_gui.core.policy import Policy
from ckpt_gui.core.report import (
    check_document,
    check_json,
    export_document,
    export_json,
    facts,
    failure_json,
    finding_json,
    mapping,
    next_command,
    sarif,
    status,
    tie_sentence,
    use_sentences,
)
from ckpt_gui.core.retarget import retarget
from ckpt_gui.core.source import Source, SourceFile
from ckpt_gui.core.tensors import TensorRef
from ckpt_gui.core.text import (
    Document,
    Pair,
    Section,
    Text,
    cells,
    html_page,
    human_bytes,
    markdown,
    plain,
    plain_text,
    wrap,
)

LAYER = {
    "attention_norm": (8,), "attention.wq": (8, 8), "attention.wk": (4, 8), "attention.wv": (4, 8),
    "attention.wo": (8, 8), "ffn_norm": (8,), "feed_forward.w1": (16, 8), "feed_forward.w2": (8, 16),
    "feed_forward.w3": (16, 8),
}  # fmt: skip
PARAMS: dict[str, object] = {
    "dim": 8,
    "n_layers": 2,
    "n_heads": 2,
    "n_kv_heads": 1,
    "vocab_size": 32,
    "multiple_of": 1,
    "hidden_dim": 16,
    "norm_eps": 1e-5,
}


def meta_refs(prefix: str = "", *, alias: bool = False) -> list[TensorRef]:
    shapes = {"tok_embeddings": (32, 8), "norm": (8,), "output": (32, 8)}
    shapes |= {f"layers.{n}.{name}": shape for n in range(2) for name, shape in LAYER.items()}
    refs = []
    for name, shape in shapes.items():
        storage = "tok_embeddings" if alias and name == "output" else name
        refs.append(TensorRef(f"{prefix}{name}.weight", "bf16", shape, file="x.pth", storage=storage))
    return refs


def source(refs: list[TensorRef], path: str = "dir/x.pth", params: dict[str, object] | None = None) -> Source:
    name = PurePosixPath(path).name
    files = (SourceFile(name, path, 4096),)
    return Source(path, "torch-zip", tuple(refs), files, sidecars=Sidecars("dir", params=params))


@pytest.fixture
def plan() -> Plan:
    refs = [*meta_refs("_orig_mod.", alias=True), TensorRef("exp_avg", "fp32", (8,), section=("optimizer",))]
    return normalise(source(refs, params=PARAMS))


def test_aliases_and_optimizer_state_do_not_count(plan: Plan) -> None:
    numbers = facts(plan)
    expected = sum(ref.numel for ref in meta_refs()) - 32 * 8
    assert (numbers.tensors, numbers.parameters, numbers.nbytes) == (21, expected, 2 * expected)
    assert numbers.dtypes == {"bf16": 21}


def test_check_json_is_json(plan: Plan) -> None:
    value = json.loads(json.dumps(check_json(plan)))
    assert (value["schema"], value["status"], value["layout"], value["files"]) == (1, "fixable", "meta", ["x.pth"])
    assert value["tied"]["state"] == "same-storage"


def test_a_finding_shows_twenty_keys_and_counts_all() -> None:
    value = finding_json(Finding("wrapper-prefix", "warning", "m", tuple(f"k{n}" for n in range(50)), "f"))
    assert (len(value["keys"]), value["count"]) == (20, 50)


def test_failure_has_the_fields_of_schema_1(plan: Plan) -> None:
    value = failure_json("x", CheckpointError("truncated", "Cut.", fix="Download it.", key="a"))
    assert list(value) == list(check_json(plan))
    assert value["findings"] == [
        {"code": "truncated", "severity": "error", "message": "Cut.", "keys": ["a"], "count": 1, "fix": "Download it."}
    ]


def test_no_tensor_is_unreadable() -> None:
    assert status(normalise(source([]))) == "unreadable"


def test_the_document_says_what_it_is(plan: Plan) -> None:
    text = plain_text(check_document(plan), 100)
    for words in ("Llama in the Meta layout", "`_orig_mod`", "are one storage under two names", "Fixable"):
        assert words in text
    assert "1 tensor of optimizer state (32 B)" in " ".join(text.split())


def test_next_command(plan: Plan) -> None:
    assert next_command(plan) == "ckpt-gui fix dir/x.pth -o x-hf --to hf"
    odd = normalise(source(meta_refs("_orig_mod."), "a b/it's.pth"))
    assert next_command(odd) == "ckpt-gui fix 'a b/it'\"'\"'s.pth' -o 'it'\"'\"'s-hf' --to hf --config FILE"
    unknown = normalise(source([TensorRef("_orig_mod.what.weight", "bf16", (2,))]))
    assert next_command(unknown) == "ckpt-gui fix dir/x.pth -o x-fixed --to same"
    assert next_command(normalise(source(meta_refs(), params=PARAMS))) == ""
    assert next_command(normalise(source(meta_refs()[:-1]))) == ""


def test_tie_sentences_name_the_flag(plan: Plan) -> None:
    assert "no config says" in tie_sentence(plan.tie)
    assert tie_sentence(normalise(source(meta_refs())).tie).startswith(
        "`tok_embeddings.weight` and `output.weight` are"
    )


# ------------------------------------------------------------------------------------------------------------- export


@pytest.fixture
def export(plan: Plan) -> Export:
    return retarget(plan, Target("hf"))


def test_mapping_groups_by_rule(export: Export) -> None:
    pairs = mapping(export)
    assert sum(pair.count for pair in pairs) == len(export.entries) == 20
    query = next(pair for pair in pairs if "wq" in pair.before)
    assert query.before == "_orig_mod.layers.N.attention.wq.weight"
    assert query.after == "model.layers.N.self_attn.q_proj.weight"
    assert query.note == "rotary rows pairs → halves, 2 heads"
    assert query.example == ("_orig_mod.layers.0.attention.wq.weight", "model.layers.0.self_attn.q_proj.weight")


def test_a_name_that_stays_is_written_once(plan: Plan) -> None:
    same = mapping(retarget(normalise(source(meta_refs(), params=PARAMS)), Target("same")))
    assert all(pair.after == "" for pair in same)


def test_export_document_tells_steps_names_and_what_goes(export: Export) -> None:
    text = " ".join(plain_text(export_document(export, "Done.", "good", ["model.safetensors", "config.json"])).split())
    assert text.count("· `config.json`") == 1
    for words in ("Reorder the rows of q and k (4 tensors, values change)", "`config.json`", "`model.safetensors`"):
        assert words in text
    assert "is optimizer state, not a weight" in text
    assert text.endswith("Done.")


def test_export_json(export: Export) -> None:
    value = json.loads(json.dumps(export_json(export, "possible")))
    assert (value["outcome"], value["target"]["layout"], len(value["tensors"])) == ("possible", "hf", 20)
    assert {d["kind"] for d in value["dropped"]} == {"not-weights", "redundant"}


def test_use_sentences() -> None:
    assert use_sentences({}) == ()
    assert use_sentences({"torchtune_model_type": "LLAMA3", "warning": "Mind."}) == (
        "In torchtune, load it with model_type LLAMA3.",
        "Mind.",
    )


# -------------------------------------------------------------------------------------------------------------- SARIF


@pytest.mark.parametrize(
    ("path", "uri"),
    [("a b/ü#.pth", "a%20b/%C3%BC%23.pth"), ("/x/y.pth", "file:///x/y.pth"), ("\udcff.pth", "%FF.pth")],
)
def test_sarif(path: str, uri: str) -> None:
    findings = (
        Finding("config-missing", "info", "No config."),
        Finding("tied-conflict", "error", "They differ.", ("a", "b"), "fix keeps both."),
    )
    log = json.loads(json.dumps(sarif(path, findings)))
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    first, second = run["results"]
    assert [first["ruleId"], second["ruleId"]] == ["tied-conflict", "config-missing"] == rules
    assert [first["level"], second["level"]] == ["error", "note"]
    assert [rules[r["ruleIndex"]] for r in run["results"]] == rules
    assert first["message"]["text"] == "They differ. fix keeps both."
    place = first["locations"][0]
    assert place["physicalLocation"]["artifactLocation"]["uri"] == uri
    assert [x["fullyQualifiedName"] for x in place["logicalLocations"]] == ["a", "b"]
    assert "logicalLocations" not in second["locations"][0]


# --------------------------------------------------------------------------------------------------------------- text

EVIL = "x`<img src=a onerror=b>`\x1b[31m\u202e\n# y | *z* [l](javascript:1)"


@pytest.fixture
def evil() -> Document:
    items = (
        Text(EVIL),
        Text(f"`{EVIL}`", bullet=True),
        Finding("unexpected-tensor", "warning", f"`{EVIL}` fits nothing.", (EVIL,), EVIL),
        Pair(EVIL, EVIL, EVIL, 3, (EVIL, EVIL)),
    )
    return Document(EVIL, (Section(EVIL, items),), EVIL, "error", EVIL)


def test_text_escapes(evil: Document) -> None:
    text = plain_text(evil)
    assert not {"\x1b", "\u202e"} & set(text)
    assert "\n# y" not in text
    assert "\\x1b" in text


def test_html_escapes(evil: Document) -> None:
    page = html_page(evil)
    assert not {"\x1b", "\u202e"} & set(page)
    assert "<img" not in page
    assert "&lt;img" in page
    assert "script" not in page.replace("javascript:1", "")


def test_markdown_escapes(evil: Document) -> None:
    page = markdown(evil)
    assert not {"\x1b", "\u202e"} & set(page)
    body = page[: page.rindex("\n\n    ")]  # the command stands in a block of code
    for place, char in enumerate(body):
        if char == "<" or body.startswith("](", place):
            assert body[place - 1] == "\\"


def test_html_opens_and_closes_each_list(evil: Document) -> None:
    page = html_page(evil)
    for tag in ("ul", "table", "div", "li", "tr"):
        assert page.count(f"<{tag}>") + page.count(f"<{tag} ") == page.count(f"</{tag}>"), tag


def test_markdown_lists_are_apart_from_paragraphs() -> None:
    items = (Text("p"), Text("a", bullet=True), Text("b", bullet=True))
    assert markdown(Document("t", (Section("h", items),), "v")) == "# t\n\n## h\n\np\n\n- a\n- b\n\n**v**\n"


@pytest.mark.parametrize("width", [40, 80, 120])
def test_lines_fit(plan: Plan, width: int) -> None:
    for line in plain(check_document(plan), width):
        assert cells(line.text) <= width


def test_wrap_keeps_long_names_whole() -> None:
    name = "model." + "x" * 80
    assert wrap(f"see {name} there", 20, rest="  ") == ["see", f"  {name}", "  there"]


def test_wide_characters_take_two_columns() -> None:
    assert wrap("模型 模型 模型", 9) == ["模型 模型", "模型"]


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (1023, "1023 B"), (1024, "1.00 KiB"), (10**6, "977 KiB"), (5 * 2**60, "5120 PiB")]
)
def test_human_bytes(size: int, text: str) -> None:
    assert human_bytes(size) == text


def test_policy_is_part_of_the_command() -> None:
    refs = [TensorRef(r.key, r.dtype, r.shape, ("a", "ema"), "x.pth", r.storage) for r in meta_refs("_orig_mod.")]
    chosen = normalise(source(refs, params=PARAMS), Policy(section=("a", "ema"), family="llama"))
    assert next_command(chosen).endswith("--to hf --section a.ema --family llama")
