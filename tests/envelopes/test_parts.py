"""Lines that a runtime cut into parts, lines that Ray left out, and the times and places that envelopes name."""

import json

import pytest

from oomctl.collectors.artifacts.logs.objects import open_envelope
from oomctl.collectors.artifacts.logs.times import parse_outer
from tests.logs.reading import facts, of_kind, read
from tests.logs.samples import SAMPLES, VLLM, lines

SECOND = 1_000_000
NOON = 1_796_040_000 * SECOND
"""2026-11-30 12:00:00 UTC."""


def in_parts(log: str, size: int, part: str, end: str) -> str:
    out = []
    for line in lines(log):
        pieces = [line[n : n + size] for n in range(0, max(len(line), 1), size)]
        out += [part + piece for piece in pieces[:-1]] + [end + pieces[-1]]
    return "\n".join(out) + "\n"


@pytest.mark.parametrize("engine", SAMPLES)
def test_parts_of_cri_are_one_line(engine: str) -> None:
    stamp = "2026-11-30T12:00:00.123456789Z stderr"
    log = in_parts(SAMPLES[engine], 100, f"{stamp} P ", f"{stamp} F ")
    said = [row[4:] for row in facts(read(log))]
    assert said == [row[4:] for row in facts(read(SAMPLES[engine]))]


def test_parts_are_cited_by_the_first_one() -> None:
    stamp = "2026-11-30T12:00:00.123456789Z"
    log = (
        f"{stamp} stdout F x\n{stamp} stderr P (Worker_TP0 pid=4) INFO 03-14 15:09:26 [a.py:1] Model loading\n"
        f"{stamp} stdout F y\n{stamp} stderr F  took 17.25 GiB memory\n"
    )
    (row,) = [row for row in read(log) if row["kind"] == "memory"]
    assert row["line"] == 2


def test_a_last_part_that_is_missing_is_no_loss() -> None:
    log = (
        "2026-11-30T12:00:00.123456789Z stderr P torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 48.00 MiB.\n"
    )
    assert len(of_kind(read(log), "oom")) == 1


def test_dockers_parts_are_one_line() -> None:
    long = (
        "(APIServer pid=71) INFO 03-14 15:09:26 [utils.py:253] non-default args: {'model': 'm', 'x': '"
        + "y" * 20_000
        + "', "
    )
    long += "'max_model_len': 16384}"
    pieces = [long[:16384], long[16384:] + "\n"]
    log = "".join(json.dumps({"log": piece, "stream": "stdout"}) + "\n" for piece in pieces)
    assert ("argument", "max_model_len") in {(row["section"], row["key"]) for row in of_kind(read(log), "manifest")}


def test_what_ray_left_out_is_a_count() -> None:
    text = "Model loading took 17.25 GiB memory and 5.204 seconds"
    log = f"(RayWorkerWrapper pid=3, ip=10.0.0.2) INFO 03-14 15:09:26 [a.py:1] {text} [repeated 7x across cluster]\n"
    rows = read(log)
    assert [(loss["reason"], loss["count"]) for loss in of_kind(rows, "loss")] == [("left out by Ray as repeated", 7)]
    assert {(row["node"], row["rank_name"]) for row in rows} == {("10.0.0.2", "RayWorkerWrapper")}
    assert len(of_kind(rows, "memory")) == 1


@pytest.mark.parametrize(
    ("text", "moment", "quality"),
    [
        ("2026-11-30T12:00:00Z stderr F ", NOON, "exact"),
        ("2026-11-30T13:00:00.5+01:00", NOON + SECOND // 2, "exact"),
        ("1796040000", NOON, "exact"),
        ("1796040000.25", NOON + SECOND // 4, "exact"),
        ("1796040000250", NOON + SECOND // 4, "exact"),
        ("1796040000250000", NOON + SECOND // 4, "exact"),
        ("1796040000250000000", NOON + SECOND // 4, "exact"),
        ("<11>Nov 30 12:00:00 gpu-07 vllm[2211]: ", NOON, "local"),
        ("[Mon Nov 30 12:00:00 2026] ", NOON, "local"),
        ("E1130 12:00:00.250000   12345 relay.go:12] ", NOON + SECOND // 4, "local"),
        ("2026-11-30 12:00:00,250", NOON + SECOND // 4, "local"),
    ],
)
def test_times_of_envelopes(text: str, moment: int, quality: str) -> None:
    assert parse_outer(text, 2026) == (moment, quality)


@pytest.mark.parametrize(
    "text", ["", "vllm-1  | ", "0000000001", "9999999999999999999999", "Foo 99 12:00:00", "Feb 31 12:00:00"]
)
def test_no_time(text: str) -> None:
    assert parse_outer(text, None) is None


@pytest.mark.parametrize(
    "line",
    [
        '{"messages": [{"role": "user", "content": "x"}], "text": "CUDA out of memory"}',
        '{"role": "user", "text": "CUDA out of memory"}',
        '{"prompt": "x", "message": "CUDA out of memory"}',
        '{"choices": [], "message": "CUDA out of memory"}',
        '{"MESSAGE": [300]}',
    ],
)
def test_requests_and_replies_are_no_envelopes(line: str) -> None:
    assert open_envelope(line) is None


def test_the_traceback_that_a_logging_library_sets_apart_belongs_to_its_message() -> None:
    trace = [line.partition("] ")[2] for line in lines(VLLM) if "[core.py:1108]" in line][1:]
    entry = {"levelname": "ERROR", "message": "EngineCore failed to start.", "exc_info": "\n".join(trace)}
    rows = read(json.dumps(entry) + "\n")
    assert len(of_kind(rows, "oom")) == 1
    assert len(of_kind(rows, "stack")) == 3
