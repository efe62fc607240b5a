"""The reader: every layout, and nothing that a file says is ever run."""

import pickle
from pathlib import Path
from typing import Any

import pytest

from oomctl.analyzers.allocator.state import pools
from oomctl.collectors.artifacts.torch_snapshot import load_snapshot
from oomctl.collectors.artifacts.torch_snapshot.layout import read_document
from oomctl.schemas.errors import OomctlError
from tests.allocator.heaps import MIB, block, document, free, segment
from tests.cli.run import oomctl
from tests.shared import shared

FRAME = {"filename": "model.py", "line": 3, "name": "forward"}
DOCUMENT = document(
    segment(1 << 40, block(12 * MIB, frames=[FRAME]), free(8 * MIB)),
    trace=[{"action": "alloc", "addr": 1 << 40, "size": 12 * MIB, "stream": 0, "time_us": 1, "frames": [dict(FRAME)]}],
    expandable_segments=False,
)


class Evil:
    """Would leave a file behind."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.mark,))


def _write(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    return str(path)


def test_bare_list_and_history_blocks(tmp_path: Path) -> None:
    old = segment(4096, free(512), block(1024))
    for entry in old["blocks"]:
        del entry["address"], entry["frames"]
    old["blocks"][1]["history"] = [{"addr": 4608, "real_size": 1000, "frames": [FRAME]}]
    for key in ("segment_pool_id", "is_expandable", "frames"):
        del old[key]
    read = load_snapshot(_write(tmp_path / "a", pickle.dumps([old]))).segments[0]
    assert [entry.address for entry in read.blocks] == [4096, 4608]
    assert read.blocks[1].stack == 0


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x04cos\nsystem\n(S'true'\ntR.",
        b"cbuiltins\neval\n(S'1'\ntR.",
        b"\x80\x04\x8c\x08builtins\x8c\x04exec\x93\x8c\x011\x85R.",  # the same by STACK_GLOBAL
        b"(S'1'\nios\nsystem\n.",  # INST
        b"\x80\x02}N\x85R.",  # REDUCE of what is no name
        b"\x80\x02}}b.",  # BUILD of a dictionary
        b"\x80\x05\x97.",  # a buffer from outside
        b"\x80\x02}U\x01xP1\n.",
        b"\x80\x04\x8c\x01xQ.",
        b"\x80\x02}r\xff\xff\xff\x7f.",  # a memo index that asks for 32 GiB
        b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\x00\x00.",  # bytes of that length
        b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\x00\x00}.",  # a frame of that length
        b"\x80\x05\x96\xff\xff\xff\xff\xff\xff\x00\x00.",  # a bytearray of it, at which pickle itself prints a line
        b"[" * 100_000,
        b"\x80\x02" + b"](" * 50_000,
        b"\x80\x02(" * 1000,
        b"\x80\x04\x82\x01.",
        b"\x80\x02}]s.",
        b"",
        b"not a snapshot",
    ],
)
def test_hostile_bytes_are_one_error(tmp_path: Path, data: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(OomctlError) as caught:
        load_snapshot(_write(tmp_path / "a", data))
    assert "\n" not in caught.value.what
    assert capsys.readouterr() == ("", "")


def test_parts_repeated_by_reference_are_cut_off(tmp_path: Path) -> None:
    trace = [{"action": "alloc", "size": 1}] * 3000
    with pytest.raises(OomctlError, match="repeats"):
        load_snapshot(_write(tmp_path / "a", pickle.dumps({"segments": [], "device_traces": [trace] * 3000})))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("size", -1),
        ("size", 2**70),
        ("size", "1"),
        ("size", True),
        ("size", 2**63 - 1),
        ("state", "gone"),
        ("state", ["x"]),
        ("frames", {"a": 1}),
    ],
)
def test_wrong_types_are_one_error(tmp_path: Path, key: str, value: Any) -> None:
    bad = pickle.loads(pickle.dumps(DOCUMENT))
    bad["segments"][0]["blocks"][0][key] = value
    with pytest.raises(OomctlError, match="not a snapshot"):
        load_snapshot(_write(tmp_path / "a", pickle.dumps(bad)))


def test_real_files_add_up() -> None:
    files = sorted(shared("data", "snapshots").glob("*/*.pickle"))
    assert len(files) == 8
    for path in files:
        snapshot = load_snapshot(str(path))
        assert snapshot.problems == []
        for device in snapshot.devices:
            for pool in pools(snapshot, device):
                assert pool.reserved_bytes == pool.allocated_bytes + pool.pending_bytes + pool.inactive_bytes
                assert pool.inactive_bytes == pool.releasable_bytes + pool.split_bytes


def test_the_command_tells_a_payload_in_one_line(tmp_path: Path) -> None:
    """By every door that takes a snapshot; what a payload would have done was not done."""
    mark = tmp_path / "ran"
    path = _write(tmp_path / "oom_snapshot.pickle", pickle.dumps({**DOCUMENT, "extra": Evil(mark)}))
    kept = str(tmp_path / "a.parquet")
    for command in (("snapshot", path), ("snapshot", "diff", path, path), ("triage", path), ("import", path, "-o", kept)):
        oomctl(*command).assert_fails(3, "refused")
    assert not mark.exists()


def test_triage_of_a_cut_file_is_one_line(tmp_path: Path) -> None:
    data = pickle.dumps(DOCUMENT)
    for end in range(2, len(data), 97):
        ran = oomctl("triage", _write(tmp_path / "a.pickle", data[:end]))
        assert (ran.code, len(ran.err.splitlines())) == (3, 2), ran.err  # what, and a hint


def test_frames_nested_too_deep_to_compare_are_one_error() -> None:
    """Two stacks with the same ends, and between them containers that hold containers: comparing would recurse."""
    ends = [dict(FRAME), dict(FRAME)]
    trace = []
    for _ in range(2):
        inner: list[Any] = []
        for _ in range(50_000):
            inner = [inner]
        trace.append({"action": "alloc", "addr": 1, "size": 1, "stream": 0, "frames": [ends[0], inner, ends[1]]})
    with pytest.raises(OomctlError, match="nested too deep"):
        read_document({"segments": [], "device_traces": [trace]}, "made", 1 << 20)


@pytest.mark.parametrize("position", [0, 1])
def test_stacks_that_differ_in_the_middle_stay_apart(position: int) -> None:
    """They have the same ends and the same length, so that only comparing tells them apart."""
    frames = [{"filename": f"{n}.py", "line": n, "name": "f"} for n in range(12)]
    stacks = [[frames[0], *([frames[n]] * (1 + position)), frames[11]] for n in (3, 4, 3, 5, 4)]
    trace = [{"action": "alloc", "addr": 1, "size": 1, "stream": 0, "frames": list(stack)} for stack in stacks]
    trace.append({"action": "alloc", "addr": 1, "size": 1, "stream": 0})
    snapshot = read_document({"segments": [], "device_traces": [trace]}, "made", 1 << 20)
    told = [[file for file, _, _ in snapshot.frames_of(stack)] for stack in snapshot.histories[0].stacks]
    assert told == [*([frame["filename"] for frame in stack] for stack in stacks), []]
    assert len(snapshot.stacks) == 3


def test_sizes_that_no_device_has_are_one_error(tmp_path: Path) -> None:
    trace = [{"action": "alloc", "addr": 1, "size": 2**62 + n, "stream": 0} for n in range(4)]
    path = _write(tmp_path / "a.pickle", pickle.dumps(document(segment(4096, free(512)), trace=trace)))
    for command in (("snapshot", path), ("snapshot", "lifetimes", path), ("triage", path)):
        oomctl(*command).assert_fails(3, "add up")
