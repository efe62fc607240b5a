"""How the API server's end is recorded, on a stand-in of vLLM's AsyncLLM."""

from pathlib import Path
from typing import Any

import pytest

from oomctl.collectors.agent.client import ClientWatch
from oomctl.collectors.agent.decode import Record
from oomctl.collectors.agent.reader import read_ring, ring_paths
from tests.agent.rings import make_rings


class Client:
    """As AsyncLLM is where it is wrapped; `shutdown` runs once more when the object goes."""

    def __init__(self, errored: bool = False) -> None:
        self.errored = errored
        self.shutdowns = 0
        self.aborted: list[Any] = []

    def abort(self, request_id: Any, internal: bool = False) -> None:
        self.aborted.append(request_id)

    def shutdown(self, timeout: float | None = None) -> None:
        self.shutdowns += 1


def records(folder: Path) -> list[Record]:
    (path,) = ring_paths(folder)
    return read_ring(path)[1].records


@pytest.mark.parametrize(("errored", "kinds"), [(False, ["draining", "stopped"]), (True, ["engine_dead", "stopped"])])
def test_an_end_is_recorded_once_however_often_it_is_called(errored: bool, kinds: list[str], tmp_path: Path) -> None:
    client = Client(errored)
    ClientWatch(client, make_rings(tmp_path))
    client.shutdown(timeout=1)
    client.errored = not errored
    client.shutdown()
    assert client.shutdowns == 2
    found = [record.values.get("phase") or record.values["code"] for record in records(tmp_path)]
    assert found == ["spawned", *kinds]


def test_hang_ups_are_recorded_by_name_and_passed_on(tmp_path: Path) -> None:
    client = Client()
    ClientWatch(client, make_rings(tmp_path))
    client.abort("one")
    client.abort(name for name in ("two", "three"))
    assert client.aborted == [["one"], ["two", "three"]]
    events = [record.values for record in records(tmp_path) if record.kind.name == "request"]
    assert [(event["request_id"], event["event"]) for event in events] == [
        ("one", "cancelled"), ("two", "cancelled"), ("three", "cancelled"),
    ]  # fmt: skip
