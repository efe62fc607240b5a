"""`oomctl capacity replay`, `limit` and `pauses`, as a user types them."""

import json
from pathlib import Path

import pytest

from oomctl.analyzers.capacity.replay.machine import Machine
from oomctl.analyzers.capacity.replay.policies import Plan, play
from oomctl.schemas.errors import OomctlError
from tests.capacity.played import workload
from tests.cli.run import oomctl


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """100 requests of 640 tokens, ten a second, half of each prompt common to all."""
    path = tmp_path_factory.mktemp("trace") / "trace.jsonl"
    lines = [
        {
            "timestamp": 100 * number,
            "input_length": 640,
            "output_length": 100,
            "hash_ids": [*range(10), *range(1000 + 10 * number, 1010 + 10 * number)],
            "block_size": 32,
        }
        for number in range(100)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_an_overload_becomes_events_that_triage_reads(trace: Path, tmp_path: Path) -> None:
    kept = tmp_path / "replay.parquet"
    ran = oomctl(
        "capacity",
        "replay",
        str(trace),
        "--blocks",
        "500",
        "--emit",
        str(kept),
        "--json",
        "--cancel-share",
        "0.1",
        "--cancel-after",
        "2",
    )
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)
    whole = found["cohorts"][0]
    assert whole["requests"] == whole["finished"] + whole["cancelled"] == 100 and whole["cancelled"] > 0
    assert whole["preemptions"] > 0 and found["pool"]["peak_blocks"] == 500
    assert whole["hit_tokens"] >= 90 * 320 and found["quality"] == "simulated"
    verdict = json.loads(oomctl("triage", str(kept), "--json").out)["incidents"][0]
    assert (verdict["class"], verdict["resource"], verdict["survived"]) == ("decode_growth", "kv_blocks", True)
    asked = oomctl("query", str(kept), "--json", "-c", "SELECT count(*) AS n FROM request WHERE event = 'preempted'")
    assert json.loads(asked.out)[0]["n"] == whole["preemptions"]


def test_a_policy_prevents_it(trace: Path) -> None:
    ran = oomctl("capacity", "replay", str(trace), "--blocks", "500", "--policy", "forecast")
    assert ran.code == 0, ran.err
    assert "policy forecast" in ran.out and "preempted" not in ran.out


def test_limit_names_what_breaks_first(trace: Path) -> None:
    few = json.loads(oomctl("capacity", "limit", str(trace), "--blocks", "300", "--slo-ttft", "1", "--json").out)
    assert few["breaks_first"] == "memory"
    slow = ("--blocks", "100000", "--prefill-rate", "4000", "--slo-ttft", "1", "--json")
    many = json.loads(oomctl("capacity", "limit", str(trace), *slow).out)
    assert many["breaks_first"] == "slo" and many["value"] is not None
    pool = oomctl("capacity", "limit", str(trace), "--blocks", "2000", "--search", "blocks", "--slo-ttft", "1")
    assert "It holds with at least" in pool.out and "Memory breaks first" in pool.out


def test_what_makes_no_sense_is_one_error(trace: Path) -> None:
    oomctl("capacity", "replay", str(trace), "--blocks", "100", "--block-size", "48").assert_fails(
        2, "stands for 32 tokens"
    )
    with_events = ("--compute", "fixed", "--policy", "known", "--emit", "x.parquet")
    oomctl("capacity", "replay", str(trace), "--blocks", "100", *with_events).assert_fails(2, "only an engine's replay")


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (Plan(Machine(100), "hope"), 'no policy "hope"'),
        (Plan(Machine(100), "quantile:2"), 'no policy "quantile:2"'),
        (Plan(Machine(100), "known:1"), 'no policy "known:1"'),
        (Plan(Machine(100), compute="fixed"), "a policy is needed"),
        (Plan(Machine(100), "known", safety_blocks=100), "safety margin"),
    ],
    ids=lambda value: value.policy if isinstance(value, Plan) else "",
)
def test_a_plan_that_makes_no_sense(plan: Plan, said: str) -> None:
    with pytest.raises(OomctlError, match=said):
        play(workload([(0.0, 10, 10)]), plan)


def test_pauses_of_a_trace_without_sessions(trace: Path) -> None:
    oomctl("capacity", "pauses", str(trace)).assert_fails(3, "no wait for a tool")
