"""Loads that are planned, and what aiperf's records make of them."""

import json
from pathlib import Path
from typing import Any

import pytest

from oomctl.experiment.lengths import lengths_of, usual_lengths
from oomctl.experiment.load.aiperf import find
from oomctl.experiment.load.calls import IDS, Call, Lengths, plan
from oomctl.experiment.load.records import Records
from oomctl.schemas.errors import OomctlError
from tests.cli.run import oomctl

START_NS = 1_796_054_600_000_000_000
LENGTHS = Lengths("mixed", [(100, 10), (50, 20)])


def record(number: int, issued_s: float, metrics: dict[str, float], **told: Any) -> str:
    """A line of profile_export.jsonl, as aiperf 0.13.0 wrote it, cut to what is read and its neighbours."""
    issued = START_NS + round(issued_s * 1e9)
    metadata = {
        "session_num": number, "conversation_id": str(number), "turn_index": 0, "credit_issued_ns": issued,
        "request_start_ns": issued + 1_000_000, "request_end_ns": issued + 501_000_000, "was_cancelled": False,
        "benchmark_phase": "profiling",
    }  # fmt: skip
    error = told.pop("error", None)
    values = {name: {"value": value, "unit": "ms"} for name, value in metrics.items()}
    line = {"metadata": metadata | told, "metrics": values} | ({"error": error} if error is not None else {})
    return json.dumps(line) + "\n"


def test_records_become_answers_while_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "profile_export.jsonl"
    calls = [Call(0.5 * number, bytes(IDS[:8]), 11) for number in range(4)]
    records = Records(path, calls)
    assert records.take() == []
    good = {"time_to_first_token": 100.0, "usage_completion_tokens": 11, "inter_chunk_latency": 40.0}
    # The second is told first, and was issued 20 ms late; the file ends in the middle of a line.
    lines = [record(1, 0.52, good), record(0, 0.0, {}, was_cancelled=True, error={"code": 499, "message": "cancelled"})]
    path.write_text(lines[0] + lines[1][:40], encoding="utf-8")
    assert [answer.state for answer in records.take()] == ["finished"]
    failed = record(2, 1.0, {}, error={"type": "ClientError", "message": "status 500"})
    path.write_text(lines[0] + lines[1] + failed, encoding="utf-8")
    records.take()
    assert not records.complete
    answers = sorted(records.answers(), key=lambda answer: answer.due_s)
    assert [answer.state for answer in answers] == ["cancelled", "finished", "failed", "stopped"]
    finished = answers[1]
    # From the moment at which it was due: 20 ms late, 1 ms until it was sent, 100 ms of its own.
    assert finished.ttft_s == pytest.approx(0.121)
    assert finished.tpot_s == pytest.approx(0.4 / 10)
    assert (answers[2].error, answers[3].first_s) == ("status 500", None)


def test_a_plan_is_the_same_for_the_same_seed_and_no_two_prompts_are(tmp_path: Path) -> None:
    calls = plan(LENGTHS, 10.0, 5.0, seed=1)
    assert calls == plan(LENGTHS, 10.0, 5.0, seed=1)
    assert len(calls) == 50
    assert len({call.prompt for call in calls}) == 50
    assert [call.due_s for call in calls] == sorted(call.due_s for call in calls)
    assert {(len(call.prompt), call.output_tokens) for call in calls} == set(LENGTHS.pairs)
    assert min(byte for call in calls for byte in call.prompt) >= 16
    # The same load, of which no prefix cache knows anything.
    other = plan(LENGTHS, 10.0, 5.0, seed=1, content=1)
    assert [(call.due_s, len(call.prompt)) for call in other] == [(call.due_s, len(call.prompt)) for call in calls]
    assert not {call.prompt for call in other} & {call.prompt for call in calls}
    # Another seed draws other places, and asks for as much.
    drawn = plan(LENGTHS, 10.0, 5.0, seed=2)
    assert [call.due_s for call in drawn] != [call.due_s for call in calls]
    assert sum(call.output_tokens for call in drawn) == sum(call.output_tokens for call in calls)
    shared = plan(LENGTHS, 10.0, 5.0, seed=1, shared_tokens=30)
    assert len({call.prompt[:30] for call in shared}) == 1
    assert len({call.prompt for call in shared}) == 50


@pytest.mark.parametrize("most", [64, 1024, 131_072])
def test_usual_lengths_fit_the_model(most: int) -> None:
    for lengths in usual_lengths(most).values():
        assert all(prompt >= 1 and output >= 1 and prompt + output <= most for prompt, output in lengths.pairs)


def test_lengths_come_from_a_trace_or_its_cohorts(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    rows = [{"timestamp": n * 100, "input_length": 100 + n, "output_length": 10 + n, "hash_ids": []} for n in range(200)]
    trace.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    found = lengths_of(str(trace), 250, seed=0)
    assert max(prompt + output for prompt, output in found["mixed"].pairs) == 250, "cut to what the model takes"
    assert len(found["short"].pairs) == 50
    assert max(map(sum, found["short"].pairs)) <= min(sorted(map(sum, found["mixed"].pairs))[49:])
    cohorts = tmp_path / "cohorts.json"
    cohorts.write_text(oomctl("capacity", "cohorts", str(trace), "--json").out, encoding="utf-8")
    drawn = lengths_of(str(cohorts), 4096, seed=0)["mixed"].pairs
    middle = sorted(prompt for prompt, _ in drawn)[len(drawn) // 2]
    assert middle == pytest.approx(199.5, rel=0.1)


def test_without_aiperf_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OOMCTL_AIPERF")
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    with pytest.raises(OomctlError, match="aiperf") as error:
        find()
    assert error.value.hint is not None
    assert "oomctl[experiment]" in error.value.hint
