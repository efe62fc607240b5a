"""Tracebacks put together from whatever is left of them."""

import tracemalloc

import pytest

from oomctl.collectors.artifacts.logs.tracebacks import MAX_FRAMES, Assembler, Traceback
from oomctl.schemas.rows import Row
from tests.logs.reading import of_kind, read, reading
from tests.logs.samples import SGLANG, VLLM, lines

MESSAGE = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 48.00 MiB. GPU 0 has a total capacity of 8.00 GiB"


def block(function: str, exception: str) -> str:
    return (
        f'Traceback (most recent call last):\n  File "/srv/a.py", line 12, in {function}\n    {function}(x)\n{exception}\n'
    )


def functions(rows: list[Row]) -> list[list[str]]:
    """The functions of each traceback, in order."""
    stacks: dict[str, list[str]] = {}
    for frame in of_kind(rows, "stack"):
        stacks.setdefault(frame["stack_id"], []).append(frame["function"])
    return list(stacks.values())


CAUSE = "\nThe above exception was the direct cause of the following exception:\n\n"
DURING = "\nDuring handling of the above exception, another exception occurred:\n\n"


@pytest.mark.parametrize("link", [CAUSE, DURING])
def test_chained_exceptions_are_two_tracebacks(link: str) -> None:
    rows = read(block("inner", MESSAGE) + link + block("outer", "ValueError: No available memory for the cache blocks."))
    assert functions(rows) == [["inner"], ["outer"]]
    assert len(of_kind(rows, "oom")) == len(of_kind(rows, "refusal")) == 1


@pytest.mark.parametrize("link", [CAUSE, DURING])
def test_an_exception_that_only_reports_a_death_is_told_once_and_without_its_frames(link: str) -> None:
    rows = read(block("inner", MESSAGE) + link + block("outer", "RuntimeError: Engine core initialization failed."))
    assert functions(rows) == [["inner"]]
    assert [fields["code"] for fields in of_kind(rows, "fault")] == ["engine_dead"]


@pytest.mark.parametrize("link", [CAUSE, DURING])
def test_chained_exceptions_in_headed_lines(link: str) -> None:
    header = "(Worker_TP0 pid=300) ERROR 03-14 15:12:11 [multiproc_executor.py:949] "
    log = block("inner", MESSAGE) + link + block("outer", "RuntimeError: it failed")
    rows = read("".join(f"{header}{line}\n" for line in lines(log)))
    assert functions(rows) == [["inner"]]
    assert len(of_kind(rows, "oom")) == 1
    assert [fields["code"] for fields in of_kind(rows, "fault")] == ["exception"]


def test_two_tracebacks_without_a_link() -> None:
    rows = read(block("first", MESSAGE) + block("second", MESSAGE))
    assert functions(rows) == [["first"], ["second"]]
    assert len(of_kind(rows, "oom")) == 2


def test_headed_first_line_and_bare_continuation() -> None:
    rows = read(SGLANG)
    assert functions(rows) == [["run_scheduler_process", "forward_extend", "forward_cuda"]]
    placed = [row for row in rows if row["kind"] in ("stack", "oom")]
    assert {(row["rank"], row["rank_name"], row["ts_quality"]) for row in placed} == {(1, "TP1", "local")}
    assert [row["line"] for row in placed] == [10, 12, 14, 16]


def test_another_ranks_report_in_the_midst_of_bare_lines() -> None:
    torn = lines(SGLANG)
    torn.insert(11, "[2026-03-14 15:12:07 TP0] Decode batch, #running-req: 9, #token: 250700, token usage: 0.41")
    rows = read("\n".join(torn) + "\n")
    assert functions(rows) == functions(read(SGLANG))
    assert {row["rank"] for row in rows if row["kind"] in ("stack", "oom")} == {1}


@pytest.mark.parametrize("kept", range(1, 5))
def test_a_log_that_ends_inside_a_traceback(kept: int) -> None:
    """GIVEN a log cut before the exception line THEN nothing is claimed."""
    head = "".join(f"{line}\n" for line in block("inner", MESSAGE).split("\n")[:kept])
    assert len(of_kind(read(head), "oom")) == (1 if kept == 4 else 0)


def test_a_log_that_ends_inside_the_exception_line() -> None:
    rows = read(block("inner", MESSAGE).rstrip("\n")[:-20])
    assert of_kind(rows, "oom")[0]["requested_bytes"] == 48 * 2**20
    assert functions(rows) == [["inner"]]


def test_stripped_indentation() -> None:
    """GIVEN a pasted log whose lines lost their indentation THEN the frames are found."""
    log = "".join(f"{line.lstrip()}\n" for line in (block("inner", MESSAGE)).split("\n"))
    rows = read(log)
    assert functions(rows) == [["inner"]]
    assert len(of_kind(rows, "oom")) == 1


def test_stripped_indentation_with_code_that_looks_like_an_exception() -> None:
    log = (
        'Traceback (most recent call last):\nFile "/srv/a.py", line 1, in init\nself.state: State = make()\n'
        + MESSAGE
        + "\n"
    )
    rows = read(log)
    assert of_kind(rows, "stack")[0]["code"] == "self.state: State = make()"
    assert len(of_kind(rows, "oom")) == 1


def test_marks_under_code_and_repeated_frames_are_skipped() -> None:
    marks = "    ^^^^^^^^^\n  [Previous line repeated 995 more times]\n    ~~~~^^^^\n"
    rows = read(block("inner", MESSAGE).replace("inner(x)\n", "inner(x)\n" + marks))
    assert [(frame["function"], frame["code"]) for frame in of_kind(rows, "stack")] == [("inner", "inner(x)")]
    assert len(of_kind(rows, "oom")) == 1


def test_frames_without_code() -> None:
    log = (
        'Traceback (most recent call last):\n  File "<string>", line 1, in <module>\n  File "/srv/a.py", line 2, in go\n'
        + MESSAGE
    )
    assert functions(read(log)) == [["<module>", "go"]]


def test_message_of_several_lines() -> None:
    exception = (
        "RuntimeError: Decode out of memory. Try to lower your batch size.\nTry to allocate 12 tokens.\nAvailable tokens: 3"
    )
    (failure,) = of_kind(read(block("alloc_for_decode", exception)), "oom")
    assert (failure["requested_tokens"], failure["available_tokens"]) == (12, 3)


def test_native_frames_after_the_message_do_not_hide_the_next_failure() -> None:
    native = (
        "Exception raised from malloc at /pytorch/c10/cuda/CUDACachingAllocator.cpp:1234 (most recent call first):\n"
        "frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x96 (0x7f10 in /srv/env/torch/lib/libc10.so)\n"
        "frame #1: <unknown function> + 0x2a1f0 (0x7f11 in /srv/env/torch/lib/libc10_cuda.so)\n"
    )
    rows = read(block("inner", MESSAGE) + native + "\n" + block("second", MESSAGE))
    assert len(of_kind(rows, "oom")) == 2
    assert functions(rows) == [["inner"], ["second"]]


def test_exception_groups() -> None:
    log = f"""\
  + Exception Group Traceback (most recent call last):
  |   File "/srv/app.py", line 5, in main
  |     async with group:
  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/srv/app.py", line 9, in task
    |     step()
    | {MESSAGE}
    +------------------------------------
"""
    rows = read(log)
    (failure,) = of_kind(rows, "oom")
    assert failure["requested_bytes"] == 48 * 2**20
    assert functions(rows)[-1] == ["task"]


def test_a_handled_exception_is_a_fault_at_most() -> None:
    rows = read(block("lookup", "KeyError: 'model'"))
    assert [fields["code"] for fields in of_kind(rows, "fault")] == ["exception"]
    assert of_kind(rows, "stack") == []


def test_a_traceback_stays_with_the_start_of_the_worker_that_printed_it() -> None:
    """GIVEN a worker that died and a new one after it THEN the failure is the first one's, and stands before the start."""
    died = "\n".join(line for line in lines(VLLM) if "EngineDeadError" not in line) + "\n"
    rows = read(died + VLLM.replace("pid=98", "pid=198"))
    first = next(row for row in rows if row["kind"] == "oom")
    assert first["incarnation"] == "1"
    restarted = next(row for row in rows if row["incarnation"] == "2")
    assert first["seq"] < restarted["seq"]


def hostile(frames: int) -> str:
    return "Traceback (most recent call last):\n" + '  File "/srv/a.py", line 12, in f\n    f(x)\n' * frames


def test_endless_traceback_is_bounded() -> None:
    log = hostile(100_000).encode()
    tracemalloc.start()
    try:
        result, rows = reading(log)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert result.lines == 200_001
    assert rows == []
    assert peak < 40 * 2**20


def test_a_failure_at_the_end_of_very_many_frames() -> None:
    rows = read(hostile(400) + MESSAGE + "\n")
    assert len(of_kind(rows, "oom")) == 1
    assert len(of_kind(rows, "stack")) <= MAX_FRAMES


def test_very_many_open_tracebacks_are_bounded() -> None:
    log = "".join(
        f"(Worker_TP{n} pid={n}) ERROR 03-14 15:12:11 [a.py:1] Traceback (most recent call last):\n" for n in range(5000)
    )
    assert read(log + block("inner", MESSAGE))[-1]["kind"] == "oom"


def test_assembler_is_idle_after_a_traceback() -> None:
    assembler = Assembler()
    assert not assembler.busy
    assert list(assembler.finish()) == []
    assert Traceback.__dataclass_fields__["frames"].type
