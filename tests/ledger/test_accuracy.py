"""What engines printed, where the shared data is there."""

import json
import re

import pytest

from benchmarks.ledger import TARGETS, checks
from benchmarks.ledger_estimates import FITTED, fit
from oomctl.analyzers.ledger import Engine, ModelShape, estimates
from oomctl.analyzers.ledger.weights import rank_tensors, steady_bytes
from oomctl.schemas.ledger import GIB
from tests.shared import shared


@pytest.mark.parametrize("check", list(TARGETS))
def test_exact_arithmetic_meets_print(check: str) -> None:
    truth = shared("data", "ledger", "truth.jsonl")
    rows = [json.loads(line) for line in truth.read_text().splitlines()]
    own = [outcome for row in rows for outcome in checks(row, truth.parent.parent) if outcome.check == check]
    assert sum(outcome.right for outcome in own) >= TARGETS[check] * len(own), [item for item in own if not item.right]


def test_a_worker_that_died_in_warm_up_had_loaded_what_is_predicted() -> None:
    log = shared("data", "vllm_logs", "openai-gpt-oss-20b--h100-80gb--tp1pp1dp1--8192.FAILED.log").read_text()
    printed = re.search(r"Model loading took ([\d.]+) GiB", log)
    shape = ModelShape.from_config(shared("data", "ledger", "configs", "openai--gpt-oss-20b_config.json"))
    assert printed is not None
    assert f"{steady_bytes(rank_tensors(shape, Engine(version=(0, 19)))) / GIB:.2f}" == printed[1]


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
