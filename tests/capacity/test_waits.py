"""Tool waits: what each action wastes, and a rule that knows no pause but those before."""

import numpy as np
import pytest

from oomctl.analyzers.capacity.waits.play import ByOracle, ByRule, play
from oomctl.analyzers.capacity.waits.report import pauses_of, report
from oomctl.analyzers.capacity.waits.rule import Rule
from oomctl.analyzers.capacity.waits.waste import Costs, Pauses, totals
from oomctl.schemas.errors import OomctlError
from oomctl.schemas.trace import Trace, request_table

COSTS = Costs(prefill_tokens_per_s=1000.0, bytes_per_token=100.0, link_bytes_per_s=1e6)


def _pauses(*entries: tuple[float, float, float]) -> Pauses:
    begin_s, seconds, tokens = (np.array(column, dtype=np.float64) for column in zip(*entries, strict=True))
    return Pauses(begin_s, seconds, tokens, np.arange(len(entries)))


def test_what_each_action_wastes() -> None:
    # 1,000 tokens: a second to compute, 0.1 s over the link each way.
    found = totals(_pauses((0.0, 0.15, 1000.0), (0.0, 5.0, 1000.0)), COSTS)
    assert found.preserve == pytest.approx(5150) and found.recompute == pytest.approx(2000)
    assert found.offload == found.oracle == pytest.approx(150 + 200) and found.offloaded == 1
    assert found.oracle_without_link == pytest.approx(150 + 1000) and found.oracle_recomputed == 1


def test_a_rule_keeps_while_the_end_is_near_and_drops_when_it_is_not() -> None:
    rule = Rule(np.array([2.0] * 90 + [1000.0] * 10))
    assert rule.choose(recompute_s=50.0, transfer_s=None)[:2] == (2.0, "recompute")
    assert rule.choose(recompute_s=0.5, transfer_s=None)[:2] == (0.0, "recompute")
    assert rule.choose(recompute_s=50.0, transfer_s=0.1)[:2] == (0.0, "offload")
    # Who still waits after 3 seconds will wait long.
    assert rule.choose(recompute_s=50.0, transfer_s=None, held_s=3.0)[:2] == (3.0, "recompute")
    # A link that others hold for a minute is no help.
    assert rule.choose(recompute_s=5.0, transfer_s=0.1, link_wait_s=60.0).then == "recompute"


def test_contexts_wait_for_the_link_on_both_ways() -> None:
    pauses = _pauses((0.0, 10.0, 1000.0), (0.0, 10.0, 1000.0))
    found = play(pauses, ByOracle(pauses, COSTS), COSTS)
    assert found.offloaded == 2 and found.link_wait_s == pytest.approx(0.1)
    assert found.waste == pytest.approx(1000 * (0.1 + 0.2 + 0.1 + 0.2))


def test_without_foresight_within_half_as_much_again_as_the_oracle() -> None:
    drawn = np.random.default_rng(1)
    count = 3000
    seconds = drawn.lognormal(2.2, 1.6, count)
    pauses = Pauses(np.sort(drawn.uniform(0, 2e4, count)), seconds, drawn.uniform(2e4, 3e5, count), np.arange(count))
    rule = Rule(drawn.lognormal(2.2, 1.6, count))
    rules = dict.fromkeys(range(count), rule)
    for busy in (0.0, 0.9):
        costs = Costs(busy_ratio=busy)
        alone = play(pauses, ByRule(pauses, rules, costs, with_link=False), costs)
        assert 1.0 <= alone.waste / totals(pauses, costs).oracle_without_link < 1.5
        linked = play(pauses, ByRule(pauses, rules, costs, with_link=True), costs)
        assert linked.waste / play(pauses, ByOracle(pauses, costs), costs).waste < 1.5
        assert linked.waste < alone.waste


def test_pauses_of_a_trace() -> None:
    table = request_table(
        {
            "arrival_s": [0.0, 10.0, 30.0, 0.0, 5.0],
            "prompt_tokens": [100, 120, 150, 50, 60],
            "output_tokens": [10, 10, 10, 5, 5],
            "status": ["ok"] * 5,
            "session": ["a", "a", "a", "b", "b"],
            "pause": [None, "tool", "user", None, "tool"],
            "pause_s": [None, 4.0, 9.0, None, 2.0],
        }
    )
    trace = Trace("made", "claude_code", table, clock="session")
    found = pauses_of(trace, 100.0)
    assert found.begin_s.tolist() == [6.0, 103.0]
    assert found.seconds.tolist() == [4.0, 2.0] and found.tokens.tolist() == [110.0, 55.0]
    assert report(trace, COSTS, 100.0).waste.preserve == 550.0
    with pytest.raises(OomctlError, match="no wait for a tool"):
        pauses_of(trace.take(np.array([0, 2])), 100.0)
