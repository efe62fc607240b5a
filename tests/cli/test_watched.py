"""Whom top watches: workers that come later, those that go, and those whose page comes up while they load."""

from collections.abc import Iterator
from typing import Any

import pytest

from oomctl import watched as module
from oomctl.collectors.live.discover.workers import Worker
from oomctl.collectors.recorder.clock import Clock
from oomctl.schemas.errors import OomctlError
from oomctl.targets import Target
from oomctl.watched import LOOK_S, Watched

PAGE = "http://127.0.0.1:8000/metrics"


class Node:
    """Its workers, with their pages; and what is watched of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pages: dict[int, str | None] = {}
        self.now_s = 0.0
        self.open: list[tuple[int, str | None]] = []
        self.clock = Clock(monotonic_s=lambda: self.now_s)
        monkeypatch.setattr(module, "workers", self.workers)
        monkeypatch.setattr(module, "of_worker", lambda worker: Target(worker.pid, metrics=self.pages[worker.pid]))
        monkeypatch.setattr(module, "Watching", self.watching)

    def workers(self) -> list[Worker]:
        return [Worker("vllm", pid, orphan=pid < 0, command="vllm serve m") for pid in self.pages]

    def watching(self, pid: int, rings: Any, metrics: str | None, visible: Any, clock: Any) -> Any:
        node = self

        class Stub:
            def __init__(self) -> None:
                node.open.append((pid, metrics))

            def rows(self) -> Iterator[Any]:
                return iter([{"pid": pid}])

            def close(self) -> None:
                node.open.remove((pid, metrics))

        return Stub()


def pids(watched: Watched) -> list[int]:
    return [row["pid"] for row in watched.rows()]


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Node:
    return Node(monkeypatch)


def test_a_worker_that_is_started_again_is_found(node: Node) -> None:
    node.pages = {7: PAGE, -1: None}
    watched = Watched(None, node.clock)
    assert pids(watched) == [7], "an orphan serves nobody"
    node.pages = {8: None}
    assert pids(watched) == [7], "it is not looked for at every turn"
    node.now_s += LOOK_S
    assert pids(watched) == [8]
    assert node.open == [(8, None)]
    node.pages = {8: PAGE}
    node.now_s += LOOK_S
    assert len(list(watched.rows())) == len(watched) == 1
    assert node.open == [(8, PAGE)], "its page is there once it has loaded"
    watched.close()
    assert node.open == []


def test_nobody(node: Node) -> None:
    with pytest.raises(OomctlError, match="no worker"):
        Watched(None, node.clock)
