"""OOM005 fragmentation: rare, and not to be said from the figures alone."""

import pytest

from oomctl.analyzers.triage import fragmentation
from tests.triage import tables
from tests.triage.tables import GIB, LOAD_FRAME, LOADING, MIB, SERVING, STEP_FRAME, Table


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize("scenario", ["fragmentation_same_shape", "fragmentation_after_larger"])
def test_detects_fragmentation(scenario: str, engine: str) -> None:
    found = tables.first(scenario, engine=engine, ranks=2)
    assert (found.oom_class, found.code, tables.causes(found)[0]) == (
        "fragmentation",
        "OOM005",
        "cached_blocks_do_not_fit",
    )
    assert found.allocator_at_oom is not None and found.allocator_at_oom.fits_in_cache


@pytest.mark.parametrize("scenario", ["prefill_looks_fragmented", "prefill_long_prompt", "load_staging_copy"])
def test_ignores_look_alikes(scenario: str) -> None:
    assert tables.first(scenario).oom_class != "fragmentation"


def failing(table: Table, before: tuple[tuple[int, float], ...], tokens: int, **figures: int) -> Table:
    """Batches of (tokens, KV use), then one that fails."""
    for done, usage in before:
        table.add("step", mode="prefill", prefill_tokens=done)
        table.report(usage, 4)
    table.stack(STEP_FRAME).oom(**tables.figures(**figures))
    return table.add("step", mode="prefill", prefill_tokens=tokens, dumped=True)


def test_detects_a_smaller_batch_that_fails_after_larger_ones() -> None:
    table = failing(Table(*SERVING), ((8192, 0.3), (8192, 0.31), (8192, 0.3)), 4096, cached=5 * GIB)
    assert fragmentation.assess(table.case()).score >= 0.5


def test_ignores_the_first_batch_of_its_size() -> None:
    table = failing(Table(*SERVING), ((256, 0.3), (512, 0.31)), 16_384, cached=5 * GIB)
    assert fragmentation.assess(table.case()).score < 0.5


def test_ignores_too_little_in_the_cache() -> None:
    table = failing(Table(*SERVING), ((8192, 0.3), (8192, 0.31)), 4096, cached=GIB)
    assert fragmentation.assess(table.case()).evidence == []


def test_ignores_a_small_request() -> None:
    table = failing(Table(*SERVING), ((8192, 0.3), (8192, 0.31)), 4096, requested=20 * MIB, free=10 * MIB, cached=5 * GIB)
    assert fragmentation.assess(table.case()).evidence == []


def test_ignores_leftovers_of_a_load() -> None:
    case = Table(*LOADING).stack(LOAD_FRAME).oom(**tables.figures(cached=9 * GIB)).case()
    result = fragmentation.assess(case)
    assert result.against and result.score < 0.2


def test_free_blocks_of_graph_pools_do_not_count() -> None:
    figures = tables.figures(cached=GIB)
    table = Table(*SERVING).stack(STEP_FRAME).oom(**figures, private_pool_bytes=9 * GIB)
    case = table.case()
    assert case.figures["cached_free_bytes"] == GIB
    assert case.figures["allocated_true_bytes"] == figures["allocated_bytes"] - 9 * GIB
    assert fragmentation.assess(case).evidence == []
