"""Ranks interleaved, progress bars and carriage returns, headers glued to other writers' lines."""

# ruff: noqa: E501  a line of a log is one line

import re

import pytest

from oomctl.collectors.artifacts.logs.headers import rank_of
from oomctl.collectors.artifacts.logs.lines import Lines
from oomctl.collectors.artifacts.logs.record import Record
from tests.logs.reading import facts, of_kind, read
from tests.logs.samples import VLLM, lines, ranked


def record(line: str) -> Record:
    (found,) = Lines().records(1, line)
    return found


@pytest.mark.parametrize(
    ("line", "engine", "process", "pid", "rank_name", "rank", "text"),
    [
        ("INFO 03-14 15:09:26 [core.py:90] x", "vllm", None, None, None, None, "x"),
        ("INFO 11-21 08:30:01 api_server.py:585] x", "vllm", None, None, None, None, "x"),
        ("(Worker_TP3 pid=77) INFO 03-14 15:09:26 [a.py:9] x", "vllm", "Worker_TP3", 77, "Worker_TP3", 3, "x"),
        ("(Worker_DP1_TP3 pid=77) INFO [a.py:9] x", "vllm", "Worker_DP1_TP3", 77, "Worker_DP1_TP3", None, "x"),
        ("(Worker_PP0_TP1 pid=7) INFO [a.py:9] x", "vllm", "Worker_PP0_TP1", 7, "Worker_PP0_TP1", 1, "x"),
        ("(VllmWorker rank=2 pid=8) INFO 03-14 15:09:26 [a.py:9] x", "vllm", "VllmWorker", 8, "VllmWorker rank=2", 2, "x"),
        ("(EngineCore_DP0 pid=98) WARNING 03-14 15:09:26 [v1/a.py:9] x", "vllm", "EngineCore_DP0", 98, "EngineCore_DP0", None, "x"),
        ("(RayWorkerWrapper pid=3, ip=10.0.0.2) INFO 03-14 15:09:26 [a.py:9] x", "vllm", "RayWorkerWrapper", 3, "RayWorkerWrapper", None, "x"),
        ("[2026-03-14 15:09:26 TP1] x", "sglang", None, None, "TP1", 1, "x"),
        ("[2026-03-14 15:09:26 DP2 TP1 EP0] x", "sglang", None, None, "DP2_TP1_EP0", None, "x"),
        ("[TP1] x", "sglang", None, None, "TP1", 1, "x"),
        ("[rank3]: x", None, "rank3", None, "rank3", 3, "x"),
        ("(APIServer pid=71) INFO:     x", None, "APIServer", 71, "APIServer", None, "INFO:     x"),
        ("2026-03-14 15:09:26,004 - ERROR - serve.py:9 - x", "pytorch", None, None, None, None, "x"),
    ],
)  # fmt: skip
def test_who_wrote_a_line(
    line: str, engine: str | None, process: str | None, pid: int | None, rank_name: str | None, rank: int | None, text: str
) -> None:
    found = record(line)
    assert (found.engine, found.process, found.pid, found.rank_name, found.rank) == (engine, process, pid, rank_name, rank)
    assert found.text == text
    assert found.raw == line


@pytest.mark.parametrize(
    ("name", "rank"), [("TP0", 0), ("TP7", 7), ("DP0_TP3", 3), ("DP1_TP3", None), ("PP1_TP0", None), ("rank=5", 5), ("EP3", None)]
)  # fmt: skip
def test_rank_is_given_only_where_it_is_certain(name: str, rank: int | None) -> None:
    assert rank_of(name) == rank


@pytest.mark.parametrize("ranks", [2, 4])
def test_interleaved_ranks(ranks: int) -> None:
    """GIVEN ranks whose lines alternate WHEN each repeats its header THEN each rank's facts and traceback are whole."""
    rows = read(ranked(VLLM, ranks))
    alone = read(VLLM)
    for rank in range(ranks):
        mine = [row for row in rows if row.get("rank_name") == f"Worker_TP{rank}"]
        assert {row["rank"] for row in mine} == {rank}
        frames, expected = of_kind(mine, "stack"), of_kind(alone, "stack")
        assert [frame["function"] for frame in frames] == [frame["function"] for frame in expected]
        assert [frame["code"] for frame in frames] == [frame["code"] for frame in expected]
        assert len({frame["stack_id"] for frame in frames}) == 1
        (failure,) = of_kind(mine, "oom")
        assert failure["stack_id"] == frames[0]["stack_id"]
        assert failure["requested_bytes"] == 448 * 2**20
        assert next(row["device_id"] for row in mine if row["kind"] == "oom") == rank


def test_ranks_that_print_bare_continuation_lines_through_torchrun() -> None:
    block = [
        "Traceback (most recent call last):",
        '  File "/srv/train.py", line 12, in step',
        "    loss.backward()",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 64.00 MiB.",
    ]
    log = "\n".join(f"[rank{rank}]: {line}" for line in block for rank in range(3)) + "\n"
    rows = [row for row in read(log) if row["kind"] in ("oom", "stack")]
    assert [(row["kind"], row["rank"]) for row in rows] == [(kind, rank) for kind in ("stack", "oom") for rank in range(3)]
    stacks, failures = of_kind(rows, "stack"), of_kind(rows, "oom")
    assert [stack["stack_id"] for stack in stacks] == [failure["stack_id"] for failure in failures]


PROGRESS = "Loading safetensors checkpoint shards: 100% Completed | 4/4 [00:03<00:00,  1.24it/s]"


@pytest.mark.parametrize(
    "bar", [PROGRESS, "Capturing CUDA graphs (PIECEWISE):  50%|█████     | 26/51 [00:01<00:01, 20.11it/s]"]
)
@pytest.mark.parametrize("glue", ["", " ", "\r"])
def test_progress_bar_glued_before_a_header(bar: str, glue: str) -> None:
    log = VLLM.replace(
        "(EngineCore_DP0 pid=98) INFO 03-14 15:09:40", f"{bar}{glue}(EngineCore_DP0 pid=98) INFO 03-14 15:09:40"
    )
    assert [row for row in facts(read(log)) if row[4] == "memory"] == [
        row for row in facts(read(VLLM)) if row[4] == "memory"
    ]
    (failure,) = [row for row in read(log) if row["kind"] == "oom"]
    assert failure["rank_name"] == "EngineCore_DP0"


def test_carriage_returns_inside_a_line() -> None:
    bars = "\r".join(
        f"Loading safetensors checkpoint shards: {n:3d}% Completed | {n // 25}/4" for n in (0, 25, 50, 75, 100)
    )
    log = f"\r{bars}\r\n(EngineCore_DP0 pid=98) INFO 03-14 15:09:40 [a.py:1] Model loading took 17.25 GiB memory\r\n"
    rows = read(log)
    assert [(row["line"], row["lifecycle"]["phase"]) for row in rows if row["kind"] == "lifecycle"][-1] == (
        2,
        "weights_loaded",
    )
    assert rows[0]["line"] == 1
    assert [row["log"]["text"] for row in rows if row["kind"] == "log"] == [line.rstrip("\r") for line in lines(log)]


def test_a_writer_that_breaks_into_a_frame_does_not_break_the_traceback() -> None:
    """GIVEN another process's line in the middle of a frame line THEN the traceback goes on."""
    whole = '"/srv/env/vllm/v1/worker/gpu_model_runner.py", line 3027, in execute_model'
    assert whole in VLLM
    torn = VLLM.replace(whole, whole.replace("3027", "30(EngineCore_DP0 pid=98) Process EngineCore_DP0:\n27"))
    frames = of_kind(read(torn), "stack")
    assert [frame["function"] for frame in frames][::2] == ["run_busy_loop", "forward_cuda"]
    assert frames[1]["code"] == "model_output = self._model_forward("
    assert frames[1]["file"].endswith("gpu_model_runner.py")
    (failure,) = of_kind(read(torn), "oom")
    assert failure["stack_id"] == frames[0]["stack_id"]


def test_a_header_inside_a_pasted_text_is_not_a_prefix() -> None:
    log = (
        "(APIServer pid=71) INFO 03-14 15:12:08 [logger.py:39] Received request a-1: prompt: 'why INFO 03-14 15:09:26 "
        "[core.py:90] did', params: None\nwhy INFO is not a level here\n"
    )
    found = [next(iter(Lines().records(1, line))) for line in lines(log)]
    assert found[1].text == "why INFO is not a level here"


@pytest.mark.parametrize(
    "text", ["", " ", "\r", "\x1b[0m", "(", "[", "{", "(a pid=)", "(a pid=99999999999999999999) INFO 1", "\x00" * 50]
)
def test_odd_lines_are_lines(text: str) -> None:
    for found in Lines().records(7, text):
        assert found.line == 7


def test_a_long_line_before_a_header_teaches_no_prefix() -> None:
    log = "x" * 300 + " INFO 03-14 15:09:26 [a.py:1] Model loading took 17.25 GiB memory\n"
    assert len(of_kind(read(log), "memory")) == 1
    assert not re.search("x", record(log.rstrip("\n")[300:]).text)
