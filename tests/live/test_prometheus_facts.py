"""Each engine's documented page becomes the rows that the table of reference/telemetry.md asks for, and no sum of two."""

from pathlib import Path

import pytest

from oomctl.collectors.live.prometheus.facts import Facts, Whose, read
from oomctl.collectors.live.prometheus.mapping import decode, engines
from oomctl.collectors.live.prometheus.page import parse
from oomctl.schemas.rows import make_row
from tests.shared import shared

PAGES = Path(__file__).parent / "pages"
GIB = 1 << 30
BY_NAME = {engine.engine: engine for engine in engines()}


def facts_of(name: str, text: str) -> Facts:
    page = parse(text)
    assert not page.skipped
    return read(BY_NAME[name], page.samples)


def of_file(name: str, engine: str = "") -> Facts:
    return facts_of(engine or name, (PAGES / f"{name}.txt").read_text())


def rows(facts: Facts, kind: str, quality: str = "measured") -> dict[Whose, dict[str, object]]:
    found = [fact for fact in facts.facts if fact.kind == kind and fact.quality == quality]
    assert len({(fact.whose, str(fact.fields)) for fact in found}) == len(found)
    return {fact.whose: fact.fields for fact in found}


def test_two_engines_behind_one_page_stay_two() -> None:
    facts = of_file("vllm_dp2", "vllm")
    pools = rows(facts, "kv_pool")
    assert pools[Whose("DP0")]["usage_ratio"] == 0.5
    assert pools[Whose("DP1")]["usage_ratio"] == 0.99
    assert pools[Whose("DP1")]["preempted_requests"] == 12
    assert pools[Whose("DP0")]["prefix_hit_tokens"] == 1600
    assert pools[Whose("DP0")]["total_blocks"] == 1001
    derived = rows(facts, "kv_pool", "derived")
    assert derived[Whose("DP0")] == {"used_blocks": 500, "free_blocks": 500}
    assert derived[Whose("DP1")] == {"used_blocks": 990, "free_blocks": 10}
    assert rows(facts, "throughput")[Whose("DP1")] == {"running_requests": 9, "waiting_requests": 4}


def test_a_part_of_a_figure_is_not_taken_for_the_whole() -> None:
    facts = of_file("vllm_dp2", "vllm")
    assert [sample.labels["reason"] for sample in facts.rest] == ["capacity", "deferred"]


def test_a_single_rank_has_no_name() -> None:
    assert rows(of_file("lmdeploy"), "kv_pool") == {Whose(): {"usage_ratio": 0.125}}


def test_replicas_under_ray_are_workers_of_their_own() -> None:
    pools = rows(of_file("ray_vllm", "vllm"), "kv_pool")
    assert {whose.part: pool["usage_ratio"] for whose, pool in pools.items()} == {"a1": 0.25, "b2": 0.75}


def test_sglang_has_bytes_for_each_rank_and_its_gb_is_gib() -> None:
    facts = of_file("sglang_tp2", "sglang")
    memory = {(fact.whose.rank_name, fact.fields["component"], fact.fields.get("owner")): fact.fields["bytes"]
              for fact in facts.facts if fact.kind == "memory"}  # fmt: skip
    assert memory == {
        ("TP0", "weights", None): 8.5 * GIB,
        ("TP1", "weights", None): 8.25 * GIB,
        ("TP0", "graph_pool", "decode"): 1.5 * GIB,
        ("TP0", "graph_pool", "prefill"): 0,
    }
    pool = rows(facts, "kv_pool")[Whose("TP0")]
    assert pool["used_tokens"] == 6400
    assert pool["preempted_tokens"] == 345
    assert rows(facts, "kv_pool")[Whose()] == {"prefix_hit_tokens": 900}
    assert rows(facts, "kv_pool", "derived")[Whose("TP0")] == {"used_blocks": 100, "evictable_blocks": 2}
    assert [sample.labels["cache_source"] for sample in facts.rest] == ["host"]


def test_a_weight_of_zero_bytes_was_not_measured() -> None:
    facts = facts_of("sglang", 'sglang:weight_memory_usage_gb{tp_rank="0"} 0.0\n')
    assert not facts.facts and not facts.rest


DYNAMO = 'dynamo_component="backend",dynamo_endpoint="generate",dynamo_namespace="d",worker_id="7",model="m"'


@pytest.mark.parametrize(
    ("engine", "series", "labels", "part"),
    [
        ("vllm", "vllm:kv_cache_usage_perc", DYNAMO, "7/backend/m"),
        ("sglang", "sglang:token_usage", DYNAMO, "7/backend/m"),
        ("trtllm", "trtllm_kv_cache_utilization", DYNAMO, "7/backend/m"),
        ("vllm", "vllm:gpu_cache_usage_perc", 'model="otter",version="1"', "otter"),  # Triton's vLLM backend
    ],
)
def test_what_wraps_an_engine_adds_labels_and_hides_nothing(engine: str, series: str, labels: str, part: str) -> None:
    facts = facts_of(engine, f"# TYPE {series} gauge\n{series}{{{labels}}} 0.5\n")
    assert not facts.rest
    assert rows(facts, "kv_pool")[Whose(part=part)]["usage_ratio"] == 0.5


@pytest.mark.parametrize("value", ["-3", "1e300", "1.5e19", "-0.1"])
def test_a_count_that_cannot_be_is_null_and_counted(value: str) -> None:
    text = f"""# TYPE vllm:num_requests_running gauge
vllm:num_requests_running {value}
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting 2
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{{num_gpu_blocks="{value}",block_size="16"}} 1
"""
    facts = facts_of("vllm", text)
    assert rows(facts, "throughput")[Whose()] == {"waiting_requests": 2}
    assert rows(facts, "kv_pool")[Whose()] == {"block_size_tokens": 16}
    assert facts.refused == 1


@pytest.mark.parametrize(
    ("value", "known"), [("-0.5", False), ("150", False), ("0", True), ("1", True), ("1.0000001", True)]
)
def test_a_share_lies_between_none_and_all(value: str, known: bool) -> None:
    facts = facts_of("vllm", f"# TYPE vllm:kv_cache_usage_perc gauge\nvllm:kv_cache_usage_perc {value}\n")
    assert bool(rows(facts, "kv_pool")) == known
    assert facts.refused == (not known)


def test_names_of_older_versions() -> None:
    counters = {"vllm:gpu_prefix_cache_queries": 100, "vllm:gpu_prefix_cache_hits": 40}
    text = "".join(f"# TYPE {name} counter\n{name}_total {value}\n" for name, value in counters.items())
    assert rows(facts_of("vllm", text), "kv_pool")[Whose()] == {"prefix_query_tokens": 100, "prefix_hit_tokens": 40}
    text = "# TYPE sglang:cached_tokens counter\nsglang:cached_tokens_total 9\n"
    assert rows(facts_of("sglang", text), "kv_pool")[Whose()] == {"prefix_hit_tokens": 9}


def test_tensorrt_llm() -> None:
    facts = of_file("trtllm")
    assert rows(facts, "kv_pool")[Whose()] == {
        "usage_ratio": 0.4, "total_blocks": 1000, "used_blocks": 400, "free_blocks": 600, "block_size_tokens": 32,
    }  # fmt: skip
    assert rows(facts, "kv_pool", "derived")[Whose()] == {"used_tokens": 12_800, "total_tokens": 32_000}
    assert rows(facts, "memory")[Whose()]["bytes"] == 64 * GIB


def test_triton_tells_its_figures_apart_by_a_label() -> None:
    facts = of_file("triton")
    whose = Whose(part="tensorrt_llm")
    assert rows(facts, "kv_pool")[whose]["free_blocks"] == 270
    assert rows(facts, "memory")[whose]["bytes"] == 1.5 * GIB
    assert rows(facts, "host")[whose] == {"pinned_bytes": 4096}
    assert rows(facts, "throughput")[whose] == {"waiting_requests": 5, "running_requests": 8}


def test_tgi_has_neither_blocks_nor_bytes() -> None:
    facts = of_file("tgi")
    assert rows(facts, "kv_pool")[Whose()] == {"total_tokens": 131_072, "used_tokens": 4096}
    assert len(facts.rest) == 3


def test_llama_cpp_has_no_pool_and_so_no_row_of_one() -> None:
    facts = of_file("llamacpp")
    assert [fact.kind for fact in facts.facts] == ["throughput"]
    assert [sample.name for sample in facts.rest] == ["llamacpp:prompt_tokens_total"]


def test_dynamo_calls_a_ratio_a_percentage() -> None:
    (pool,) = rows(of_file("dynamo"), "kv_pool").values()
    assert pool == {"total_blocks": 800, "usage_ratio": 0.5}


@pytest.mark.parametrize("engine", engines(), ids=lambda engine: engine.engine)
def test_every_mapping_fills_fields_that_the_table_has(engine: object) -> None:
    name = getattr(engine, "engine", "")
    pages = {"vllm": "vllm_dp2", "sglang": "sglang_tp2"}
    for fact in of_file(pages.get(name, name), name).facts:
        make_row(fact.kind, fact.fields, {})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('engine = "x"\nprefixes = []\nchecked = []\nrank = {}\n', "rank"),
        ('engine = "x"\nprefixes = []\nchecked = []\n[[series]]\nname = "a"\nrow = "nope"\nfield = "b"\n', "no kind nope"),
        ('engine = "x"\nprefixes = []\nchecked = []\n[[series]]\nname = "a"\nrow = "kv_pool"\nfield = "b"\n', "has no b"),
    ],
)
def test_a_misspelt_mapping_is_an_error(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        decode(text.encode(), "x")


def test_real_pages() -> None:
    folder = shared("data/engine")
    vllm = facts_of("vllm", (folder / "metrics_20_srv5_3.txt").read_text())
    (pool,) = rows(vllm, "kv_pool").values()
    assert (pool["total_blocks"], pool["block_size_tokens"], pool["preempted_requests"]) == (48, 32, 1)
    (derived,) = rows(vllm, "kv_pool", "derived").values()
    assert derived == {"used_blocks": 40, "free_blocks": 7}
    page = parse((folder / "sglang" / "metrics_midload.txt").read_text())
    sglang = read(BY_NAME["sglang"], page.samples)
    pool = next(fact.fields for fact in sglang.facts if fact.kind == "kv_pool" and "used_tokens" in fact.fields)
    assert pool["used_tokens"] == 938
    assert int(str(pool["total_tokens"])) - 938 - int(str(pool["evictable_tokens"])) == 60
