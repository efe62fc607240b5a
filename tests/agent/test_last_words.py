"""Exceptions that no wrapped method saw: logged by the engine, or leaving its process."""

import logging
import multiprocessing
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from oomctl.collectors.agent import failure
from oomctl.collectors.agent.decode import Record
from oomctl.collectors.agent.kinds import LIFECYCLE, PHASES
from oomctl.collectors.agent.last_words import LIMIT, LastWords
from oomctl.collectors.agent.layout import NULL_I32, pack_texts
from oomctl.collectors.agent.reader import read_ring, ring_paths
from oomctl.collectors.agent.rings import Identity, Rings

FORK = multiprocessing.get_context("fork")
Fault = tuple[str, str, bool | None]


def life(folder: Path, name: str, of_the_engine: Callable[[LastWords, Rings], None]) -> int | None:
    """A child process of that name with the agent in it; its exit code."""

    def run() -> None:
        words = LastWords("engine", lambda role: Rings(folder, Identity(role), 512))
        of_the_engine(words, Rings(folder, Identity("worker"), 512))

    child = FORK.Process(target=run, name=name)
    child.start()
    child.join()
    return child.exitcode


def attached(words: LastWords, rings: Rings) -> None:
    words.attach(rings)
    rings.mine().write(LIFECYCLE, pack_texts(None), PHASES.index("weights_loaded"), NULL_I32, NULL_I32)


def records(folder: Path) -> Iterator[tuple[str, Record]]:
    for path in ring_paths(folder):
        header, batch = read_ring(path)
        yield from ((header.role, record) for record in batch.records)


def faults(folder: Path) -> list[Fault]:
    found = [(role, record.values) for role, record in records(folder) if record.kind.name == "fault"]
    return [(role, f"{values['code']}: {values['detail']}", values["fatal"]) for role, values in found]


def log_caught(error: Exception, name: str = "engine.worker", *, told: bool = True) -> None:
    try:
        raise error
    except Exception:
        logging.getLogger(name).error("it failed to start", exc_info=told)


@pytest.mark.parametrize("told", [True, False], ids=["with the exception", "in its handler"])
def test_a_start_that_ends_in_the_log(tmp_path: Path, told: bool) -> None:
    def start(words: LastWords, rings: Rings) -> None:
        attached(words, rings)
        log_caught(ValueError("no such class"), told=told)

    assert life(tmp_path, "VllmWorker-0", start) == 0
    assert faults(tmp_path) == [
        ("worker", "exception: ValueError: no such class", None),
        ("worker", "engine_dead: the start failed: ValueError: no such class", True),
    ]
    kinds = [record.kind.name for _, record in records(tmp_path)]
    assert kinds[0] == "lifecycle", "the phase that was open stands before"
    assert "stack" in kinds


def test_a_start_that_an_exception_leaves_before_there_was_a_ring(tmp_path: Path) -> None:
    def start(words: LastWords, rings: Rings) -> None:
        raise KeyError("of the engine's own")

    assert life(tmp_path, "EngineCore", start) == 1
    assert faults(tmp_path) == [
        ("core", 'exception: KeyError: "of the engine\'s own"', True),
        ("core", 'engine_dead: the start failed: KeyError: "of the engine\'s own"', True),
    ]


def test_what_a_wrapper_recorded_is_not_recorded_again(tmp_path: Path) -> None:
    def start(words: LastWords, rings: Rings) -> None:
        attached(words, rings)
        error = RuntimeError("CUDA out of memory.")
        failure.record(rings.mine(), error, fatal=True)
        try:
            raise RuntimeError("the worker failed") from error
        except RuntimeError:
            logging.getLogger("engine").exception("it failed to start")

    assert life(tmp_path, "VllmWorker-0", start) == 0
    assert [record.kind.name for _, record in records(tmp_path)].count("oom") == 1
    assert [fault[1] for fault in faults(tmp_path)] == ["engine_dead: the start failed: RuntimeError: the worker failed"]


def test_once_it_is_ready_only_what_failed_is_told(tmp_path: Path) -> None:
    def serve(words: LastWords, rings: Rings) -> None:
        attached(words, rings)
        words.ready = True
        for number in range(LIMIT + 5):
            log_caught(ValueError(f"request {number}"))

    assert life(tmp_path, "VllmWorker-0", serve) == 0
    found = faults(tmp_path)
    assert len(found) == LIMIT
    assert {fault[2] for fault in found} == {None}


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()], ids=["exit", "interrupt"])
def test_an_order_to_end_is_no_failure(tmp_path: Path, error: BaseException) -> None:
    def start(words: LastWords, rings: Rings) -> None:
        attached(words, rings)
        log_caught(ValueError("tried without"))
        raise error

    assert life(tmp_path, "VllmWorker-0", start) != 0
    assert [fault[1] for fault in faults(tmp_path)] == ["exception: ValueError: tried without"]


def test_of_others_nothing_is_recorded(tmp_path: Path) -> None:
    def start(words: LastWords, rings: Rings) -> None:
        log_caught(ValueError("of a library"), "enginelike.part")
        log_caught(ValueError("of a process without memory"))

    assert life(tmp_path, "ApiServer_0", start) == 0
    assert list(tmp_path.iterdir()) == []
