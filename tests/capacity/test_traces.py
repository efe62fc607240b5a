"""Each form of a request trace, and each trap in the data, on small files made here."""

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from oomctl.schemas.errors import OomctlError
from oomctl.schemas.trace import Trace
from oomctl.traces import open_trace

Made = Callable[..., Trace]


NO_FIGURES = [("1e400", 2), ("nan", 2), (-5, 2), (1e19, 2), (5, "inf"), (5, -1), ("x", 2), (5, "x"), ("", 2)]


def read(path: Path, problems: list[OomctlError] | None = None) -> Trace:
    return open_trace([str(path)], (problems if problems is not None else []).append)


def found(trace: Trace) -> dict[str, int]:
    return {finding.code: finding.count for finding in trace.findings}


def lines(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows))
    return path


def mooncake(at_ms: int, prompt: int, hashes: list[Any], **more: Any) -> dict[str, Any]:
    return {"timestamp": at_ms, "input_length": prompt, "output_length": 9, "hash_ids": hashes, **more}


def turn(at_s: float, prompt: int, hashes: list[int], **more: Any) -> dict[str, Any]:
    usual = {"type": "n", "model": "m", "out": 7, "input_types": ["tool_result"], "stop": "tool_use", "think_time": 4.0}
    return {"t": at_s, "in": prompt, "hash_ids": hashes, **usual, **more}


def session(name: str, requests: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": name,
        "block_size": 64,
        "hash_id_scope": "local",
        "tool_tokens": 60,
        "system_tokens": 20,
        "requests": requests,
    }


def test_mooncake(tmp_path: Path) -> None:
    trace = read(lines(tmp_path / "t", [mooncake(0, 600, [0, 1]), "", mooncake(1500, 1025, [0, 2, 3]), "{}", "{no"]))
    assert (trace.format, trace.clock) == ("mooncake", "trace")
    assert trace.requests["arrival_s"].to_list() == [0.0, 1.5]
    assert trace.prefixes is not None
    assert [ids.tolist() for ids in trace.prefixes] == [[0, 1], [0, 2, 3]]
    assert found(trace)["unread"] == 2


def test_chats_that_name_the_one_before(tmp_path: Path) -> None:
    """As Bailian's: seconds, and a type."""
    chats = [(1, -1, 0.5), (2, -1, 1.25), (3, 1, 2.5), (4, 3, 61.114), (5, 99, 70.0)]
    rows = [
        {"chat_id": chat, "parent_chat_id": parent, "timestamp": at, "input_length": 9, "output_length": 3, "type": "text"}
        for chat, parent, at in chats
    ]
    table = read(lines(tmp_path / "t", rows)).requests
    assert table["arrival_s"].to_list() == pytest.approx([0.0, 0.75, 2.0, 60.614, 69.5])
    assert table["session"].to_list() == ["1", "2", "1", "1", "99"]
    assert table["turn"].to_list() == [0, 0, 1, 2, 0]
    assert table["cohort"].to_list() == ["text"] * 5


def test_requests_without_times_have_an_order_only(tmp_path: Path) -> None:
    rows = [{"session_id": "s", "input_length": 9 + n, "output_length": 3} for n in range(3)]
    trace = read(lines(tmp_path / "t", rows))
    assert (trace.clock, found(trace)) == ("session", {"no_times": 3})


def test_files_of_one_trace_are_joined_and_said_to_be(tmp_path: Path) -> None:
    for name, at_ms in (("a", 0), ("b", 1000)):
        lines(tmp_path / name, [mooncake(at_ms, 600, [0, 1])])
    trace = read(tmp_path)
    assert (len(trace), found(trace)["joined_files"]) == (2, 2)


def test_a_request_without_blocks(tmp_path: Path) -> None:
    prefixes = read(lines(tmp_path / "t", [mooncake(0, 600, [7, 8]), {"input_length": 3, "hash_ids": None}])).prefixes
    assert prefixes is not None
    assert prefixes.counts.tolist() == [2, 0]


def test_requests_out_of_order_are_sorted_with_their_blocks(tmp_path: Path) -> None:
    trace = read(lines(tmp_path / "t", [mooncake(2000, 600, [7, 8]), mooncake(1000, 512, [7])]))
    assert trace.requests["arrival_s"].to_list() == [0.0, 1.0]
    assert trace.prefixes is not None
    assert [ids.tolist() for ids in trace.prefixes] == [[7], [7, 8]]


@pytest.mark.parametrize("hashes", [["a", "b"], [2**70, 2**70 + 1], [-1, -2], [1.5, 2.5]])
def test_hashes_of_any_spelling_are_numbered(tmp_path: Path, hashes: list[Any]) -> None:
    rows = [mooncake(0, 600, hashes), mooncake(1, 1025, [*hashes, 3])]
    prefixes = read(lines(tmp_path / "t", rows)).prefixes
    assert prefixes is not None
    first, second = (ids.tolist() for ids in prefixes)
    assert first == second[:2]
    assert len({*second}) == 3
    assert prefixes.limit == 3


def test_blocks_are_counted_up_or_down_whatever_a_readme_says(tmp_path: Path) -> None:
    up = read(lines(tmp_path / "up", [mooncake(0, 600, [0, 1]), mooncake(1, 1025, [0, 2, 3])])).prefixes
    down = read(lines(tmp_path / "down", [mooncake(0, 600, [0]), mooncake(1, 1025, [0, 2])])).prefixes
    sixteen = read(lines(tmp_path / "16", [mooncake(0, 33, [0, 1, 2]), mooncake(1, 47, [0, 2, 3])])).prefixes
    assert up is not None and down is not None and sixteen is not None
    assert (up.block_tokens, up.rounding) == (512, "ceil")
    assert (down.block_tokens, down.rounding) == (512, "floor")
    assert (sixteen.block_tokens, sixteen.rounding) == (16, "ceil")


def test_blocks_that_do_not_cover_their_prompt_are_counted(tmp_path: Path) -> None:
    rows = [mooncake(n, 600, [0, 1]) for n in range(5)]
    assert found(read(lines(tmp_path / "t", [*rows, mooncake(9, 9000, [4])])))["odd_blocks"] == 1


def test_quantised_times_are_reported(tmp_path: Path) -> None:
    batched = [mooncake(3000 * (n // 4), 600, [0, 1]) for n in range(40)]
    assert found(read(lines(tmp_path / "t", batched)))["quantised_times"] == 10
    even = [mooncake(750 * n, 600, [0, 1]) for n in range(40)]
    assert "quantised_times" not in found(read(lines(tmp_path / "u", even)))


def test_sessions(tmp_path: Path) -> None:
    inner = [turn(0, 70, [9], input_types=["text"]), turn(3, 140, [9, 10])]
    agent = {"t": 30.0, "type": "subagent", "agent_id": "a1", "tool_tokens": 5, "system_tokens": 6, "requests": inner}
    own = [
        turn(0, 130, [1, 2], input_types=["text"]),
        turn(10, 260, [1, 2, 3, 4]),
        agent,
        turn(32, 300, [1, 2, 3, 4]),
        turn(50, 320, [1, 2, 3, 4, 5], input_types=["text"], stop="end_turn", think_time=60.0),
        turn(60, 200, [1, 2, 6]),
    ]
    trace = read(lines(tmp_path / "t.json", [session("one", own)]))
    table = trace.requests
    assert (trace.format, trace.clock) == ("claude_code", "session")
    assert table["arrival_s"].to_list() == [0.0, 10.0, 30.0, 32.0, 33.0, 50.0, 60.0]
    assert table["agent"].to_list() == [None, None, "a1", None, "a1", None, None]
    assert table["pause"].to_list() == [None, "tool", None, "agent", "tool", "user", None]
    assert table["pause_s"].to_list() == [None, 4.0, None, 4.0, 4.0, 60.0, 4.0]
    assert table["tool_schema_tokens"].to_list() == [60, 60, 5, 60, 5, 60, 60]
    assert trace.prefixes is not None
    assert (trace.prefixes.block_tokens, trace.prefixes.rounding) == (64, "floor")
    assert [len(ids) for ids in trace.prefixes] == [2, 4, 1, 4, 2, 5, 3]
    codes = found(trace)
    assert codes["subagents"] == 2
    assert codes["shrinking_prompts"] == 1
    assert codes["coarse_pauses"] == 5


def test_local_hashes_are_no_hits_of_other_sessions(tmp_path: Path) -> None:
    rows = [session(name, [turn(0, 130 + n, [1, 2])]) for n, name in enumerate(("one", "two"))]
    trace = read(lines(tmp_path / "t.jsonl", rows))
    assert trace.prefixes is not None
    assert set(trace.prefixes.of(0).tolist()) & set(trace.prefixes.of(1).tolist()) == set()
    assert found(trace)["local_hashes"] == 2
    rows = [row | {"hash_id_scope": "global"} for row in rows]
    shared_ids = read(lines(tmp_path / "u.jsonl", rows)).prefixes
    assert shared_ids is not None
    assert shared_ids.of(0).tolist() == shared_ids.of(1).tolist()


def test_copies_of_sessions_are_left_out(tmp_path: Path) -> None:
    requests = [turn(0, 130, [1, 2]), turn(9, 140, [1, 2])]
    archive = tmp_path / "sessions.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        for name, asked in (("a", requests), ("b", requests), ("c", requests[:1])):
            data = json.dumps(session(name, asked)).encode()
            info = tarfile.TarInfo(f"{name}.json")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    trace = read(archive)
    assert (len(trace), trace.requests["session"].n_unique()) == (3, 2)
    assert found(trace)["duplicate_sessions"] == 1
    assert "with their 2 requests" in next(one.text for one in trace.findings if one.code == "duplicate_sessions")


def test_azure(tmp_path: Path) -> None:
    """Seven fractional digits, Windows line ends, no newline at the end."""
    path = tmp_path / "t.csv"
    path.write_bytes(
        b"TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
        b"2023-11-16 18:15:46.6805900,374,44\r\n2023-11-16 18:15:50.9951690,396,109"
    )
    trace = read(path)
    assert (trace.format, trace.start) == ("azure", "2023-11-16 18:15:46.6805900")
    assert trace.requests["arrival_s"].to_list() == pytest.approx([0.0, 4.314579], abs=1e-9)
    assert trace.requests["prompt_tokens"].to_list() == [374, 396]
    assert trace.prefixes is None


def test_times_with_a_zone_and_in_milliseconds(tmp_path: Path) -> None:
    zone = lines(
        tmp_path / "z",
        ["TIMESTAMP,ContextTokens,GeneratedTokens", "2024-05-10T00:00:00.5+00:00,1,2", "2024-05-10 00:00:02Z,1,2"],
    )
    assert read(zone).requests["arrival_s"].to_list() == [0.0, 1.5]
    epoch = lines(tmp_path / "e", ["timestamp,input_tokens,output_tokens", "1700000000500,1,2", "1700000001750,1,2"])
    assert read(epoch).requests["arrival_s"].to_list() == pytest.approx([0.0, 1.25], abs=1e-6)


def test_burstgpt_answers_of_no_token_are_failures(tmp_path: Path) -> None:
    rows = ["Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type"]
    rows += ["5,ChatGPT,472,18,490,Conversation log", "45,GPT-4,90,0,90,API log", "x,GPT-4,90,5,95,API log"]
    trace = read(lines(tmp_path / "t.csv", rows))
    assert trace.format == "burstgpt"
    assert trace.requests["arrival_s"].to_list() == [0.0, 40.0]
    assert trace.requests["status"].to_list() == ["ok", "failed"]
    assert trace.requests["cohort"].to_list() == ["Conversation log", "API log"]
    assert found(trace) == {"failed_requests": 1, "unread": 1}


def test_figures_that_are_none_are_no_requests(tmp_path: Path) -> None:
    rows = [f"{n},m,{prompt},{output}" for n, (prompt, output) in enumerate(NO_FIGURES)]
    trace = read(
        lines(
            tmp_path / "t.csv",
            ["Timestamp,Model,Request tokens,Response tokens", "nan,m,1,2", *rows, "50,m,7,8", "60,m,7,"],
        )
    )
    assert trace.requests.select("prompt_tokens", "output_tokens").rows() == [(7, 8), (7, None)]
    assert found(trace)["unread"] == len(rows) + 1


@pytest.mark.parametrize(
    "text",
    [
        '{"input_length": "many"}\n',
        "TIMESTAMP,ContextTokens,GeneratedTokens\nyesterday,1,2\n",
        '{"id": "x", "hash_id_scope": "local", "requests": [{"in": "many"}]}',
        '{"id": "x", "hash_id_scope": "local", "requests": 7}',
        "TIMESTAMP,ContextTokens,GeneratedTokens\n",
        'TIMESTAMP,ContextTokens,"GeneratedTokens,Model\n1,2,3,a\n',
        '{"input_length": 100000000000000000000, "timestamp": 1}\n',
        '{"id": "x", "hash_id_scope": "local", "requests": ' + "[" * 100_000,
        '{"input_length": 5, "hash_ids": ' + "[" * 100_000 + "\n",
    ],
)
def test_nothing_readable_is_one_clear_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "t"
    path.write_text(text)
    with pytest.raises(OomctlError, match=r"\(.*t\)"):
        read(path)


def test_a_part_that_does_not_belong_is_reported(tmp_path: Path) -> None:
    lines(tmp_path / "a.jsonl", [mooncake(0, 600, [0, 1])])
    (tmp_path / "b.txt").write_text("hello\n")
    problems: list[OomctlError] = []
    trace = read(tmp_path, problems)
    assert len(trace) == 1
    assert [problem.what for problem in problems] == [f"not of the form of the files before it ({tmp_path}/b.txt)"]


def test_no_trace_at_all(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("INFO hello\n")
    with pytest.raises(OomctlError, match="no request"):
        read(path)


def test_where_over_columns(tmp_path: Path) -> None:
    trace = read(lines(tmp_path / "t", [mooncake(n, 600 + n, [0, 1], session_id=n % 2) for n in range(4)]))
    assert trace.where(pl.col("session") == "1").requests["prompt_tokens"].to_list() == [601, 603]
