"""What engines printed, where the shared data is there."""

import json

import pytest

from benchmarks.ledger import TARGETS, checks
from tests.shared import shared


@pytest.mark.parametrize("check", ["weights, dense", "kv blocks", "tokens and concurrency"])
def test_exact_arithmetic_meets_print(check: str) -> None:
    truth = shared("data", "ledger", "truth.jsonl")
    rows = [json.loads(line) for line in truth.read_text().splitlines()]
    own = [outcome for row in rows for outcome in checks(row, truth.parent.parent) if outcome.check == check]
    assert sum(outcome.right for outcome in own) >= TARGETS[check] * len(own), [item for item in own if not item.right]
