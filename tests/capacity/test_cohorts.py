"""What is said of a trace: each figure worked out by hand for some requests."""

from pathlib import Path

import pytest

from oomctl.analyzers.capacity.active import Service
from oomctl.analyzers.capacity.cohorts import Options, cohorts
from oomctl.analyzers.capacity.rules import parse_rules, read_rules
from oomctl.schemas.cohorts import Cohort
from oomctl.schemas.errors import ExitCode, OomctlError
from oomctl.schemas.trace import Trace
from tests.capacity.made import trace


def whole(made: Trace, options: Options | None = None) -> Cohort:
    found = cohorts(made, [], options).cohorts[0]
    assert found.name == "all"
    return found


def test_tokens_and_failures() -> None:
    made = trace([0, 1, 2, 3], [10, 20, 30, 1000], [1, 2, 4, 0], status=["ok", "ok", "cancelled", "failed"])
    found = whole(made)
    assert (found.requests, found.statuses) == (4, {"cancelled": 1, "failed": 1, "ok": 2})
    assert (found.prompt_tokens.count, found.prompt_tokens.p50, found.prompt_tokens.max) == (3, 20, 30)
    assert found.output_tokens.p90 == pytest.approx(3.6)


def test_a_sample_is_weighed() -> None:
    found = whole(trace([0, 1, 2], [10, 20, 30], [1, 1, 1], weight=[8.0, 1.0, 1.0]))
    assert found.represents == 10
    assert (found.prompt_tokens.p50, found.prompt_tokens.p90, found.prompt_tokens.p99) == (10, 20, 30)
    assert found.arrivals.rate_per_s == 5
    assert found.arrivals.gap_cv is None
    assert found.arrivals.windows == []
    assert found.arrivals.reason


def test_arrivals() -> None:
    """Gaps 1, 1, 4; windows of 1 s: 1, 1, 1, 0, 0, 0."""
    found = whole(trace([0, 1, 2, 6], [1] * 4, [1] * 4)).arrivals
    assert found.rate_per_s == pytest.approx(4 / 6)
    assert found.gap_cv == pytest.approx(2**0.5 / 2)
    (window,) = found.windows
    assert window.seconds == 1
    assert (window.dispersion, window.peak_to_mean) == pytest.approx((0.5, 2))


def test_quantised_times_tell_no_gaps_and_no_short_windows() -> None:
    batched = whole(trace([3.0 * (n // 4) for n in range(60)], [1] * 60, [1] * 60)).arrivals
    assert batched.gap_cv is None
    assert [window.seconds for window in batched.windows] == [10]
    assert "3 s" in batched.reason


def test_alive_at_once() -> None:
    """0 to 2 s one of 32 tokens, 1 to 3 s another of 48 that shares a block with it: 32, 80 or 64, 48."""
    made = trace([0, 1], [30, 40], [1, 1], blocks=[[0], [0, 1]], service_s=[2.0, 2.0])
    found = whole(made).concurrency
    assert found is not None
    assert found.quality == "measured"
    assert found.requests.max == 2
    assert found.requests.mean == pytest.approx(4 / 3)
    assert (found.reserved_tokens.p50, found.reserved_tokens.max) == (48, 80)
    assert found.physical_tokens is not None
    assert found.physical_tokens.max == 64


def test_service_where_it_is_not_told() -> None:
    found = whole(trace([0, 10], [100, 100], [10, 10]), Options(Service(100.0, 0.1))).concurrency
    assert found is not None
    assert found.quality == "simulated"
    assert found.requests.mean == pytest.approx(4 / 12)


SESSION = {
    "blocks": [[0, 1], [0, 1, 2, 3], [0, 1, 2, 3, 4, 5], [0, 6], [7, 8, 9]],
    "session": ["s"] * 5,
    "turn": range(5),
    "pause": [None, "tool", "tool", "user", "tool"],
    "pause_s": [None, 10.0, 400.0, 5.0, 30.0],
    "system_tokens": [8] * 5,
    "tool_schema_tokens": [8] * 5,
    "clock": "session",
}


def made_session() -> Trace:
    return trace([0, 20, 500, 510, 600], [40, 70, 100, 40, 60], [5] * 5, **SESSION)  # type: ignore[arg-type]


def test_sessions_grow_and_are_compacted() -> None:
    found = whole(made_session())
    turns = found.turns
    assert turns is not None
    assert (turns.sessions, turns.turns_p50, turns.compactions) == (1, 5, 1)
    assert (turns.growth_tokens.count, turns.growth_tokens.p50) == (3, 30)
    assert (turns.before_compaction_tokens_p50, turns.after_compaction_tokens_p50) == (100, 40)
    assert turns.reused_after_compaction_ratio == pytest.approx(16 / 40)
    assert [(depth.turn, depth.prompt_tokens_p50) for depth in turns.by_turn] == [(0, 40), (1, 70), (2, 100), (4, 60)]


def test_a_broken_prefix() -> None:
    """The last turn is longer than the one before and shares nothing with it."""
    found = whole(made_session()).revision
    assert found is not None
    assert (found.broken_turns, found.lost_tokens) == (1, 40)
    assert (found.reused_tokens.count, found.reused_tokens.max) == (4, 64)


def test_pauses() -> None:
    tool, user = whole(made_session()).pauses
    assert (tool.kind, tool.seconds.count, tool.seconds.p50) == ("tool", 3, 30)
    assert tool.token_seconds == 45 * 10 + 75 * 400 + 45 * 30
    assert [one.share_of_pauses for one in tool.longer] == pytest.approx([1 / 3, 1 / 3])
    assert tool.longer[1].share_of_token_seconds == pytest.approx(30000 / 31800)
    assert tool.reusable_ratio == pytest.approx((32 + 64 + 0) / (70 + 100 + 60))
    assert (user.kind, user.held_tokens.p50) == ("user", 105)


def test_parts_of_prompts() -> None:
    found = whole(made_session()).parts
    assert (found.system_tokens, found.tool_schema_tokens, found.retrieved_tokens) == (40, 40, None)
    assert found.history_tokens == (32 - 16) + (64 - 16) + 0 + 0
    assert found.other_tokens == 310 - 80 - 64
    untold = whole(trace([0, 1], [10, 20], [1, 1])).parts
    assert (untold.system_tokens, untold.history_tokens, untold.other_tokens) == (None, None, 30)


def test_sessions_without_a_common_clock_have_no_rate() -> None:
    found = cohorts(made_session(), [])
    assert found.duration_s is None
    (own,) = found.cohorts[:1]
    assert own.arrivals.rate_per_s is None
    assert own.arrivals.reason
    assert own.concurrency is None
    assert own.prefix is not None
    assert own.prefix.lru_ratio == {}


def test_prefixes_of_all_cohorts_are_one_cache() -> None:
    made = trace(
        [0, 1, 2], [40, 40, 33], [1] * 3, blocks=[[0, 1], [0, 1], [0, 2]], tenant=["a", "b", "b"], cached_tokens=[0, 32, 16]
    )
    rules = parse_rules('[[cohorts]]\nname = "b"\ntenant = "b"', "made")
    first, second, rest = cohorts(made, rules).cohorts
    assert [one.name for one in (first, second, rest)] == ["all", "b", "other"]
    assert second.prefix is not None
    assert second.prefix.block_ratio == pytest.approx(3 / 4)
    assert second.prefix.token_ratio == second.prefix.engine_ratio == second.prefix.measured_ratio == pytest.approx(48 / 73)
    assert second.prefix.lru_ratio[1000] == second.prefix.token_ratio
    assert second.prefix.physical_tokens is None
    assert first.prefix is not None
    assert (first.prefix.logical_tokens, first.prefix.physical_tokens) == (113, 65)


def test_branches() -> None:
    found = whole(trace([0, 1, 2], [48, 40, 35], [1] * 3, blocks=[[0, 1, 2], [0, 3], [0, 1]])).branches
    assert found is not None
    assert (found.requests, found.copied_blocks_at_most) == (1, 1)
    assert (found.shared_tokens.max, found.suffix_tokens.max) == (16, 24)


def test_the_default_split() -> None:
    by_length = cohorts(trace([0, 1], [10, 99999], [1, 1])).cohorts
    assert [one.name for one in by_length] == ["all", "prompts below 2k", "prompts from 64k"]
    by_agent = cohorts(trace([0, 1], [10, 20], [1, 1], agent=[None, "a"])).cohorts
    assert [one.name for one in by_agent] == ["all", "sessions", "subagents"]
    by_label = cohorts(trace([0, 1], [10, 20], [1, 1], cohort=["chat", "batch"])).cohorts
    assert [one.name for one in by_label] == ["all", "batch", "chat"]


def test_rules(tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(
        """
        [[cohorts]]
        name = "long chat"
        prompt_tokens = { min = 15 }
        session = true
        [[cohorts]]
        name = "models"
        model = ["gpt-*", "x.y"]
        """
    )
    made = trace(
        [0, 1, 2, 3, 4],
        [10, 20, 20, 5, 5],
        [1] * 5,
        session=["s", "s", None, None, None],
        model=[None, None, "gpt-4", "x.y", "xzy"],
    )
    found = cohorts(made, read_rules(path)).cohorts
    assert [(one.name, one.requests) for one in found] == [("all", 5), ("long chat", 1), ("models", 2), ("other", 2)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x", "no TOML"),
        (f"x = {'[' * 5000}", "no TOML"),
        (f"x = {'9' * 5000}", "no TOML"),
        ("a = 1", "no list"),
        ("cohorts = []", "no list"),
        ("[[cohorts]]\nname = 'a'", "needs a name and a condition"),
        ("[[cohorts]]\nturn = { max = 1 }", "needs a name and a condition"),
        ("[[cohorts]]\nname = 'a'\ncolour = 'red'", 'no column "colour"'),
        ("[[cohorts]]\nname = 'a'\nturn = 'red'", "takes a table of min and max"),
        ("[[cohorts]]\nname = 'a'\nturn = { least = 3 }", "takes a table of min and max"),
        (f"[[cohorts]]\nname = 'a'\nturn = {{ max = {2**63} }}", "a bound of more than 63 bits"),
        ("[[cohorts]]\nname = 'a'\ntenant = 3", "takes a pattern"),
        ("[[cohorts]]\nname = 'other'\nturn = { max = 1 }", "two cohorts of one name"),
    ],
)
def test_rules_that_are_none(text: str, said: str) -> None:
    with pytest.raises(OomctlError, match=said) as raised:
        parse_rules(text, "rules.toml")
    assert raised.value.exit_code == ExitCode.USAGE
