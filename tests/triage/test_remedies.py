"""Remedies: concrete settings of that engine, with arithmetic that holds."""

import re
from typing import Any

import pytest

from oomctl.analyzers.triage.remedies.engine_files import load
from oomctl.analyzers.triage.remedies.versions import parse
from oomctl.schemas.verdict import Incident, Remedy
from tests.scenarios import catalogue
from tests.triage import tables
from tests.triage.tables import CAPTURE_FRAME, GIB, MIB, SERVING, STEP_FRAME, WARMING, Table

PROCEDURES = {"--model", "--quantization"}
"""Options that stand in what is no option's value: "--model CHECKPOINT-FP8 without --quantization"."""
CASES = [(scenario.name, engine) for scenario in catalogue() for engine in scenario.engines if scenario.label["incident"]]


def change(incident: Incident) -> list[Remedy]:
    return [remedy for remedy in incident.remedies if remedy.when == "change"]


def engine(table: Table, named: str = "vllm", **arguments: Any) -> Table:
    return table.arguments("engine", name=named, version="0.11.2").arguments(**arguments)


def capture(total: int, asked: int, free: int, **arguments: Any) -> Incident:
    table = engine(Table(*WARMING, "capturing"), **arguments).stack(CAPTURE_FRAME)
    return table.oom(**tables.figures(total, asked, free)).root()


def test_one_hundredth_of_the_device_against_fifteen_mebibytes() -> None:
    found = capture(round(22.36 * GIB), 786 * MIB, 771 * MIB, gpu_memory_utilization="0.98")
    remedy = change(found)[0]
    assert found.short_bytes == remedy.short_bytes == 15 * MIB
    assert remedy.setting == "--gpu-memory-utilization 0.97"
    assert remedy.frees_bytes is not None and round(remedy.frees_bytes / MIB) == 229
    assert remedy.arithmetic == "(0.98 - 0.97) x 22.36 GiB = 229 MiB against 15 MiB short"
    assert remedy.quality == "derived"


def test_as_many_hundredths_as_it_takes() -> None:
    remedy = change(capture(20 * GIB, GIB, 100 * MIB, gpu_memory_utilization="0.9"))[0]
    assert remedy.frees_bytes is not None and remedy.short_bytes is not None
    assert remedy.frees_bytes >= remedy.short_bytes
    assert remedy.setting == f"--gpu-memory-utilization {0.9 - 0.01 * round(remedy.frees_bytes / (0.2 * GIB)):.2f}"


def test_an_unknown_setting_is_lowered_by_a_step() -> None:
    remedy = change(capture(80 * GIB, 786 * MIB, 771 * MIB))[0]
    assert remedy.setting == "--gpu-memory-utilization lower by 0.01"


@pytest.mark.parametrize(("scenario", "engine_name"), CASES)
def test_settings_are_those_of_the_engine(scenario: str, engine_name: str) -> None:
    found = tables.first(scenario, engine=engine_name, ranks=2)
    assert found.engine == engine_name
    options = load(engine_name)
    assert options is not None
    version = parse(found.engine_version)
    spelled = {option.spelling(version) for option in options.options}
    flags = {word for spelling in spelled if spelling is not None for word in spelling.name.split()} | PROCEDURES
    for remedy in change(found):
        assert set(re.findall(r"--[a-z][\w-]*", remedy.setting or "")) <= flags, remedy.setting
    hinted = any("expandable_segments" in (remedy.setting or "") for remedy in found.remedies)
    assert hinted is (found.oom_class == "fragmentation"), "PyTorch prints that hint every time; it is right for one class"


@pytest.mark.parametrize(("scenario", "engine_name"), CASES)
def test_every_incident_has_something_to_do_and_now_comes_first(scenario: str, engine_name: str) -> None:
    found = tables.first(scenario, engine=engine_name)
    assert found.remedies or found.survived, "what was survived may need nothing"
    order = [remedy.when for remedy in found.remedies]
    assert order == sorted(order, key=lambda when: when != "now")
    for remedy in found.remedies:
        assert remedy.action.endswith(".")
        if remedy.frees_bytes is not None and remedy.quality == "derived" and remedy.when == "change":
            assert remedy.frees_bytes > (remedy.short_bytes or 0)


@pytest.mark.parametrize(
    ("engine_name", "arguments", "setting"),
    [
        ("vllm", {"max_num_batched_tokens": 8192}, "--max-num-batched-tokens 4096"),
        ("sglang", {"chunked_prefill_size": 8192}, "--chunked-prefill-size 4096"),
    ],
)
def test_prompts_are_halved(engine_name: str, arguments: dict[str, int], setting: str) -> None:
    table = engine(Table(*SERVING), engine_name, **arguments).report(0.2, 3).stack(STEP_FRAME).oom(**tables.figures())
    found = table.add("step", mode="prefill", prefill_tokens=8192, dumped=True).root()
    assert change(found)[0].setting == setting
    assert change(found)[0].frees_bytes == GIB


def test_a_gate_is_told_what_fits() -> None:
    found = tables.first("gate_start_memory")
    remedy = next(remedy for remedy in change(found) if "--gpu-memory-utilization" in (remedy.setting or ""))
    share = float((remedy.setting or "").split()[-1])
    assert found.memory_at_oom is not None and found.memory_at_oom.bytes is not None
    free = next(node.bytes for node in found.memory_at_oom.children if node.name == "free")
    assert free is not None
    assert share * found.memory_at_oom.bytes <= free


def test_an_unknown_engine_gets_no_flags() -> None:
    found = Table(*WARMING, "capturing").stack(CAPTURE_FRAME).oom(**tables.figures()).root()
    assert found.engine is None
    assert not any("--" in (remedy.setting or "") for remedy in change(found))


def settings_of(table: Table) -> list[str]:
    return [remedy.setting or "" for remedy in change(table.root())]


def capturing(version: str, **arguments: Any) -> list[str]:
    table = Table(*WARMING, "capturing").arguments("engine", name="vllm").arguments(**arguments)
    if version:
        table.arguments("engine", version=version)
    return settings_of(table.stack(CAPTURE_FRAME).oom(**tables.figures()))


@pytest.mark.parametrize(
    ("version", "flag"),
    [
        ("0.8.5", "--max-num-seqs"),
        ("0.10.1", "--cuda-graph-sizes"),
        ("0.11.2", "--max-cudagraph-capture-size"),
        ("0.33.0", "--max-cudagraph-capture-size"),
        ("0.99.1rc2", "--max-cudagraph-capture-size"),
        ("", "--max-cudagraph-capture-size"),
    ],
)
def test_spelling_is_that_of_the_version(version: str, flag: str) -> None:
    flags = [setting.split()[0] for setting in capturing(version)]
    assert flags == ["--gpu-memory-utilization", flag, "--enforce-eager"]


def test_the_newest_spelling_is_said_to_be_a_guess() -> None:
    table = Table(*WARMING, "capturing").arguments("engine", name="vllm").stack(CAPTURE_FRAME).oom(**tables.figures())
    said = {(remedy.setting or "").split()[0]: "tells no version" in remedy.action for remedy in change(table.root())}
    assert said == {"--gpu-memory-utilization": False, "--max-cudagraph-capture-size": True, "--enforce-eager": False}


def test_the_log_s_own_spelling_counts_where_there_is_no_version() -> None:
    table = Table(*WARMING, "capturing").arguments("engine", name="sglang").arguments(cuda_graph_max_bs=256)
    found = settings_of(table.stack(CAPTURE_FRAME).oom(**tables.figures()))
    assert "--cuda-graph-max-bs 128" in found


def test_what_is_set_already_is_not_proposed() -> None:
    assert not any("--enforce-eager" in setting for setting in capturing("0.11.2", enforce_eager=True))
    assert any("--enforce-eager" in setting for setting in capturing("0.11.2", enforce_eager=False))


def test_what_is_at_its_limit_is_not_proposed() -> None:
    assert "--max-cudagraph-capture-size 4" in capturing("0.11.2", max_cudagraph_capture_size=8)
    assert not any("capture-size" in item for item in capturing("0.11.2", max_cudagraph_capture_size=1))


def test_a_fixed_pool_is_lowered_and_not_the_share_that_it_overrides() -> None:
    found = capturing("0.11.2", kv_cache_memory_bytes=20 * GIB, gpu_memory_utilization="0.9")
    assert not any("--gpu-memory-utilization" in setting for setting in found)
    assert found[0] == f"--kv-cache-memory-bytes {20 * GIB - round(1.2 * GIB)}"


def test_a_share_of_what_is_free_is_lowered_by_what_was_short() -> None:
    table = Table(*WARMING, "capturing").arguments("engine", name="lmdeploy").arguments(cache_max_entry_count="0.8")
    table.add("memory", component="kv_pool", owner="available", lifetime="worker", bytes=40 * GIB)
    remedy = change(table.stack(CAPTURE_FRAME).oom(**tables.figures()).root())[0]
    assert remedy.setting == "--cache-max-entry-count 0.77"
    assert remedy.frees_bytes is not None and remedy.frees_bytes > GIB, "1 GiB was short"
    assert remedy.quality == "derived"


@pytest.mark.parametrize("name", ["vllm", "sglang", "trtllm", "tgi", "lmdeploy", "llamacpp", "ollama"])
def test_a_pool_that_ran_out_is_never_made_smaller(name: str) -> None:
    table = Table(*SERVING).arguments("engine", name=name, version="0.11.2" if name == "vllm" else "1.4.0")
    table.report(0.99, 40).oom(resource="kv_blocks", api="engine", error_type="preemption", requests=3, fatal=False)
    shrinks = ("utilization", "fraction", "memory-bytes", "entry-count", "WIGGLE", "ctx-size lower", "num_ctx lower")
    found = settings_of(table)
    assert found and not any(word in setting for setting in found for word in shrinks), found


def test_a_larger_share_is_proposed_as_far_as_there_is_one() -> None:
    def gate(utilization: str, needed: int) -> list[str]:
        table = Table(*WARMING).arguments("engine", name="vllm", version="0.11.2")
        table.arguments(gpu_memory_utilization=utilization).add("device", total_bytes=80 * GIB)
        sizes: dict[str, Any] = {"needed_bytes": needed * GIB, "available_bytes": GIB, "resolution_bytes": MIB}
        return settings_of(table.add("refusal", gate="kv_fits_request", resource="kv_blocks", message="m", **sizes))

    assert "--gpu-memory-utilization 0.84" in gate("0.80", 3)
    assert not any("utilization" in setting for setting in gate("0.94", 3)), "no room above it"
    assert not any("utilization" in setting for setting in gate("0.80", 40)), "not even the whole device would do"


def test_nothing_is_raised_where_somebody_else_holds_the_device() -> None:
    sizes: dict[str, Any] = {"needed_bytes": 72 * GIB, "available_bytes": 20 * GIB, "total_bytes": 80 * GIB}
    table = Table("spawned").arguments("engine", name="vllm", version="0.11.2")
    found = settings_of(table.add("refusal", gate="start_memory", resource="device", message="m", **sizes))
    assert found == ["--gpu-memory-utilization 0.24"]


def test_one_request_that_fills_the_pool_must_be_shorter() -> None:
    table = Table(*SERVING).arguments("engine", name="vllm", version="0.11.2").arguments(max_model_len=65536)
    table.report(1.0, 1).oom(resource="kv_blocks", api="engine", error_type="preemption", requests=1, fatal=True)
    found = settings_of(table)
    assert found[0] == "--max-model-len 32768"
    assert not any("--max-num-seqs" in setting for setting in found), "one ran: fewer is none"


def test_chunks_that_are_switched_off_are_switched_on() -> None:
    table = Table(*SERVING).arguments("engine", name="sglang").arguments(chunked_prefill_size=-1).report(0.2, 3)
    table.add("step", mode="prefill", prefill_tokens=60000, dumped=True)
    assert settings_of(table.stack(STEP_FRAME).oom(**tables.figures()))[0] == "--chunked-prefill-size 4096"


def test_host_memory_that_the_log_shows_in_use_is_given_back() -> None:
    def killed(**arguments: Any) -> list[str]:
        table = Table(*SERVING).arguments("engine", name="vllm", version="0.11.2").arguments(**arguments)
        return settings_of(table.oom(resource="host", api="kernel", error_type="oom_kill"))

    assert killed() == ["swapon FILE"]
    assert killed(kv_offloading_size="64") == ["swapon FILE", "--kv-offloading-size 32"]


def test_a_sampler_s_warm_up_is_lowered_by_its_sequences() -> None:
    found = change(tables.first("warm_up_sampler", engine="vllm"))
    assert [(remedy.setting or "").split()[0] for remedy in found] == ["--gpu-memory-utilization", "--max-num-seqs"]
