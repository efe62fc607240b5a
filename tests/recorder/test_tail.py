"""A log followed through restarts of the recorder, silence, truncation and rotation."""

import io
import random
from pathlib import Path

import pytest

from oomctl.collectors.artifacts.logs import read_log
from oomctl.collectors.recorder.live import State
from oomctl.collectors.recorder.tail import QUIET_ROUNDS, LogTail
from oomctl.schemas.rows import Row
from tests.scenarios import render_log


def whole(path: Path) -> list[Row]:
    rows = list(read_log(io.BytesIO(path.read_bytes()), str(path)).rows)
    return [row | {"worker": "w"} for row in rows]


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


@pytest.mark.parametrize("name", ["warm_up_capture", "decode_retractions", "recovery_wake_up"])
def test_a_log_is_read_once_however_often_the_recorder_starts(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.log"
    text = render_log(name, seed=2, ranks=2)
    draw = random.Random(name)
    cuts = sorted(draw.sample(range(len(text)), 12))
    rows: list[Row] = []
    state: State = {}
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        append(path, text[start:end])
        tail = LogTail(path, "w", state)
        for _ in range(draw.choice((1, 2))):
            rows += tail.rows(draw.choice((1, 3, 1000)))
            state = tail.at()
        tail.close()
    tail = LogTail(path, "w", state)
    rows += tail.finish()
    assert rows == whole(path)


def test_a_silent_log_gives_its_open_traceback_and_is_still_read_once(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    text = render_log("warm_up_capture", seed=3)
    end = text.index("\n", text.index("OutOfMemoryError")) + 1
    append(path, text[:end])
    tail = LogTail(path, "w", {})
    rows = tail.rows(1000)
    assert not any(row["kind"] == "oom" for row in rows)
    for _ in range(QUIET_ROUNDS + 1):
        rows += tail.rows(1000)
    assert [row["kind"] for row in rows].count("oom") == 1
    state = tail.at()
    append(path, text[end:])
    rows += LogTail(path, "w", state).finish()
    assert len({row["seq"] for row in rows}) == len(rows)
    assert [row["kind"] for row in rows].count("oom") == 1
    assert {row["kind"] for row in rows} == {row["kind"] for row in whole(path)}


def test_what_was_there_before_is_backlog(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("WARNING 03-11 02:42:11 [core.py:1] old\n")
    tail = LogTail(path, "w", {})
    assert tail.backlog
    assert len(tail.rows(10)) == 1
    assert not tail.backlog


def test_a_log_that_comes_later(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    tail = LogTail(path, "w", {})
    assert tail.rows(10) == []
    path.write_text("WARNING 03-11 02:42:11 [core.py:1] new\n")
    assert not tail.backlog
    assert [row["line"] for row in tail.rows(10)] == [1]
    assert tail.rotations == 0


@pytest.mark.parametrize("how", ["renamed", "cut"])
def test_rotation(tmp_path: Path, how: str) -> None:
    path = tmp_path / "a.log"
    line = "WARNING 03-11 02:42:11 [core.py:1] {}\n"
    path.write_text(line.format("a") * 5)
    tail = LogTail(path, "w", {})
    assert len(tail.rows(100)) == 5
    if how == "renamed":
        append(path, line.format("last"))
        path.rename(tmp_path / "a.log.1")
        path.write_text(line.format("b"))
        expected = ["last", "b"]
    else:
        path.write_text(line.format("b"))
        expected = ["b"]
    rows = tail.rows(100)
    assert [row["log"]["text"].split()[-1] for row in rows] == expected
    assert rows[-1]["line"] == 5 + len(expected)
    assert tail.rotations == 1
    # The next recorder cannot read the old bytes again: a new stream begins.
    append(path, line.format("c"))
    after = LogTail(path, "w", tail.at()).rows(100)
    assert [row["log"]["text"].split()[-1] for row in after] == ["c"]
    assert {row["stream"] for row in after} == {f"{path}#2"}
