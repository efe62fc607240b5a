"""What fails inside the agent, and what it puts back."""

from pathlib import Path
from typing import Any

import pytest

from oomctl.collectors.agent.guard import LIMIT, Guard, Patches, pass_more, takes_only
from oomctl.collectors.agent.reader import read_ring, ring_paths
from tests.agent.rings import make_rings


class Engine:
    def step(self, tokens: int) -> int:
        return tokens + 1


def doubling(original: Any) -> Any:
    return lambda tokens: original(tokens) * 2


def test_a_method_is_wrapped_on_one_object_and_put_back() -> None:
    engine, other = Engine(), Engine()
    patches = Patches()
    assert patches.wrap(engine, "step", doubling)
    assert (engine.step(1), other.step(1)) == (4, 2)
    patches.undo()
    assert engine.step(1) == 2
    assert vars(engine) == {}


def test_what_another_wrapped_after_us_stays() -> None:
    engine = Engine()
    patches = Patches()
    patches.wrap(engine, "step", doubling)
    later = Patches()
    later.wrap(engine, "step", lambda original: lambda tokens: original(tokens) + 100)
    patches.undo()
    assert engine.step(1) == 104
    later.undo()


def test_what_is_not_there_is_noted() -> None:
    patches = Patches()
    assert not patches.wrap(Engine(), "sleep", doubling)
    assert patches.absent == ["Engine.sleep"]


def test_a_method_with_more_arguments_gets_them_all() -> None:
    seen: list[object] = []

    def original(output: int, result: int, more: int = 0, *, last: int = 0) -> tuple[int, ...]:
        return output, result, more, last

    def wrapper(output: int, result: int, call: Any = None) -> Any:
        seen.append((output, result))
        return call(output, result)

    assert takes_only(Engine().step, "tokens")
    assert not takes_only(original, "output", "result")
    assert not takes_only(dict, "output"), "it has no signature"
    assert not takes_only(lambda output, *, result: None, "output", "result"), "it takes one of them by name alone"
    wrapped = pass_more(wrapper, original, 2)
    assert wrapped(1, 2, 3, last=4) == (1, 2, 3, 4)
    assert wrapped(1, 2) == (1, 2, 0, 0)
    assert wrapped(output=1, result=2) == (1, 2, 0, 0), "not seen, but not lost"
    assert seen == [(1, 2), (1, 2)]


def test_exceptions_are_counted_told_once_and_too_many_end_it(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    given_up: list[int] = []
    rings = make_rings(tmp_path, capacity=256)
    guard = Guard(rings, lambda: given_up.append(1))
    for number in range(LIMIT + 5):
        try:
            raise ValueError(f"number {number}")
        except ValueError as error:
            guard.failed("somewhere", error)
    (path,) = ring_paths(tmp_path)
    header, batch = read_ring(path)
    assert header.errors == LIMIT + 5 - 1, "the first came before the ring had a file"
    assert [record.values["state"] for record in batch.records] == ["degraded", "failed"]
    assert "ValueError('number 0')" in batch.records[0].values["detail"]
    assert given_up == [1]
    assert capfd.readouterr().err.count("\n") == 2


def test_a_guard_never_raises(tmp_path: Path) -> None:
    def refuse() -> None:
        raise RuntimeError

    guard = Guard(make_rings(tmp_path / "missing"), refuse)
    for _ in range(LIMIT + 1):
        guard.failed("somewhere", KeyError("x"))
    assert guard.errors == LIMIT + 1
