"""OOM003 prefill_spike."""

import pytest

from oomctl.analyzers.triage import prefill_spike
from tests.triage import tables
from tests.triage.tables import DECODE_FRAME, LOGITS_FRAME, SERVING, STEP_FRAME, Table


@pytest.mark.parametrize(
    ("scenario", "engine", "resource"),
    [
        ("prefill_long_prompt", "vllm", "device"),
        ("prefill_long_prompt", "sglang", "device"),
        ("prefill_looks_fragmented", "vllm", "device"),
        ("prefill_looks_fragmented", "sglang", "device"),
        ("prefill_block_shortage", "sglang", "kv_blocks"),
    ],
)
def test_detects_prefill(scenario: str, engine: str, resource: str) -> None:
    found = tables.first(scenario, engine=engine, ranks=2)
    assert (found.oom_class, found.code, found.resource) == ("prefill_spike", "OOM003", resource)


@pytest.mark.parametrize("scenario", ["fragmentation_same_shape", "decode_exhausted", "warm_up_lazy_autotune"])
def test_ignores_look_alikes(scenario: str) -> None:
    assert tables.first(scenario).oom_class != "prefill_spike"


def batch(table: Table, tokens: int, dumped: bool = False) -> Table:
    return table.add("step", mode="prefill", prefill_tokens=tokens, dumped=dumped)


@pytest.mark.parametrize(("frame", "oom_class"), [(LOGITS_FRAME, "prefill_spike"), (DECODE_FRAME, None)])
def test_an_engine_on_the_cpu_computes_in_the_hosts_memory(frame: tuple[str, str], oom_class: str | None) -> None:
    """The host's memory too, if what it failed for was a prompt's; a host that is full at a decode is no spike."""
    table = batch(Table(*SERVING).report(0.2, 4), 900, dumped=True).stack(STEP_FRAME, frame)
    found = table.oom(resource="host", api="cpu_allocator", error_type="RuntimeError", fatal=True).root()
    assert (found.verdict, found.oom_class, found.resource) == ("oom", oom_class, "host")


def test_detects_the_dumped_batch() -> None:
    table = Table(*SERVING).report(0.2, 4).stack(STEP_FRAME).oom(**tables.figures())
    found = batch(table, 16_384, dumped=True).root()
    assert found.oom_class == "prefill_spike"
    assert found.cohort_at_oom is not None and found.cohort_at_oom.prefill_tokens == 16_384


def test_ignores_a_dumped_decode_batch() -> None:
    table = Table(*SERVING).report(0.2, 4).stack(STEP_FRAME).oom(**tables.figures())
    assert prefill_spike.assess(batch(table, 0, dumped=True).case()).score < 0.5


def test_detects_logits() -> None:
    found = Table(*SERVING).report(0.2, 4).stack(STEP_FRAME, LOGITS_FRAME).oom().root()
    assert found.oom_class == "prefill_spike"
    assert tables.causes(found)[0] == "logits"


def test_ignores_a_decode_step() -> None:
    table = batch(Table(*SERVING), 4_096).report(0.2, 4).stack(STEP_FRAME, DECODE_FRAME).oom()
    with_decode = prefill_spike.assess(table.case())
    without = prefill_spike.assess(batch(Table(*SERVING), 4_096).report(0.2, 4).stack(STEP_FRAME).oom().case())
    assert with_decode.score < 0.5 < without.score
    assert with_decode.against


def test_detects_blocks_short_while_admitting() -> None:
    table = Table(*SERVING).report(0.6, 4)
    table.oom(
        resource="kv_blocks", api="engine", error_type="prefill_out_of_memory", requested_tokens=9, available_tokens=4
    )
    found = table.root()
    assert (found.oom_class, tables.causes(found)) == ("prefill_spike", ["oversized_request"])
    assert found.causes[0].tokens == 9


def test_ignores_a_small_batch() -> None:
    assert prefill_spike.assess(batch(Table(*SERVING), 16).stack(STEP_FRAME).oom().case()).evidence == []
