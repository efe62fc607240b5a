"""Snapshots as inputs of triage and import: alone, beside the log of the same worker, and out of a recording."""

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from tests.allocator.heaps import MIB, block, document, free, oom, segment
from tests.allocator.test_model import fragmented
from tests.cli.run import oomctl
from tests.shared import shared

GIB = 1 << 30
LOADS = [{"filename": "/pkg/engine/loader.py", "line": 7, "name": "load_weights"}]
STEPS = [{"filename": "/pkg/vllm/v1/worker/gpu_model_runner.py", "line": 9, "name": "execute_model"}]
LOG = """INFO 03-11 02:42:11 [api_server.py:1044] vLLM API server version 0.9.1
INFO 03-11 02:42:12 [core.py:70] Initializing a V1 LLM engine (v0.9.1) with config: model='m', dtype=torch.bfloat16
INFO 03-11 02:43:11 [api_server.py:99] Application startup complete.
ERROR 03-11 02:44:11 [core.py:398] EngineCore encountered a fatal error.
Traceback (most recent call last):
  File "/pkg/vllm/v1/engine/core.py", line 389, in run_busy_loop
    self._process_engine_step()
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {asked}. GPU 0 has a total capacity of 1.00 GiB of which \
8.00 MiB is free. Including non-PyTorch memory, this process has 1016.00 MiB memory in use. Of the allocated memory \
{allocated} is allocated by PyTorch, and {cached} is reserved by PyTorch but unallocated.
"""


def _holed(holes: int = 8, trace: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    heap = [segment((n + 1) << 40, block(80 * MIB, frames=STEPS), free(24 * MIB)) for n in range(holes)]
    return document(*heap, trace=[oom(64 * MIB, 8 * MIB, frames=STEPS)] if trace is None else trace)


def _put(folder: Path, name: str, what: dict[str, Any]) -> str:
    path = folder / name
    path.write_bytes(pickle.dumps(what))
    return str(path)


def _log(folder: Path, asked: str = "64.00 MiB", allocated: str = "640.00 MiB", cached: str = "192.00 MiB") -> str:
    path = folder / "worker.log"
    path.write_text(LOG.format(asked=asked, allocated=allocated, cached=cached))
    return str(path)


def _incidents(*paths: str) -> list[dict[str, Any]]:
    ran = oomctl("triage", *paths, "--json")
    assert ran.code == 0, ran.err
    found: list[dict[str, Any]] = json.loads(ran.out)["incidents"]
    return found


def test_a_snapshot_alone_is_fragmentation_by_its_blocks(tmp_path: Path) -> None:
    (found,) = _incidents(_put(tmp_path, "snap.pickle", _holed()))
    assert (found["class"], found["resource"]) == ("fragmentation", "device")
    assert (found["requested_bytes"], found["short_bytes"]) == (64 * MIB, 56 * MIB)
    allocator = found["allocator_at_oom"]
    assert allocator["why"] == "fragmentation"
    assert allocator["inactive_bytes"] == 192 * MIB
    assert allocator["largest_free_block_bytes"] == 24 * MIB
    assert found["causes"][0]["cause"] == "fragmentation"


def test_too_few_holes_are_no_fragmentation(tmp_path: Path) -> None:
    (found,) = _incidents(_put(tmp_path, "snap.pickle", _holed(2)))
    assert found["class"] != "fragmentation"
    assert found["allocator_at_oom"]["why"] == "exhaustion"


@pytest.mark.parametrize("frames", [LOADS, STEPS])
def test_what_was_refused_with_room_on_the_device_was_not_short(tmp_path: Path, frames: list[dict[str, Any]]) -> None:
    """A memory fraction that the process set on itself looks so: no snapshot tells of it."""
    heap = document(segment(1 << 40, block(600 * MIB, frames=frames)), trace=[oom(192 * MIB, 78 * GIB, frames=frames)])
    (found,) = _incidents(_put(tmp_path, "snap.pickle", heap))
    assert found["short_bytes"] is None
    assert [cause["cause"] for cause in found["causes"]] == ["driver_refusal"]


def test_the_log_and_the_snapshot_of_one_failure_are_one_incident(tmp_path: Path) -> None:
    log = _log(tmp_path)
    (alone,) = _incidents(log)
    assert alone["class"] != "fragmentation"
    (found,) = _incidents(log, _put(tmp_path, "snap.pickle", _holed()))
    assert (found["class"], found["worker"]) == ("fragmentation", log)
    assert found["engine"] == "vllm"
    assert found["cascade"] is None  # the snapshot's entry is the same failure
    assert {cite["stream"] for cite in found["evidence"][-1]["cites"]} == {str(tmp_path / "snap.pickle")}
    margins = {m["cause"]: m["reclaim_bytes"] for m in found["allocator_at_oom"]["margins"]}
    assert margins["fragmentation"] == 192 * MIB
    assert margins["non_torch"] is not None  # only the log tells what the process had


def test_a_snapshot_that_asked_for_something_else_is_another_incident(tmp_path: Path) -> None:
    assert len(_incidents(_log(tmp_path, asked="512.00 MiB"), _put(tmp_path, "snap.pickle", _holed()))) == 2


def test_the_newest_failure_of_a_log_has_the_snapshot(tmp_path: Path) -> None:
    log = _log(tmp_path)
    Path(log).write_text(Path(log).read_text() * 2)
    found = _incidents(log, _put(tmp_path, "snap.pickle", _holed()))
    assert [one["allocator_at_oom"]["why"] for one in found][-1] == "fragmentation"


@pytest.mark.parametrize(
    ("name", "heap", "expected"),
    [
        ("oom_snapshot.pickle", [block(600 * MIB, frames=LOADS), free(2 * MIB)], 1),
        ("cuda-oom.rank3.pickle", [block(600 * MIB, frames=LOADS), free(2 * MIB)], 1),
        ("no_oom_after_fix.pickle", [block(600 * MIB, frames=LOADS), free(2 * MIB)], 0),
        ("before-OOM.pickle", [block(600 * MIB, frames=LOADS), free(2 * MIB)], 0),
        ("zoom.pickle", [block(600 * MIB, frames=LOADS), free(2 * MIB)], 0),
        ("snapshot.pickle", [block(600 * MIB, frames=LOADS), free(2 * MIB)], 0),
        ("oom_snapshot.pickle", [free(20 * MIB)], 0),  # the cache was not flushed: nothing had failed
    ],
)
def test_a_failure_of_which_no_entry_was_kept(tmp_path: Path, name: str, heap: list[Any], expected: int) -> None:
    found = _incidents(_put(tmp_path, name, document(segment(1 << 40, *heap))))
    assert len(found) == expected
    if found:
        assert (found[0]["class"], found[0]["allocator_at_oom"]["why"]) == ("load_time", "exhaustion")
        assert found[0]["confidence"] < 0.75


def test_a_history_that_kept_more_and_no_failure_tells_that_nothing_failed(tmp_path: Path) -> None:
    heap = segment(1 << 40, block(600 * MIB, frames=LOADS), free(2 * MIB))
    for kept, expected in ((1, 1), (2, 0)):
        trace: list[dict[str, Any]] = [{"action": "snapshot", "size": 5, "stream": 0}] * kept
        assert len(_incidents(_put(tmp_path, "oom_check.pickle", document(heap, trace=trace)))) == expected


def test_a_recording_of_it_gives_the_same_verdict(tmp_path: Path) -> None:
    trace = [
        {"action": "alloc", "addr": 1 << 40, "size": 5, "stream": 0, "time_us": 1_700_000_000_000_000, "frames": STEPS},
        oom(64 * MIB, 8 * MIB, frames=STEPS),
    ]
    path = _put(tmp_path, "rank_1.pickle", _holed(trace=trace))
    kept = str(tmp_path / "kept.parquet")
    assert oomctl("import", path, "-o", kept).code == 0
    assert _incidents(kept) == _incidents(path)
    asked = oomctl(
        "query", kept, "-c", "SELECT n, action, address, rank, ts IS NULL AS t FROM alloc ORDER BY n", "--format", "csv"
    )
    assert asked.out.splitlines()[1:] == ["0,alloc,0x10000000000,1,false", "1,oom,,1,false"]


def test_the_shared_ones() -> None:
    folder = shared("data", "snapshots")
    (found,) = _incidents(str(folder / "yiyi-llm-inference" / "oom_snapshot.pickle"))
    assert (found["class"], found["allocator_at_oom"]["why"]) == ("load_time", "exhaustion")
    assert found["allocator_at_oom"]["inactive_bytes"] < 5 * MIB
    assert found["allocator_at_oom"]["components"].keys() == {"weights"}
    others = [path for path in folder.glob("*/*") if "oom" not in path.name]
    assert others and _incidents(*map(str, others)) == []


def test_what_came_after_the_failure_is_undone(tmp_path: Path) -> None:
    """The handler of the failure freed what held the memory, and went on: the fit test sees the heap before that."""
    run = fragmented()
    (alone,) = _incidents(_put(tmp_path, "then.pickle", run.document()))
    for address in list(run.allocator.live):
        run.free(address)
    run.allocator.flush()
    for _ in range(3):
        run.alloc(30 * MIB)
    (found,) = _incidents(_put(tmp_path, "later.pickle", run.document()))
    assert (found["class"], found["causes"][0]["bytes"]) == (alone["class"], alone["causes"][0]["bytes"])
    assert found["class"] == "fragmentation"
    for name in ("pools", "margins", "components", "largest_free_block_bytes"):
        assert found["allocator_at_oom"][name] == alone["allocator_at_oom"][name]


@pytest.mark.parametrize("time_us", [253_402_300_800_000_000, 2**63 - 1, 2**64])
def test_a_time_beyond_all_calendars_is_none(tmp_path: Path, time_us: int) -> None:
    path = _put(tmp_path, "snap.pickle", _holed(trace=[oom(64 * MIB, 8 * MIB, frames=STEPS, time_us=time_us)]))
    (found,) = _incidents(path)
    assert (found["class"], found["ts"]) == ("fragmentation", None)
    kept = tmp_path / "kept.parquet"
    assert oomctl("import", path, "-o", str(kept)).code == 0
    assert _incidents(str(kept)) == [found]
