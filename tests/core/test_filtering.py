"""The grammar that chooses tensors: what passes, the one form of a text, and what is refused in which words."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_gui.core.diff import STATES
from ckpt_gui.core.filtering import FIELDS, FilterError, Query, read_query, replaced, value_of
from ckpt_gui.core.filtering.subject import Subject, Subjects, expert_of, layer_of, subject
from ckpt_gui.core.patterns import LONGEST_NAME, PatternError, glob, regex

ONE, TWO, THREE = "model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors", "Model-00003.safetensors"
ROWS = (
    subject(("tok_embeddings.weight", "model.embed_tokens.weight"), "renamed", "bf16", (128256, 2048), 525336576, ONE),
    subject(
        ("layers.0.attention.wq.weight", "model.layers.0.self_attn.q_proj.weight"),
        "transform", "bf16", (2048, 4096), 16777216, ONE,
    ),
    subject(("model.layers.3.mlp.gate_proj.weight",), "same", "fp32", (8192, 4096), 134217728, TWO),
    subject(("model.layers.10.mlp.experts.3.w1.weight",), "missing", "fp16", (24, None), 0),
    subject(("model.layers.10.mlp.experts.7.w1.weight",), "extra", "fp8_e4m3", (24, 40), 960, THREE),
    subject(("model.norm.weight",), "dtype", "fp32", (2048,), 8192, THREE),
    subject(("odd name:0",), "aside", "i64", (), 8, THREE),
)  # fmt: skip


def subjects(rows: Sequence[Subject]) -> Subjects:
    return Subjects([row.text for row in rows], lambda: rows)


def hits(text: str) -> list[int]:
    query = read_query(text, STATES)
    found = list(query.select(subjects(ROWS), range(len(ROWS))))
    assert found == [n for n, row in enumerate(ROWS) if query.matches(row)]
    assert read_query(query.text, STATES) == query, "the one form of a text means the same"
    assert read_query(query.text, STATES).text == query.text
    return found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", [0, 1, 2, 3, 4, 5, 6]),
        ("   ", [0, 1, 2, 3, 4, 5, 6]),
        # bare words: in any name, capitals or not, all of them
        ("WQ", [1]),
        ("q_proj", [1]),
        ("layers weight !mlp", [1]),
        ("wq|norm", [1, 5]),
        ("!wq|norm", [0, 2, 3, 4, 6]),
        ('"odd name"', [6]),
        ('"name:0"', [6]),
        ("[", []),
        # patterns
        (r"re:layers\.(0|3)\.", [1, 2]),
        (r"re:^MODEL\.norm", [5]),
        ("re:w1.weight$ !re:experts.7", [3]),
        ('re:"odd name"', [6]),
        ("glob:*.q_proj.weight", [1]),
        ("glob:norm*", []),
        ("glob:model.layers.?.*", [1, 2]),
        ("glob:*experts.[!3].*|*.norm.*", [4, 5]),
        ("glob:MODEL.NORM.WEIGHT", [5]),
        # types under all their names
        ("dtype:bf16", [0, 1]),
        ("dtype:BFloat16", [0, 1]),
        ("dtype:float16", [3]),
        ("dtype:half|F32", [2, 3, 5]),
        ("dtype:fp16,i64", [3, 6]),
        ("dtype:fp8", [4]),
        ("!dtype:float", [0, 1, 3, 4, 6]),
        # shapes
        ("shape:(_,4096)", [1, 2]),
        ("shape:128256x2048", [0]),
        ("shape:128256×2048", [0]),
        ("shape:[2048]", [5]),
        ("shape:(2048,)", [5]),
        ("shape:()", [6]),
        ("shape:2d", [0, 1, 2, 3, 4]),
        ("shape:1d|()", [5, 6]),
        ("shape:(24,_)", [3, 4]),
        ("shape:(24,40)", [4]),
        # numbers
        ("size:>1MiB", [0, 1, 2]),
        ("size:>16MiB", [0, 2]),
        ("size:>=16MiB", [0, 1, 2]),
        ("size:<1KB", [3, 4, 6]),
        ("size:<=8192", [3, 4, 5, 6]),
        ("size:8KiB", [5]),
        ("size:=0.0078125MiB", [5]),
        ("size:8..1KiB|8KiB", [4, 5, 6]),
        ("!size:0", [0, 1, 2, 4, 5, 6]),
        ("params:>10M", [0, 2]),
        ("params:2048", [5]),
        ("params:<1k", [4, 6]),
        ("layer:3", [2]),
        ("layer:0-7", [1, 2]),
        ("layer:0..3", [1, 2]),
        ("layer:0,10", [1, 3, 4]),
        ("layer:>3", [3, 4]),
        ("!layer:>=0", [0, 5, 6]),
        ("expert:3", [3]),
        ("expert:4-7", [4]),
        # places
        ("part:attention", [1]),
        ("part:Embedding|norms", [0, 5]),
        ("part:experts layer:10", [3, 4]),
        ("part:feed-forward", [2]),
        ("shard:00002", [2]),
        ("shard:MODEL-00003", [4, 5, 6]),
        ("state:missing", [3]),
        ("state:missing|extra", [3, 4]),
        ("state:missing,extra !shard:model", [3]),
        ("!state:same !state:aside", [0, 1, 3, 4, 5]),
        ("DTYPE:bf16", [0, 1]),
    ],
)
def test_what_passes(text: str, found: list[int]) -> None:
    assert hits(text) == found


def test_states_are_all_known() -> None:
    assert [hits(f"state:{state}") for state in STATES] == [
        [n for n, row in enumerate(ROWS) if row.state == state] for state in STATES
    ]


@pytest.mark.parametrize(
    ("text", "start", "words"),
    [
        ("wq dytpe:bf16", 3, "`dytpe:bf16` at character 4 of the filter: there is no dytpe:; did you mean dtype:?"),
        ("xyzzy:1", 0, "there is no xyzzy:. Put a name with a colon in quotes."),
        ("dtype:bf17", 0, "bf17 is no type; there is bf16, fp16, fp32, fp64, fp8, q4_k and more."),
        ("state:nonsense", 0, "nonsense is no state; there is error, missing,"),
        ("part:legs", 0, "legs is no part of a model; there is embedding, head,"),
        ("shape:(_, 4096)", 0, "write (_,4096) without spaces"),
        ("shape:axb", 0, "axb is no shape"),
        ("size:>big", 0, ">big is no size; write >1MiB, <=500KB or 1MiB..1GiB."),
        ("size:2MiB..1MiB", 0, "is no size"),
        ("params:1MiB", 0, "is no number of parameters"),
        ("layer:7-0", 0, "7-0 is no layer; write 3, 0-7 or >20."),
        ("layer:1.5", 0, "1.5 is no layer"),
        ("expert:x", 0, "x is no expert"),
        ("!", 0, "nothing stands after it."),
        ("a state:", 2, "`state:` at character 3 of the filter: nothing stands after it."),
        ("a||b", 0, "an alternative is empty; write them without spaces, as in wq|wk."),
        ("wq | wk", 3, "`|` at character 4 of the filter: an alternative is empty; write them without spaces"),
        ('wq "open', 3, "its quote is not closed."),
        ("re:(", 0, "( is no regular expression: missing ), unterminated subpattern at position 0."),
        ("re:[[a]", 0, "is no regular expression"),
        ("re:(a+)+b", 0, "repeats a group that has repeats or alternatives in it"),
        ("re:(?:a|a)*b", 0, "repeats a group that has repeats or alternatives in it"),
        (r"re:(a)\1", 0, "refers back to a group"),
        ("re:(?=a)", 0, "only (?:…) can be used"),
        ("re:.*.*.*x", 0, "can match in too many ways; use glob:, or fewer of * + ? and |"),
        ("re:" + "a?" * 30, 0, "can match in too many ways; use glob:, or fewer of * + ? and |"),
        ("re:a{1000}", 0, "counts further than 99"),
        ("re:" + "a" * 201, 0, "is longer than 200 characters"),
        ("glob:[z-a]", 0, "has a range in brackets that runs backwards"),
        ("x" * 2001, 2000, "The filter is longer than 2,000 characters."),
    ],
)
def test_what_is_refused_is_named_with_its_place(text: str, start: int, words: str) -> None:
    with pytest.raises(FilterError) as caught:
        read_query(text, STATES)
    assert words in caught.value.message
    assert caught.value.start == start
    assert caught.value.length > 0
    assert caught.value.code == "bad-filter"


def test_states_can_not_be_asked_for_where_nothing_is_compared() -> None:
    with pytest.raises(FilterError, match="a state can not be asked for here, where nothing is compared"):
        read_query("state:missing")


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("  WQ   !NORM ", "wq !norm"),
        ("dtype:BF16,half", "dtype:bf16|fp16"),
        ("dtype:bf16|BFLOAT16", "dtype:bf16"),
        ("size:>1048576", "size:>1MiB"),
        ("size:>=1048577 size:<2000", "size:>1MiB size:<2KB"),
        ("params:1000000..2000000000", "params:1M..2B"),
        ("layer:0-7", "layer:0..7"),
        ("shape:128256x?", "shape:(128256,_)"),
        ('"plain" "two words" "a|b" "x:y" "!x"', 'plain "two words" "a|b" "x:y" "!x"'),
        ('re:a|b', 're:"a|b"'),
        ('"say ""hi"""', '"say ""hi"""'),
    ],
)  # fmt: skip
def test_each_query_has_one_text(text: str, canonical: str) -> None:
    assert read_query(text).text == canonical
    assert read_query(canonical) == read_query(text)


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: field.name or "word")
def test_examples_are_right(field: object) -> None:
    example = next(f.example for f in FIELDS if f is field)
    assert read_query(example, STATES).terms


PIECES = st.sampled_from(
    ["wq", "!", '"', '""', "|", ":", " ", "dtype:", "bf16", "size:>", "1MiB", "..", "re:", "(", ")", "*", "+", "[", "]",
     "\\", "glob:", "shape:", "_,", "layer:", "0-7", "state:", "missing", "é", "\x1c", "?", "{2,}", "x", "^", "-", "&&"]
)  # fmt: skip


@given(st.one_of(st.text(max_size=40), st.lists(PIECES, max_size=12).map("".join)))
def test_any_text_is_read_or_refused_in_words(text: str) -> None:
    try:
        query = read_query(text, STATES)
    except FilterError as error:
        assert error.message.endswith(".")  # noqa: PT017 - most texts are read
        return
    for row in ROWS:
        query.matches(row)
    again = read_query(query.text, STATES)
    assert again == query
    assert again.text == query.text


@given(st.text(min_size=1, max_size=20))
def test_any_name_can_be_asked_for_in_quotes(name: str) -> None:
    query = read_query('"' + name.replace('"', '""') + '"')
    assert query.matches(subject((f"a.{name}.b",)))


@pytest.mark.parametrize(
    "pattern", ["a*a*b", "(a*)(a*)b", ".*a.*b", "a?a?a*a*b", "(a|a)(a|a)a*a{2,}b", "a{0,50}a{0,50}a{0,50}b"]
)
def test_patterns_that_pass_the_guard_end(pattern: str) -> None:
    assert regex(pattern).search("a" * LONGEST_NAME) is None


def test_stars_do_not_multiply() -> None:
    assert glob("*a" * 99 + "b").match("a" * LONGEST_NAME) is None
    assert glob("*a" * 99).match("a" * LONGEST_NAME)


def test_names_that_no_model_has_fit_no_pattern() -> None:
    long = subject(("a" * (LONGEST_NAME + 1),))
    assert not read_query("re:a").matches(long)
    assert not read_query("glob:*").matches(long)
    assert read_query("aaa").matches(long)


def test_choices_in_a_group_may_be_left_out_as_a_whole() -> None:
    assert regex("w(q|k)?_x").search("w_x")
    with pytest.raises(PatternError):
        regex("w(q|k)*_x")


@pytest.mark.parametrize(
    ("key", "layer", "expert"),
    [
        ("blk.4.ffn_gate.weight", 4, None),
        ("module.0.layers.7.w", 7, None),
        ("transformer.h.11.attn.bias", 11, None),
        ("features.5.weight", 5, None),
        ("layers.2.experts.9.w1", 2, 9),
        ("experts.9.w1", None, 9),
        ("layers.00001.x", None, None),
        ("layers.²", None, None),
    ],
)
def test_places_are_read_off_the_name(key: str, layer: int | None, expert: int | None) -> None:
    assert (layer_of(key), expert_of(key)) == (layer, expert)


def test_a_term_of_several_sides() -> None:
    sides = (subject(("w",), dtype="bf16"), subject(("w",), dtype="fp32"))
    assert read_query("dtype:fp32").matches_pair(sides)
    assert not read_query("!dtype:fp32").matches_pair(sides)


def test_a_text_is_edited_field_by_field() -> None:
    assert replaced("wq state:same !state:aside", "state", "extra") == "wq !state:aside state:extra"
    assert replaced("state:same", "state", "") == ""
    assert replaced('"a b" dtype:', "dtype", "bf16") == '"a b" dtype:bf16'
    assert replaced('size:>x "open', "size", "") == '"open'
    assert value_of("wq !dtype:fp32 DTYPE:bf16", "dtype") == "bf16"
    assert value_of("wq", "dtype") == ""


def test_the_states_wanted_and_the_rest() -> None:
    query = read_query("wq state:missing|extra !state:same", STATES)
    assert query.states == {"missing", "extra"}
    assert query.without_states().text == "wq"
    assert query.of_states().text == "state:missing|extra !state:same"
    assert not Query()


@pytest.mark.parametrize(
    "text",
    [
        "dtype:", "!", "wq state:mis", "state:missing|ex", "dtype:b", "dtype:q4_", "part:att", "size:>", "size:1MiB..",
        "params:2.", "layer:1-", "shape:(8,", "shape:(", "re:(a", "re:[ab", "re:a\\", 'wq "open', "a|",
    ],
)  # fmt: skip
def test_what_could_become_right_at_its_end_is_unfinished(text: str) -> None:
    with pytest.raises(FilterError) as caught:
        read_query(text, STATES)
    assert caught.value.unfinished
    with pytest.raises(FilterError) as caught:
        read_query(f"x: {text}", STATES)
    assert not caught.value.unfinished, "something before it is wrong"


@pytest.mark.parametrize(
    "text", ["dtype: wq", "dytpe:bf16", "state:nonsense", "size:>big", "re:(a+)+b", "shape:axb", "state:mis wq", "a||b"]
)
def test_what_can_not_become_right_is_wrong_at_once(text: str) -> None:
    with pytest.raises(FilterError) as caught:
        read_query(text, STATES)
    assert not caught.value.unfinished


def test_blocks_of_gguf_are_types() -> None:
    rows = [subject((kind,), "same", kind, (2, 144), 288) for kind in ("q4_k", "q8_0", "q4_0", "u8")]
    for text, wanted in (("dtype:Q4_K", [0]), ("dtype:q4", [0, 2]), ("!dtype:q8_0", [0, 2, 3]), ("dtype:u8", [3])):
        assert list(read_query(text, STATES).select(subjects(rows), range(4))) == wanted, text


@pytest.mark.parametrize(
    "text", ["layer:3 expert:3", "dtype:fp32|fp8", "!layer:10", "size:>1MiB", "part:norms", "wq|norm", "shard:00002"]
)
def test_what_was_asked_before_is_answered_the_same(text: str) -> None:
    asked, of = subjects(ROWS), read_query(text, STATES)
    first = list(of.select(asked, range(len(ROWS))))
    assert first == list(of.select(asked, range(len(ROWS)))) == [n for n, row in enumerate(ROWS) if of.matches(row)]
    assert list(of.select(asked, range(1, len(ROWS), 2))) == [n for n in first if n % 2]
