from __future__ import annotations

import json
import math
import struct
from pathlib import Path

import pytest

from tests import builders as b
from tests.cli.conftest import VOCAB, Run, fill, hf_shapes, write_safetensors
from tests.core.formats.test_gguf import gguf

UP, EMBEDDING = "model.layers.1.mlp.up_proj.weight", "model.embed_tokens.weight"


def numbers_of(key: str) -> list[float]:
    """The values that the model's file holds under a key."""
    return list(memoryview(fill(key, hf_shapes()[key])).cast("f"))


def test_every_tensor(run: Run, model: Path) -> None:
    status, out, err = run("stats", model)
    assert (status, err) == (0, "")
    for key in hf_shapes():
        assert key in out


def test_keys_by_stored_and_hub_name(run: Run, compiled: Path) -> None:
    for key in ("_orig_mod.layers.0.attention.wq.weight", "model.layers.0.self_attn.q_proj.weight"):
        status, out, _ = run("stats", compiled, key, "--json", "-")
        assert status == 0
        value = json.loads(out)
        assert [t["key"] for t in value["tensors"]] == ["_orig_mod.layers.0.attention.wq.weight"]


def test_a_filter_chooses_by_both_names(run: Run, compiled: Path) -> None:
    status, out, _ = run("stats", compiled, "--filter", "q_proj|wk layer:1 part:attention", "--json", "-")
    keys = [tensor["key"] for tensor in json.loads(out)["tensors"]]
    assert status == 0
    assert [key.split("layers.")[1] for key in keys] == ["1.attention.wq.weight", "1.attention.wk.weight"]


def test_the_pair(run: Run, model: Path) -> None:
    status, out, _ = run("stats", model, "--pair")
    assert status == 0
    assert "model.embed_tokens.weight and lm_head.weight: different" in out
    status, out, _ = run("stats", model, "--pair", "model.norm.weight", "model.norm.weight", "--json", "-")
    assert json.loads(out)["pair"]["relation"] == "same storage"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("lm_haed.weight",), "Did you mean `lm_head.weight`"),
        (("--pair", "lm_head.weight"), "--pair takes two"),
        (("lm_head.weight", "--filter", "norm"), "--filter takes the place of KEY"),
        (("--overview", "--filter", "norm"), "goes with figures only"),
        (("--filter", "layer:99"), "No tensor passes the filter layer:99."),
        (("--filter", "size:>big"), "`size:>big` at character 1 of the filter: >big is no size"),
        (("--filter", "state:missing"), "a state can not be asked for here"),
        (("--pair", "lm_head.weight", "model.norm.weight"), "only tensors of one shape"),
    ],
)
def test_mistakes_are_sentences(run: Run, model: Path, words: tuple[str, ...], sentence: str) -> None:
    status, out, err = run("stats", model, *words)
    assert (status, out) == (2, "")
    assert sentence in err


def test_a_path_that_is_none(run: Run, tmp_path: Path) -> None:
    assert run("stats", tmp_path / "absent")[0] == 2


def test_what_is_not_finite_is_null_in_json() -> None:
    from ckpt_gui.core.report.as_file import json_text

    assert json.loads(json_text({"a": [float("nan"), float("inf"), 1.5]})) == {"a": [None, None, 1.5]}


def test_the_overview_reads_headers_only(run: Run, model: Path) -> None:
    weights = model / "model.safetensors"
    status, out, _ = run("stats", model, "--overview")
    assert status == 0
    for word in ("Parts", "embedding", "Layers", "layer 1", "Files", "model.safetensors", "Memory", "4-bit"):
        assert word in out
    value = json.loads(run("stats", weights, "--overview", "--json", "-")[1])["overview"]
    assert value["parameters"] == sum(share["parameters"] for share in value["by_part"])
    assert value["largest"][0]["key"] == EMBEDDING


def test_values_of_a_part(run: Run, model: Path) -> None:
    status, out, _ = run("stats", model, UP, "--values", "[2:4, :3]", "--json", "-")
    assert status == 0
    value = json.loads(out)["values"]
    numbers = numbers_of(UP)
    assert value["values"] == [numbers[16:19], numbers[24:27]]
    assert value["index"] == "[2:4, 0:3]"
    _, out, _ = run("stats", model, UP, "--values", "[2, 1]")
    assert f"{numbers[17]:.6g}" in out


def test_a_row_of_the_embedding_by_number_and_by_token(run: Run, model: Path) -> None:
    row = numbers_of(EMBEDDING)[8 * 5 : 8 * 6]
    _, out, _ = run("stats", model, "--token", "5", "--json", "-")
    assert json.loads(out)["values"]["values"] == row
    (model / "tokenizer.json").write_text(json.dumps({"model": {"vocab": {"Ġhello": 5}}}), encoding="utf-8")
    _, out, _ = run("stats", model, "--token", " hello", "--values", ":3", "--json", "-")
    assert json.loads(out)["values"]["values"] == row[:3]


def test_digits_are_the_number_of_a_row_and_a_token_in_quotes(run: Run, model: Path) -> None:
    (model / "tokenizer.json").write_text(json.dumps({"model": {"vocab": {"5": 7, '"q"': 3}}}), encoding="utf-8")
    for typed, number in (("5", 5), ('"5"', 7), ('"q"', 3)):
        _, out, _ = run("stats", model, "--token", typed, "--json", "-")
        assert json.loads(out)["values"]["values"] == numbers_of(EMBEDDING)[8 * number : 8 * (number + 1)], typed


def test_zeros_of_another_sign_are_no_other_numbers(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "zeros.safetensors"
    zeros = {"a": bytes(16), "b": b"\0\0\0\x80" * 4, "c": bytes(12) + b"\0\0\x80\x7f"}
    write_safetensors(path, dict.fromkeys(zeros, (2, 2)), zeros)
    _, out, _ = run("stats", path, "--pair", "a", "b")
    assert "equal as numbers: only zeros differ, in their sign" in out
    assert "largest difference" not in out
    _, out, _ = run("stats", path, "--pair", "a", "c")  # infinity in one of them
    assert "equal as numbers" not in out


def test_figures_in_words(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "one.safetensors"
    nan = {"one": bytes(4), "many": struct.pack("<6f", 1, 2, 2, math.nan, 0, -1)}
    write_safetensors(path, {"one": (1,), "many": (2, 3)}, nan)
    _, out, _ = run("stats", path)
    assert "  of 1 element: 1 zero\n" in out
    assert "  4 distinct finite values\n" in out  # -1, 0, 1, 2
    assert not any(line.strip().startswith("%") or line.rstrip().endswith(" %") for line in out.splitlines())
    assert "\u00a0" not in out
    _, out, _ = run("stats", path, "many", "--heat")
    assert "1 element is not finite, in rows 1 to 1, columns 0 to 0" in out


def test_figures_of_packed_codes_are_told_as_such(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    name = "model.layers.0.mlp.experts.down_proj"
    blocks, scales = bytes(range(32)), bytes([127, 128])
    write_safetensors(
        path, {f"{name}_blocks": (1, 2, 1, 16), f"{name}_scales": (1, 2, 1)},
        {f"{name}_blocks": blocks, f"{name}_scales": scales}, dtype="U8",
    )  # fmt: skip
    _, out, _ = run("stats", path)
    assert f"these are figures of what is stored; --values shows it decoded from MXFP4 with {name}_scales" in out
    assert out.count("figures of what is stored") == 1


def test_csv_to_standard_output(run: Run, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    status, out, _ = run("stats", model, UP, "--values", "[2:3, :2]", "--csv", "-")
    numbers = numbers_of(UP)
    assert (status, out) == (0, f"dim 0,0,1\n2,{numbers[16]},{numbers[17]}\n")
    assert not (tmp_path / "-").exists()


def test_a_pair_names_the_tokens_of_rows_that_differ(run: Run, model: Path) -> None:
    (model / "tokenizer.json").write_text(json.dumps({"model": {"vocab": {"Ġhello": 7, "b": 8}}}), encoding="utf-8")
    shapes = hf_shapes()
    head = bytearray(fill(EMBEDDING, shapes[EMBEDDING]))
    head[4 * 8 * 7 : 4 * 8 * 7 + 4] = b"\0\0\0\0"
    write_safetensors(model / "model.safetensors", shapes, {"lm_head.weight": bytes(head)})
    status, out, _ = run("stats", model, "--pair")
    assert status == 0
    assert "different in 1 of 256 elements" in out
    assert f"1 of {VOCAB} rows differ: 7 “ hello”" in out
    assert "cosine" in out


def test_layers_and_casts(run: Run, model: Path) -> None:
    status, out, _ = run("stats", model, UP, "--layers", "--json", "-")
    assert status == 0
    assert json.loads(out)["layers"]["layers"] == [0, 1]
    assert run("stats", model, "model.norm.weight", "--layers")[0] == 2
    status, out, _ = run("stats", model, UP, "--cast", "bf16", "--json", "-")
    found = json.loads(out)["cast"]
    assert (found["dtype"], found["target"], found["count"]) == ("fp32", "bf16", 128)
    assert run("stats", model, UP, "--cast", "i8")[0] == 2


@pytest.mark.parametrize(
    "words",
    [(UP,), ("--pair",), (UP, "--heat"), (UP, "--layers"), (UP, "--cast", "fp16"), (UP, "--dark")],
    ids=["one", "pair", "heat", "layers", "cast", "dark"],
)
def test_plots_and_tables_go_into_files(run: Run, model: Path, tmp_path: Path, words: tuple[str, ...]) -> None:
    pytest.importorskip("matplotlib")
    for ending in ("svg", "png", "pdf"):
        status, _, err = run("stats", model, *words, "--plot", tmp_path / f"out.{ending}")
        assert (status, err) == (0, "")
        assert (tmp_path / f"out.{ending}").stat().st_size > 1000
    assert run("stats", model, *words, "--csv", tmp_path / "out.csv")[0] == 0
    lines = (tmp_path / "out.csv").read_text(encoding="utf-8").splitlines()
    assert len(lines) > 1
    assert len({line.count(",") for line in lines}) == 1


def test_tables_of_figures_and_values(run: Run, model: Path, tmp_path: Path) -> None:
    run("stats", model, "--csv", tmp_path / "all.csv")
    lines = (tmp_path / "all.csv").read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("key,dtype,shape,count,min,max")
    assert len(lines) == 1 + len(hf_shapes())
    run("stats", model, UP, "--values", "[2:4, :2]", "--csv", tmp_path / "values.csv")
    numbers = numbers_of(UP)
    wanted = f"dim 0,0,1\n2,{numbers[16]},{numbers[17]}\n3,{numbers[24]},{numbers[25]}\n"
    assert (tmp_path / "values.csv").read_text(encoding="utf-8") == wanted
    run("stats", model, "--overview", "--csv", tmp_path / "overview.csv")
    assert "part,embedding,1,256,1024" in (tmp_path / "overview.csv").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--values", "[0]"), "--values takes one tensor, and 0 are named"),
        ((UP, "--values", "[99]"), "asks for 99 of a dimension of 16"),
        (("--token", "nothing"), "no tokenizer.json lies beside"),
        (("--token", "32"), "lies behind the 32 rows"),
        (("--plot", "all.png"), "There is a plot of one tensor"),
        ((UP, "--plot", "out.gif"), "must end in .svg, .png or .pdf"),
    ],
)
def test_more_mistakes_are_sentences(
    run: Run, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        status, _, err = run("stats", model, *words)
    except SystemExit as end:
        status, err = int(end.code or 0), sentence
    assert status == 2
    assert sentence in err


def test_no_file_of_the_checkpoint_is_overwritten(run: Run, model: Path) -> None:
    before = (model / "config.json").read_bytes()
    assert run("stats", model, "--csv", model / "config.json")[0] == 2
    assert (model / "config.json").read_bytes() == before


def test_names_that_a_spreadsheet_would_run_are_texts(run: Run, tmp_path: Path) -> None:
    path = write_safetensors(tmp_path / "m.safetensors", {"=cmd|' /C calc'!A0": (2, 2)})
    assert run("stats", path, "--csv", tmp_path / "out.csv")[0] == 0
    assert (tmp_path / "out.csv").read_text(encoding="utf-8").splitlines()[1].startswith("'=cmd")


def test_blocks_of_a_gguf_file_are_chosen_by_their_name(run: Run, tmp_path: Path) -> None:
    tensors = [("q", (2, 32), 8, bytes(68)), ("k", (2, 256), 12, bytes(288)), ("plain", (4,), 0, bytes(16))]
    path = b.write(tmp_path / "x.gguf", gguf(tensors))
    status, out, err = run("stats", path, "--filter", "dtype:q4_k")
    assert (status, err) == (0, "")
    assert "Q4_K" in out
    assert "Q8_0" not in out
    status, _, err = run("stats", path, "--filter", "dtype:q5_k")
    assert status != 0
    assert "No tensor passes the filter dtype:q5_k." in err
