"""What engines printed, where the shared data is there."""

import json

import pytest

from benchmarks.ledger import TARGETS, checks
from benchmarks.ledger_estimates import FITTED, fit
from oomctl.analyzers.ledger import estimates
from tests.shared import shared


@pytest.mark.parametrize("check", list(TARGETS))
def test_exact_arithmetic_meets_print(check: str) -> None:
    truth = shared("data", "ledger", "truth.jsonl")
    rows = [json.loads(line) for line in truth.read_text().splitlines()]
    own = [outcome for row in rows for outcome in checks(row, truth.parent.parent) if outcome.check == check]
    assert sum(outcome.right for outcome in own) >= TARGETS[check] * len(own), [item for item in own if not item.right]


def test_the_constants_are_what_the_fit_gives() -> None:
    peak, pool = fit(shared("data", "ledger", "truth.jsonl").parent.parent)
    assert peak == pytest.approx([estimates.LOGIT_COPIES, estimates.HIDDEN_COPIES, estimates.FIXED_GIB], rel=0.002)
    assert pool == pytest.approx([estimates.GRAPH_GIB, estimates.GRAPH_LAYER_GIB, estimates.GRAPH_WIDTH_GIB], rel=0.002)


def test_intervals_are_tested_on_models_of_no_fit() -> None:
    truth = shared("data", "ledger", "truth.jsonl")
    rows = [json.loads(line) for line in truth.read_text().splitlines()]
    models = {row["id"]: row["model"].casefold() for row in rows}
    own = [outcome for row in rows for outcome in checks(row, truth.parent.parent) if outcome.width is not None]
    assert own
    assert not {models[outcome.row] for outcome in own} & FITTED
    assert sum(outcome.right for outcome in own) >= 0.9 * len(own), [item for item in own if not item.right]
