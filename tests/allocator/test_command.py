"""`oomctl snapshot` as a user runs it, and the replayed history behind it."""

import json
import pickle
from pathlib import Path

import pytest

from oomctl.analyzers.allocator.rewind import rewind
from oomctl.analyzers.allocator.timeline import holders_at_end, replay
from oomctl.collectors.artifacts.torch_snapshot.layout import read_document
from tests.allocator.heaps import MIB, block, document, free, oom, segment
from tests.allocator.maker import Run
from tests.allocator.test_model import fragmented
from tests.cli.run import oomctl

A, B = 1 << 40, (1 << 40) + 16 * MIB


def _event(action: str, address: int, size: int, name: str) -> dict[str, object]:
    return {
        "action": action,
        "addr": address,
        "size": size,
        "stream": 0,
        "frames": [{"filename": "m.py", "line": 1, "name": name}],
    }


def _history() -> dict[str, object]:
    trace = [
        _event("segment_alloc", A, 40 * MIB, "load_model"),
        _event("alloc", A, 16 * MIB, "load_model"),
        _event("alloc", B, 24 * MIB - 100, "forward"),
        _event("free_requested", B, 24 * MIB - 100, "forward"),
        _event("free_completed", B, 24 * MIB - 100, "forward"),
        oom(30 * MIB, 0),
    ]
    return document(segment(A, block(16 * MIB), free(24 * MIB)), trace=trace)


def test_the_history_ends_at_the_snapshot_and_peaks_before() -> None:
    snapshot = read_document(_history(), "made", 0)
    timeline = replay(snapshot, 0)
    assert timeline is not None
    assert [size // MIB for size in timeline.allocated_bytes] == [0, 16, 40, 40, 16, 16]
    assert list(timeline.reserved_bytes) == [40 * MIB] * 6
    assert timeline.peak == 2
    peak = rewind(snapshot, 0, timeline.peak)
    held = {peak.frames_of(holder.stack)[0][2]: holder.bytes // MIB for holder in holders_at_end(peak, 0)}
    assert held == {"load_model": 16, "forward": 24}


def test_the_command_tells_the_oom(tmp_path: Path) -> None:
    path = tmp_path / "rank_3.pickle"
    path.write_bytes(pickle.dumps(_history()))
    ran = oomctl("snapshot", str(path), "--json", "--at", "peak", "--by", "component")
    assert ran.code == 0, ran.err
    (found,) = json.loads(ran.out)["snapshots"]
    assert found["rank"] == 3
    assert found["fit"]["cause"] == "exhaustion"
    assert {share["name"]: share["bytes"] // MIB for share in found["holders"]} == {"weights": 16, "activation": 24}
    assert "DID NOT FIT: exhaustion" in oomctl("snapshot", str(path)).out
    assert "WOULD FIT" in oomctl("snapshot", "fit", str(path), "--request", "20MiB").out
    same = oomctl("snapshot", "diff", str(path), str(path), "--json")
    assert json.loads(same.out)["changes"] == []


def test_errors_are_one_line(tmp_path: Path) -> None:
    path = tmp_path / "a.pickle"
    path.write_bytes(pickle.dumps(document()))
    oomctl("snapshot", "fit", str(path)).assert_fails(2, "--request")
    oomctl("snapshot", str(path), "--by", "colour").assert_fails(2, "colour")
    path.write_bytes(b"nothing")
    oomctl("snapshot", str(path)).assert_fails(3, "no snapshot")


def test_whatif(tmp_path: Path) -> None:
    path = tmp_path / "a.pickle"
    path.write_bytes(pickle.dumps(fragmented().document()))
    ran = oomctl("snapshot", "whatif", str(path), "--expandable-segments", "--json")
    assert ran.code == 0, ran.err
    (found,) = json.loads(ran.out)["questions"]
    assert (found["model"]["parted_at"], found["status"]) == (None, "fits")
    path.write_bytes(pickle.dumps({**fragmented().document(), "device_traces": [fragmented().trace[-1:]]}))
    page = oomctl("snapshot", "whatif", str(path), "--expandable-segments").out
    assert "was not reproduced" in page and "FITTED" not in page
    path.write_bytes(pickle.dumps(fragmented().document()))
    page = oomctl("snapshot", "whatif", str(path), "--max-split-size", "40MiB").out
    assert "max_split_size_mb:40" in page and "the model follows all" in page
    oomctl("snapshot", "whatif", str(path)).assert_fails(2, "setting")
    oomctl("snapshot", str(path), "--expandable-segments").assert_fails(2, "whatif")
    oomctl("snapshot", "whatif", str(path), "--roundup-power2-divisions", "3").assert_fails(2, "power of two")


@pytest.mark.parametrize("options", [(), ("--at", "peak"), ("--at", "oom", "--by", "component"), ("--at", "3")])
def test_what_was_imported_reports_the_same(tmp_path: Path, options: tuple[str, ...]) -> None:
    path, kept = tmp_path / "rank_1.pickle", tmp_path / "kept.parquet"
    path.write_bytes(pickle.dumps(fragmented().document()))
    assert oomctl("import", str(path), "-o", str(kept)).code == 0
    assert oomctl("snapshot", str(kept), "--json", *options).out == oomctl("snapshot", str(path), "--json", *options).out


def test_a_recording_without_a_snapshot_is_one_line(tmp_path: Path) -> None:
    log, kept = tmp_path / "a.log", tmp_path / "kept.parquet"
    log.write_text("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n")
    assert oomctl("import", str(log), "-o", str(kept)).code == 0
    oomctl("snapshot", str(kept)).assert_fails(3, "no allocator snapshot")


def leaking() -> dict[str, object]:
    """Steps that give back what they take, and one block a step that nobody does."""
    run = Run()
    run.alloc(40 * MIB, "weights")
    for _ in range(10):
        taken = run.alloc(30 * MIB, "step")
        run.alloc(3 * MIB, "leak")
        assert taken is not None
        run.free(taken)
    return run.document()


def test_a_leak_is_found_by_its_call_site(tmp_path: Path) -> None:
    path = tmp_path / "a.pickle"
    path.write_bytes(pickle.dumps(leaking()))
    grown = json.loads(oomctl("snapshot", "growth", str(path), "--since", "6", "--json").out)
    assert [(change["name"].split()[0], change["blocks"]) for change in grown["changes"] if change["bytes"] > 0] == [
        ("leak", 9)
    ]
    whole = json.loads(oomctl("snapshot", "growth", str(path), "--json").out)
    assert {change["name"].split()[0] for change in whole["changes"]} == {"leak", "load_weights"}
    told = json.loads(oomctl("snapshot", "lifetimes", str(path), "--json").out)["snapshots"][0]["lifetimes"]
    lives = {one["name"].split()[0]: (one["allocations"], one["live"], one["median_events"]) for one in told}
    assert lives == {
        "load_weights": (1, 1, None),
        "leak": (10, 10, None),
        "execute_model": (10, 0, lives["execute_model"][2]),
    }
    assert lives["execute_model"][2] in (3, 4)
    assert "leak" in oomctl("snapshot", "lifetimes", str(path)).out
    oomctl("snapshot", "growth", str(path), "--since", "9", "--at", "3").assert_fails(2, "swap")
    oomctl("snapshot", str(path), "--since", "9").assert_fails(2, "growth")


def test_a_folder_of_ranks(tmp_path: Path) -> None:
    for rank, room in ((0, 200), (1, 400)):
        run = Run(room * MIB)
        run.alloc(150 * MIB, "weights")
        run.alloc(100 * MIB)
        (tmp_path / f"rank_{rank}.pickle").write_bytes(pickle.dumps(run.document()))
    page = oomctl("snapshot", str(tmp_path), "--by", "rank").out.splitlines()
    assert page[0].startswith("RANKS")
    assert (page[1].split()[0], page[1].split()[-1]) == ("0", "exhaustion")
    assert (page[2].split()[0], page[2].split()[-1]) == ("1", "-")


def test_a_history_that_lost_its_oldest_events_says_so(tmp_path: Path) -> None:
    path, kept = tmp_path / "a.pickle", tmp_path / "kept.parquet"
    path.write_bytes(pickle.dumps(document(segment(A, block(MIB)), trace=[oom(512, 0)], trace_alloc_overflowed=True)))
    assert oomctl("import", str(path), "-o", str(kept)).code == 0
    for file in (path, kept):
        assert "lost its oldest events" in oomctl("snapshot", str(file)).out


def test_a_peak_before_the_first_event(tmp_path: Path) -> None:
    path, page = tmp_path / "a.pickle", tmp_path / "a.html"
    heap = segment(A, block(10 * MIB), free(90 * MIB))
    trace = [_event("free_completed", A + 10 * MIB, 90 * MIB, "f"), _event("alloc", A, 10 * MIB, "f")]
    path.write_bytes(pickle.dumps(document(heap, trace=trace)))
    (found,) = json.loads(oomctl("snapshot", str(path), "--at", "peak", "--json").out)["snapshots"]
    assert (found["peak"]["index"], found["peak"]["allocated_bytes"]) == (-1, 90 * MIB)
    assert (found["at"]["allocated_bytes"], found["pending_bytes"]) == (90 * MIB, 90 * MIB)
    assert "before the first event" in oomctl("snapshot", str(path), "--at", "peak", "--html", str(page)).out
    assert "before the first event: 90.00 MiB" in page.read_text(encoding="utf-8")


def test_the_peak_that_is_shown_has_the_unsplit_rests(tmp_path: Path) -> None:
    """A request of 19.5 MiB has a segment of 20 to itself: the rest is too small to be split off."""
    run = Run()
    taken = [run.alloc(19 * MIB + MIB // 2) for _ in range(4)]
    for address in taken:
        assert address is not None
        run.free(address)
    path = tmp_path / "a.pickle"
    path.write_bytes(pickle.dumps(run.document()))
    (found,) = json.loads(oomctl("snapshot", str(path), "--at", "peak", "--json").out)["snapshots"]
    assert found["peak"]["allocated_bytes"] == found["allocated_bytes"] == 80 * MIB
