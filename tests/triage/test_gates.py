"""Gates: the engine refuses, nothing failed."""

import pytest

from tests.triage import tables
from tests.triage.logs import triaged
from tests.triage.tables import GIB, LOADING, UNKNOWN_FRAME, WARMING, Table


@pytest.mark.parametrize(
    ("scenario", "resource", "causes"),
    [
        ("gate_start_memory", "device", {"foreign_process", "over_committed_budget"}),
        ("gate_start_orphan", "device", {"earlier_incarnation"}),
        ("gate_request_too_large", "kv_blocks", {"oversized_request"}),
    ],
)
def test_detects_gate(scenario: str, resource: str, causes: set[str]) -> None:
    found = tables.first(scenario, ranks=2)
    assert (found.verdict, found.resource, found.survived) == ("capacity_gate", resource, False)
    assert tables.causes(found)[0] in causes
    assert found.short_bytes is not None and found.short_bytes > 0


@pytest.mark.parametrize("scenario", ["load_foreign_process", "decode_preemption_storm", "prefill_block_shortage"])
def test_ignores_failures(scenario: str) -> None:
    assert tables.first(scenario).verdict == "oom"


def start_gate(free_gib: int) -> Table:
    return Table("spawned").add(
        "refusal",
        gate="start_memory",
        resource="device",
        needed_bytes=72 * GIB,
        available_bytes=free_gib * GIB,
        total_bytes=80 * GIB,
        message="Free memory on device",
    )


def test_detects_others_behind_the_start_gate() -> None:
    found = start_gate(20).root()
    assert tables.causes(found) == ["foreign_process"]
    assert found.causes[0].bytes == 60 * GIB
    assert "start_memory" not in found.causes[0].detail
    assert found.short_bytes == 52 * GIB
    assert [item.what for item in found.missing] == ["who held the device before the start"]


def test_ignores_others_on_an_empty_device() -> None:
    found = start_gate(78).root()
    assert tables.causes(found) == ["over_committed_budget"]


def kv_gate(needed_gib: int, there_gib: int) -> Table:
    return Table(*WARMING).add(
        "refusal",
        gate="kv_fits_request",
        resource="kv_blocks",
        needed_bytes=needed_gib * GIB,
        available_bytes=there_gib * GIB,
        needed_tokens=131_072,
        available_tokens=48_000,
    )


def test_detects_a_request_that_does_not_fit() -> None:
    found = kv_gate(16, 6).root()
    assert (found.causes[0].cause, found.causes[0].bytes, found.causes[0].tokens) == (
        "oversized_request",
        10 * GIB,
        131_072,
    )
    assert found.missing == []


def test_figures_below_the_print_resolution_are_not_a_shortage_of_nothing() -> None:
    """vLLM prints "(0.0 GiB KV cache is needed, ... (0.0 GiB)" for a tiny model."""
    found = kv_gate(0, 0).root()
    assert found.causes[0].bytes is None
    assert "131072 tokens" in found.summary and "48000" in found.summary


def test_ignores_the_refusal_after_a_failed_allocation() -> None:
    table = Table(*LOADING).stack(UNKNOWN_FRAME).oom(**tables.figures())
    table.add("refusal", gate="kv_blocks", resource="kv_blocks", message="No available memory for the cache blocks")
    found = table.triage()
    assert [item.verdict for item in found] == ["oom"]
    assert found[0].cascade is not None and found[0].cascade.failures == 1


def test_a_gate_has_no_class_whatever_frames_it_has() -> None:
    frame = ("/pkg/sglang/srt/model_executor/model_runner.py", "init_memory_pool")
    table = (
        Table(*WARMING).arguments("engine", name="sglang", version="0.5.4").arguments(mem_fraction_static=0.7, tp_size=1)
    )
    table.stack(frame).add("refusal", gate="kv_blocks", resource="device", message="Not enough memory.", stack_id="s1")
    found = table.root()
    assert (found.verdict, found.oom_class, found.code, found.alternatives) == ("capacity_gate", None, None, [])
    assert tables.causes(found) == ["over_committed_budget"]
    assert [remedy.setting for remedy in found.remedies] == ["--mem-fraction-static higher", "--tp-size 2"]


VLLM = """\
(APIServer pid=1) INFO 05-02 08:00:00 [api_server.py:1900] vLLM API server version 0.20.2
(APIServer pid=1) INFO 05-02 08:00:00 [utils.py:253] non-default args: {{'model': 'm', 'gpu_memory_utilization': 0.6}}
(EngineCore pid=7) INFO 05-02 08:01:00 [gpu_worker.py:436] Available KV cache memory: {left} GiB
(EngineCore pid=7) ERROR 05-02 08:01:04 [core.py:842] Traceback (most recent call last):
(EngineCore pid=7) ERROR 05-02 08:01:04 [core.py:842]   File "/v/core/kv_cache_utils.py", line 6, in _check_enough
(EngineCore pid=7) ERROR 05-02 08:01:04 [core.py:842] ValueError: No available memory for the cache blocks.{more} Try \
increasing `gpu_memory_utilization` when initializing the engine.
"""


@pytest.mark.parametrize(("left", "more"), [("-2.50", ""), ("9.00", " Available KV cache memory: -2.50 GiB.")])
def test_how_far_the_budget_is_overdrawn(left: str, more: str) -> None:
    found = triaged(VLLM.format(left=left, more=more))[0]
    assert (found.short_bytes, found.causes[0].bytes) == (5 * GIB // 2, 5 * GIB // 2)
    assert "2.50 GiB" in found.summary
    (higher,) = [remedy for remedy in found.remedies if "gpu-memory" in (remedy.setting or "")]
    assert higher.arithmetic == "at least 0.60 + 2.50 GiB / the device's size"


def test_ignores_a_pool_that_was_something() -> None:
    found = triaged(VLLM.format(left="0.40", more=""))[0]
    assert (found.short_bytes, found.causes[0].bytes) == (None, None)
