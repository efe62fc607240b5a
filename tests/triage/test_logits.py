"""A failed size as a product of sequences and vocabulary: said only where both factors stand in the log."""

import pytest

from oomctl.analyzers.allocator.rules import asked_bytes
from oomctl.analyzers.triage.logits import explain
from oomctl.schemas.verdict import Cause
from tests.triage import tables
from tests.triage.tables import GIB, MIB, WARMING, Table

CAUSE = Cause(cause="sampler_warm_up", detail="the sampler is run once")


@pytest.mark.parametrize(
    ("request_bytes", "segment"),
    [
        (1, 2 * MIB),
        (MIB, 2 * MIB),
        (MIB + 1, 20 * MIB),
        (10 * MIB - 512, 20 * MIB),
        (10 * MIB - 511, 10 * MIB),
        (10 * MIB, 10 * MIB),
        (10 * MIB + 1, 12 * MIB),
        (1024 * 201_088 * 4, 786 * MIB),
    ],
)
def test_the_allocators_rounding(request_bytes: int, segment: int) -> None:
    assert asked_bytes(request_bytes) == segment


def warm(
    requested: int, *, vocabulary: object = 201_088, sequences: object = 1024, resolution: int | None = 5_243
) -> Table:
    table = Table(*WARMING)
    if vocabulary is not None:
        table.arguments("model", vocab_size=vocabulary)
    if sequences is not None:
        table.arguments(max_num_seqs=sequences)
    return table.oom(**tables.figures(requested=requested, free=10 * MIB), resolution_bytes=resolution)


def explained(table: Table) -> Cause:
    return explain(table.case(), CAUSE)


def test_detects_the_product_and_cites_both_factors() -> None:
    cause = explained(warm(786 * MIB))
    assert "1024 x 201088 x 4 bytes" in cause.detail
    assert [cite.query for cite in cause.cites] == ["arguments", "arguments"]


@pytest.mark.parametrize(
    "table",
    [
        warm(786 * MIB, vocabulary=None),
        warm(786 * MIB, sequences=None),
        warm(786 * MIB, vocabulary="auto"),
        warm(788 * MIB),
        warm(786 * MIB, vocabulary=202_048),
    ],
)
def test_ignores_a_missing_factor_and_another_size(table: Table) -> None:
    assert explained(table) is CAUSE


def test_detects_within_the_print_resolution() -> None:
    """From 1 GiB on two decimals are good to 5 MiB: 2048 x 201088 x 4 is 1.54 GiB as printed."""
    printed = round(1.54 * GIB)
    assert "2048 x 201088 x 4" in explained(warm(printed, sequences=2048, resolution=5_368_709)).detail
    assert explained(warm(printed, sequences=2048, resolution=None)) is CAUSE, "an exact figure must fit exactly"


def test_a_coarse_free_figure_does_not_widen_it() -> None:
    assert explained(warm(788 * MIB, resolution=5_368_709)) is CAUSE


def test_detects_the_count_in_the_engines_own_words() -> None:
    table = warm(786 * MIB, sequences=None).oom(
        stack_id=None, message="CUDA out of memory occurred when warming up sampler with 1024 dummy requests."
    )
    cause = explained(table)
    assert "1024 x 201088 x 4" in cause.detail
    assert {cite.query for cite in cause.cites} == {"failures", "arguments"}


def test_the_scenario_of_the_sampler_says_it() -> None:
    assert "(sequences x vocabulary x element)" in tables.first("warm_up_sampler").causes[0].detail
    assert "vocabulary x element" not in tables.first("warm_up_capture").causes[0].detail
