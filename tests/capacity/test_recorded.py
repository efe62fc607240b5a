"""The requests of an event table as a trace: rows made here, as an agent, spans and logs give them."""

import json
from pathlib import Path
from typing import Any

import pytest

from oomctl.analyzers.capacity.recorded import recorded_trace
from oomctl.schemas import storage
from oomctl.schemas.errors import OomctlError
from oomctl.schemas.rows import Row, make_row
from oomctl.schemas.trace import Trace
from oomctl.traces import open_trace


def row(seq: int, at_s: float | None, event: str, source: str = "agent", **fields: Any) -> Row:
    common = {"stream": source, "seq": seq, "worker": "w", "incarnation": "1", "source": source}
    if at_s is not None:
        common["ts"] = round((1_800_000_000 + at_s) * 1e6)
    return make_row("request", {"event": event, **fields}, common)


def of_rows(*rows: Row) -> Trace:
    connection = storage.connect()
    try:
        storage.load_rows(connection, rows)
        return recorded_trace(connection, "rows")
    finally:
        connection.close()


def test_requests_from_arrival_to_end() -> None:
    trace = of_rows(
        row(1, 1, "arrived", request_id="a", prompt_tokens=10, max_output_tokens=8, sample_weight=2.0),
        row(2, 2, "scheduled", request_id="a", prompt_tokens=10, cached_tokens=4),
        row(3, 3, "arrived", request_id="b", prompt_tokens=20, tenant="t", adapter="x"),
        row(4, 5, "finished", request_id="a", prompt_tokens=10, output_tokens=6),
        row(5, 6, "cancelled", request_id="b", output_tokens=2),
        row(6, 7, "arrived", request_id="c", prompt_tokens=5),
        row(7, 7, "arrived", request_id="d"),
    )
    names = (
        "request",
        "arrival_s",
        "service_s",
        "prompt_tokens",
        "cached_tokens",
        "output_tokens",
        "status",
        "weight",
        "tenant",
    )
    assert trace.requests.select(names).rows() == [
        ("a", 0.0, 4.0, 10, 4, 6, "ok", 2.0, None),
        ("b", 2.0, 3.0, 20, None, 2, "cancelled", None, "t"),
        ("c", 6.0, None, 5, None, None, "ok", None, None),
    ]
    assert {finding.code: finding.count for finding in trace.findings} == {"unread": 1, "unended": 1}


def test_one_source_tells_where_two_do() -> None:
    agent = [row(n, n, "arrived", request_id=f"r{n}", prompt_tokens=10) for n in range(3)]
    spans = [row(n, n, "arrived", "otlp", request_id=f"s{n}", prompt_tokens=10) for n in range(2)]
    trace = of_rows(*agent, *spans)
    assert len(trace) == 3
    assert next(finding.count for finding in trace.findings if finding.code == "other_sources") == 2


def test_pauses_of_sessions() -> None:
    """Two tools between the first two turns, 10 to 14 s; then nothing but a user."""
    turns = [(0, 10), (15, 20), (50, 60)]
    rows = []
    for n, (start, end) in enumerate(turns):
        common = {"request_id": f"r{n}", "session_id": "s", "prompt_tokens": 10}
        rows += [row(10 * n, start, "arrived", "otlp", **common), row(10 * n + 1, end, "finished", "otlp", **common)]
    tools = [("t1", 10, 12), ("t2", 11, 14)]
    for n, (name, start, end) in enumerate(tools):
        common = {"request_id": name, "session_id": "s"}
        rows.append(row(100 + 2 * n, start, "tool_wait_started", "otlp", **common))
        rows.append(row(101 + 2 * n, end, "tool_wait_ended", "otlp", **common))
    table = of_rows(*rows).requests
    assert table["turn"].to_list() == [0, 1, 2]
    assert table["pause"].to_list() == [None, "tool", "user"]
    assert table["pause_s"].to_list() == [None, 4.0, 30.0]


def test_no_request_with_a_length() -> None:
    with pytest.raises(OomctlError, match="no request with a prompt's length"):
        of_rows(row(1, 1, "arrived", request_id="a"), row(2, None, "arrived", request_id="b", prompt_tokens=3))


def test_spans_in_a_file(tmp_path: Path) -> None:
    def attributes(**values: Any) -> list[dict[str, Any]]:
        return [
            {"key": key, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}}
            for key, value in values.items()
        ]

    given = {
        "gen_ai.request.id": "r1", "gen_ai.usage.prompt_tokens": 83, "gen_ai.usage.completion_tokens": 40,
        "gen_ai.conversation.id": "s",
    }  # fmt: skip
    span = {
        "name": "llm_request", "startTimeUnixNano": "1800000000000000000", "endTimeUnixNano": "1800000002000000000",
        "attributes": attributes(**given),
    }  # fmt: skip
    export = {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}
    path = tmp_path / "spans.jsonl"
    path.write_text(json.dumps(export) + "\n{}no\n")
    problems: list[OomctlError] = []
    table = open_trace([str(path)], problems.append).requests
    names = ("request", "session", "prompt_tokens", "output_tokens", "service_s")
    assert table.select(names).rows() == [("r1", "s", 83, 40, 2.0)]
    assert [problem.what for problem in problems] == [f"{path}: 1 lines are no export of spans, and were left out"]
