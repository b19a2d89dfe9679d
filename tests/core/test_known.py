"""Published models: recognised by their sizes, and their head counts used where no config has any."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ckpt_gui.core.against import against
from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.export import Target
from ckpt_gui.core.families.known import KNOWN, find_known
from ckpt_gui.core.families.known_config import known_config
from ckpt_gui.core.families.layer_kinds import layer_kinds
from ckpt_gui.core.families.registry import BY_NAME, for_model_type
from ckpt_gui.core.formats.memory import from_state_dict
from ckpt_gui.core.normalise import normalise
from ckpt_gui.core.passes.expectation import expected
from ckpt_gui.core.plan import Plan, Tie
from ckpt_gui.core.policy import Policy
from ckpt_gui.core.retarget import retarget
from ckpt_gui.core.source import Source
from ckpt_gui.core.tensors import TensorRef


def headers(name: str, layout: str = "hf", *, head: bool | None = None) -> Source:
    """A source that has a known model's names and shapes, and no bytes."""
    model = find_known(name)
    family = BY_NAME[model.family]
    tie = Tie(tied=model.tied if head is None else not head)
    config = known_config(model, family)
    plan = Plan(from_state_dict({}), family=family, dims={**config.dims, **model.dims}, tie=tie, config=config)
    rules = family.layout(layout)
    assert rules is not None
    refs = []
    for slot, key, shape in expected(plan):
        rule = next(r for r in rules.rules if r.hub == slot.key)
        stored = key if layout == "hf" else rule.stored.format(**_numbers(slot.key, key))
        refs.append(TensorRef(stored, "bf16", tuple(s or 7 for s in shape), storage=stored))
    return from_state_dict({}).replace(refs=tuple(refs))


def _numbers(named: str, key: str) -> dict[str, int]:
    from ckpt_gui.core.keys import bind

    return bind(named, key)


# Parameters as the model cards (or the papers) give them: the sizes again, from another place.
PARAMETERS = {
    "Llama-2-7B": 6_738_415_616,
    "Llama-2-13B": 13_015_864_320,
    "Llama-2-70B": 68_976_648_192,
    "Llama-3.2-1B": 1_235_814_400,
    "Llama-3.2-3B": 3_212_749_824,
    "Llama-3.1-8B": 8_030_261_248,
    "Llama-3.1-70B": 70_553_706_496,
    "Llama-3.1-405B": 405_853_388_800,
    "Qwen3-30B-A3B": 30_532_122_624,
    "Qwen3-235B-A22B": 235_093_634_560,
    "Mixtral-8x7B": 46_702_792_704,
    "Mixtral-8x22B": 140_630_071_296,
    "Gemma-2-2B": 2_614_341_888,
    "Gemma-2-9B": 9_241_705_984,
    "Gemma-2-27B": 27_227_128_320,
    "Gemma-3-1B": 999_885_952,
    "Gemma-3-270M": 268_098_176,
    "Gemma-3-4B": 4_300_079_472,
    "Gemma-3-12B": 12_187_325_040,
    "Gemma-3-27B": 27_432_406_640,
    "DeepSeek-V3": 671_026_419_200,
    "DeepSeek-V2-Lite": 15_706_484_224,
    "DeepSeek-V2": 235_741_434_880,
    "gpt-oss-120b": 116_829_156_672,
    "gpt-oss-20b": 20_914_757_184,
    "Mistral-7B-v0.1": 7_241_732_096,
    "Mistral-7B-v0.3": 7_248_023_552,
    "Mistral-Nemo-2407": 12_247_782_400,
    "Mistral-Large-2407": 122_610_069_504,
    "GPT-2": 124_439_808,
    "GPT-2-XL": 1_557_611_200,
    "GPT-2-medium": 354_823_168,
    "GPT-2-large": 774_030_080,
    "Llama-3.2-11B-Vision": 10_642_941_475,
    "Llama-4-Scout-17B-16E": 108_641_793_536,
    "Llama-4-Maverick-17B-128E": 401_583_781_376,
    "Pythia-70M": 70_426_624,
    "Pythia-160M": 162_322_944,
    "Pythia-410M": 405_334_016,
    "Pythia-12B": 11_846_072_320,
    "GPT-NeoX-20B": 20_554_567_680,
    "Phi-4": 14_659_507_200,
    "Phi-3-mini": 3_821_079_552,
    "Phi-2": 2_779_683_840,
    "SmolLM3-3B": 3_075_098_624,
    "Command-R": 34_980_831_232,
    "StarCoder2-3B": 3_030_371_328,
    "Qwen2.5-0.5B": 494_032_768,
    "Qwen2.5-1.5B": 1_543_714_304,
    "Qwen2.5-3B": 3_085_938_688,
    "Qwen2.5-7B": 7_615_616_512,
    "Qwen2.5-14B": 14_770_033_664,
    "Qwen2.5-32B": 32_763_876_352,
    "Qwen2.5-72B": 72_706_203_648,
    "Qwen3-0.6B": 596_049_920,
    "Qwen3-1.7B": 1_720_574_976,
    "Qwen3-4B": 4_022_468_096,
    "Qwen3-8B": 8_190_735_360,
    "Qwen3-14B": 14_768_307_200,
    "Qwen3-32B": 32_762_123_264,
    "Qwen1.5-MoE-A2.7B": 14_315_784_192,
    "OLMo-2-1124-7B": 7_298_617_344,
    "OLMo-2-1124-13B": 13_716_198_400,
    "Gemma-2B": 2_506_172_416,
    "Gemma-7B": 8_537_680_896,
    "Phi-4-mini": 3_836_021_760,
    "TinyLlama-1.1B": 1_100_048_384,
    "SmolLM2-135M": 134_515_008,
    "SmolLM2-360M": 361_821_120,
    "SmolLM2-1.7B": 1_711_376_384,
    "CodeLlama-7B": 6_738_546_688,
    "CodeLlama-13B": 13_016_028_160,
    "CodeLlama-34B": 33_743_970_304,
    "Phi-1.5": 1_418_270_720,
}


@pytest.mark.parametrize("name", [m.name for m in KNOWN])
def test_each_is_recognised_by_its_sizes_and_a_reference(name: str) -> None:
    model = find_known(name)
    assert model.name == name
    source = headers(name)
    assert sum(ref.numel for ref in source.refs) == PARAMETERS.get(name, sum(ref.numel for ref in source.refs))
    plan = normalise(source)
    assert plan.family is not None
    assert (plan.family.name, name in plan.known) == (model.family, True)
    assert {k: plan.dims[k] for k in model.dims} == dict(model.dims)
    assert (plan.missing, plan.unmapped) == ((), ())
    twins = [m.name for m in KNOWN if m.dims == model.dims and m.family == model.family]
    assert set(plan.known) == set(twins)
    found = against(plan, name)
    assert (set(found.counts), found.findings) == ({"fits"}, ())


def test_sentence_and_origin() -> None:
    plan = normalise(headers("Llama-3.2-1B", "meta", head=True))
    assert "Its sizes are those of Llama-3.2-1B, and of no other known model." in plan.evidence_text
    assert plan.dims_from["heads"] == "the known size Llama-3.2-1B"
    export = retarget(plan, Target("hf"))
    assert not export.blocked
    step = next(s for s in export.steps if s.id == "permute")
    assert step.certain
    assert "32 heads and 8 key/value heads, from the known size Llama-3.2-1B" in step.evidence


def test_two_that_fit_are_a_guess() -> None:
    plan = normalise(headers("Llama-3.1-8B", "meta"))
    assert plan.known == ("Llama-3-8B", "Llama-3.1-8B")
    step = next(s for s in retarget(plan, Target("hf")).steps if s.id == "permute")
    assert not step.certain


def test_the_size_tells_the_family() -> None:
    plan = normalise(headers("Mistral-7B-v0.1"))
    assert plan.family is not None
    assert plan.family.name == "mistral"
    assert "family-ambiguous" not in [f.code for f in plan.findings]
    chosen = normalise(headers("Mistral-7B-v0.1"), Policy(family="llama"))
    assert (chosen.family and chosen.family.name, chosen.known) == ("llama", ())


@pytest.mark.parametrize("heads", [None, 16])
def test_the_user_decides_before_the_known_size(heads: int | None) -> None:
    plan = normalise(headers("Llama-3.2-1B"), Policy(heads=heads))
    assert plan.dims["heads"] == (heads or 32)


def test_a_config_decides_before_the_known_size() -> None:
    source = headers("Llama-3.2-1B")
    config: dict[str, Any] = {"model_type": "llama", "num_attention_heads": 16, "num_key_value_heads": 4}
    plan = normalise(source.replace(sidecars=type(source.sidecars)(config=config)))
    assert (plan.known, plan.dims["heads"]) == ((), 16)


@pytest.mark.parametrize(("name", "wanted"), [
    ("meta-llama/Meta-Llama-3.1-8B-Instruct", "Llama-3.1-8B"),
    ("llama_3.2_1b", "Llama-3.2-1B"),
    ("LLAMA-2-7b-chat-hf", "Llama-2-7B"),
    ("meta-llama/Llama-3.1-405B-Instruct-FP8", "Llama-3.1-405B"),
    ("Llama-3.2-Vision-11B", "Llama-3.2-11B-Vision"),
    ("meta-llama/Llama-4-Scout-17B-16E-Instruct", "Llama-4-Scout-17B-16E"),
    ("google/gemma-2-2b-it", "Gemma-2-2B"),
    ("google/gemma-3-4b-pt", "Gemma-3-4B"),
    ("gpt2", "GPT-2"),
    ("openai-community/gpt2-xl", "GPT-2-XL"),
    ("EleutherAI/pythia-70m-deduped", "Pythia-70M"),
    ("mistralai/Mixtral-8x7B-Instruct-v0.1", "Mixtral-8x7B"),
    ("mistralai/Mistral-7B-Instruct-v0.1", "Mistral-7B-v0.1"),
    ("mistralai/Mistral-7B-v0.3", "Mistral-7B-v0.3"),
    ("mistralai/Mistral-Nemo-Instruct-2407", "Mistral-Nemo-2407"),
    ("microsoft/phi-1_5", "Phi-1.5"),
    ("microsoft/Phi-3-mini-4k-instruct", "Phi-3-mini"),
    ("CohereForAI/c4ai-command-r-v01", "Command-R"),
    ("Qwen/Qwen3-30B-A3B-Base", "Qwen3-30B-A3B"),
    ("openai/gpt-oss-20b", "gpt-oss-20b"),
    ("codellama/CodeLlama-7b-hf", "CodeLlama-7B"),
])  # fmt: skip
def test_names(name: str, wanted: str) -> None:
    assert find_known(name).name == wanted


def test_unknown_names_get_the_nearest() -> None:
    with pytest.raises(CheckpointError, match="neither a file") as caught:
        find_known("Qwen/Qwen3-5B-Instruct")
    assert "spelled alike are Qwen3-" in (caught.value.fix or "")
    with pytest.raises(CheckpointError) as caught:
        find_known("nothing-at-all-like-it")
    assert f"one of {len(KNOWN)} published models" in (caught.value.fix or "")
    for empty in ("", "-", "instruct"):
        with pytest.raises(CheckpointError):
            find_known(empty)
    assert len({m.name for m in KNOWN}) == len(KNOWN)


KINDS = [
    ("deepseek_v3", {"first_k_dense_replace": 1}, "dense moe moe moe"),
    ("deepseek_v3", {"first_k_dense_replace": 1, "moe_layer_freq": 2}, "dense dense moe dense"),
    ("qwen3_moe", {"decoder_sparse_step": 2, "mlp_only_layers": []}, "dense moe dense moe"),
    ("qwen2_moe", {"decoder_sparse_step": 1, "mlp_only_layers": [0]}, "dense moe moe moe"),
    ("llama4_text", {"interleave_moe_layer_step": 2}, "dense moe dense moe"),
    ("llama4", {"text_config": {"moe_layers": [1, 2]}}, "dense moe moe dense"),
    ("mllama", {"text_config": {"cross_attention_layers": [1]}}, "self cross self self"),
    ("llama", {"first_k_dense_replace": 1}, ""),
    ("deepseek_v3", {}, ""),
    ("deepseek_v3", {"first_k_dense_replace": "1"}, ""),
]


@pytest.mark.parametrize(("model_type", "fields", "wanted"), KINDS)
def test_kinds_of_layers_by_the_config(model_type: str, fields: dict[str, Any], wanted: str) -> None:
    family = for_model_type(model_type)
    assert family is not None
    kinds = layer_kinds(family, fields, 4)
    assert [next(iter(kinds[n])) for n in sorted(kinds)] == wanted.split()


def config_json(name: str, layout: str = "hf", target: str = "hf") -> dict[str, Any]:
    export = retarget(normalise(headers(name, layout)), Target(target))
    assert not export.blocked
    made: dict[str, Any] = json.loads(export.texts["params.json" if target == "meta" else "config.json"])
    return made


def test_a_config_is_made_of_what_is_known() -> None:
    export = retarget(normalise(headers("Llama-3.2-1B")), Target("hf"))
    made = json.loads(export.texts["config.json"])
    assert made == {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "attention_bias": False,
        "mlp_bias": False, "hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 32,
        "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 8192, "vocab_size": 128256,
        "tie_word_embeddings": True, "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "max_position_embeddings": 131072,
        "rope_scaling": {
            "rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
        },
        "torch_dtype": "bfloat16",
    }  # fmt: skip
    step = next(s for s in export.steps if s.id == "config")
    assert step.certain
    assert "taken from the published model Llama-3.2-1B" in step.evidence
    found = next(f for f in export.findings if f.code == "config-missing")
    assert (found.severity, "scaled by 32" in found.message) == ("info", True)


def test_a_config_that_may_be_another_is_not_certain() -> None:
    export = retarget(normalise(headers("Llama-3.1-8B")), Target("hf"))
    assert "rope_scaling" not in json.loads(export.texts["config.json"])
    assert not next(s for s in export.steps if s.id == "config").certain
    found = next(f for f in export.findings if f.code == "config-missing")
    assert found.severity == "warning"
    assert "Llama-3.1-8B has the same sizes, not the same config" in found.message


def test_configs_of_other_layouts_and_families() -> None:
    params = config_json("Llama-3.2-1B", "hf", "meta")
    assert (params["rope_theta"], params["use_scaled_rope"], params["rope_scaling_factor"]) == (500000.0, True, 32.0)
    mistral = config_json("Mistral-Nemo-2407")
    assert (mistral["model_type"], mistral["sliding_window"], mistral["head_dim"]) == ("mistral", None, 128)
    assert config_json("Qwen2.5-14B")["rms_norm_eps"] == 1e-5
    gemma = retarget(normalise(headers("Gemma-2-2B")), Target("hf"))  # its scaling of the queries is not in the table
    assert "config.json" not in gemma.texts
    assert next(f for f in gemma.findings if f.code == "config-missing").severity == "info"
    same = retarget(normalise(headers("Llama-3.2-1B")), Target("same"))
    assert same.texts == {}
