"""The rows of a stream are numbered in the order of its lines, however late a line is understood."""

import itertools
import random

import pytest

from oomctl.collectors.artifacts.logs import order
from oomctl.collectors.artifacts.logs.order import Order
from oomctl.collectors.artifacts.logs.record import Record
from tests import scenarios
from tests.logs.reading import of_kind, read

HEAD = "(Worker_TP{0} pid={0}) ERROR 03-14 15:09:26 [worker.py:7] "
THROUGHPUT = (
    "(APIServer pid=9) INFO 03-14 15:09:27 [loggers.py:259] Engine 000: Avg prompt throughput: 1.0 tokens/s, "
    "Avg generation throughput: 2.0 tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 3.0%"
)
TRACEBACK = (
    "Traceback (most recent call last):",
    '  File "/x/vllm/worker.py", line 7, in execute_model',
    "    self.run()",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 48.00 MiB.",
)


def assert_ordered(log: str | bytes) -> None:
    rows = read(log)
    assert [row["seq"] for row in rows] == list(range(1, len(rows) + 1))
    lines = [row["line"] for row in rows]
    assert lines == sorted(lines)


def test_lines_of_others_wait_for_a_traceback_that_began_before() -> None:
    lines = [f"{HEAD.format(0)}{TRACEBACK[0]}"]
    for part in TRACEBACK[1:]:
        lines += [THROUGHPUT, f"{HEAD.format(0)}{part}"]
    lines += [THROUGHPUT] * 100
    log = "\n".join(lines) + "\n"
    assert_ordered(log)
    rows = read(log)
    assert len(of_kind(rows, "throughput")) == 103
    assert [row["line"] for row in rows if row["kind"] == "oom"] == [7]


@pytest.mark.parametrize("seed", range(8))
def test_tracebacks_of_several_ranks_interleaved(seed: int) -> None:
    rng = random.Random(seed)
    parts = [iter([f"{HEAD.format(rank)}{part}" for part in TRACEBACK]) for rank in range(4)]
    parts.append(itertools.repeat(THROUGHPUT, 20))
    lines = []
    while parts:
        chosen = rng.choice(parts)
        line = next(chosen, None)
        if line is None:
            parts.remove(chosen)
        else:
            lines.append(line)
    assert_ordered("\n".join(lines) + "\n")


@pytest.mark.parametrize("scenario", [scenario.name for scenario in scenarios.catalogue()])
def test_scenarios_of_several_ranks(scenario: str) -> None:
    for engine in ("vllm", "sglang"):
        assert_ordered(scenarios.render_log(scenario, engine=engine, ranks=4, seed=5).encode())


def test_what_waits_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order, "MAX_WAITING", 10)
    waiting = Order()
    given = 0
    for number in range(2, 100):
        waiting.put((Record(number, "", ""), [], None))
        given += len(list(waiting.before(1)))
    assert given == 98 - 10
