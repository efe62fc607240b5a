"""Live files: what is read of them whatever was cut off, damaged or not yet written."""

import io
import os
import resource
import stat
import zlib
from pathlib import Path

import msgspec
import pytest
import zstandard

from oomctl.collectors.agent.kinds import STEP
from oomctl.collectors.recorder.folder import Folder, is_recording
from oomctl.collectors.recorder.live import (
    FRAME,
    MAGIC,
    MAX_ROW_BYTES,
    MAX_ROWS,
    Frame,
    Header,
    LiveWriter,
    apply,
)
from oomctl.collectors.recorder.live_reader import LiveReader
from oomctl.collectors.recorder.slots import WIDTH
from oomctl.schemas.errors import OomctlError
from oomctl.schemas.rows import Row


def header(**changes: object) -> Header:
    values = {"writer": "test", "worker": "w", "node": "n", "number": 7, "ts": 1, "at": {"ring": [3, 4]}}
    return Header(**(values | changes))  # type: ignore[arg-type]


def written(path: Path, frames: int = 5) -> list[int]:
    """A file of so many frames; where each ends."""
    writer = LiveWriter(path, header())
    ends = [writer.size_bytes]
    for number in range(frames):
        rows = [{"stream": "s", "seq": number, "kind": "step", "step": {"step_id": number}}]
        writer.append(Frame(rows=rows, at={"ring": [number]}))
        ends.append(writer.size_bytes)
    writer.close()
    return ends


def read(data: bytes) -> tuple[list[Frame], int]:
    reader = LiveReader(io.BytesIO(data), "a.live")
    return list(reader.frames()), reader.torn_bytes


def test_what_is_written_is_read(tmp_path: Path) -> None:
    written(tmp_path / "a.live")
    reader = LiveReader(io.BytesIO((tmp_path / "a.live").read_bytes()), "a.live")
    assert reader.header == header()
    frames = list(reader.frames())
    assert [frame.rows[0]["seq"] for frame in frames] == list(range(5))
    assert frames[-1].at == {"ring": [4]}
    assert reader.torn_bytes == 0
    assert stat.S_IMODE((tmp_path / "a.live").stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["a.live"]


def test_a_cut_at_any_byte_costs_the_frame_that_it_hits(tmp_path: Path) -> None:
    ends = written(tmp_path / "a.live")
    data = (tmp_path / "a.live").read_bytes()
    for cut in range(len(data) + 1):
        if cut < ends[0]:
            with pytest.raises(OomctlError):
                read(data[:cut])
            continue
        frames, torn = read(data[:cut])
        whole = sum(end <= cut for end in ends) - 1
        assert len(frames) == whole
        assert torn == cut - ends[whole]


def test_a_changed_byte_ends_the_reading_there(tmp_path: Path) -> None:
    ends = written(tmp_path / "a.live")
    data = bytearray((tmp_path / "a.live").read_bytes())
    for at in range(ends[2], ends[3]):
        changed = bytearray(data)
        changed[at] ^= 0x40
        frames, torn = read(bytes(changed))
        assert len(frames) == 2
        assert torn == len(data) - ends[2]


def test_a_pipe_among_the_segments_is_not_waited_for(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.prepare()
    os.mkfifo(folder.segment(1))
    os.mkfifo(folder.hours / "1-1.parquet")
    assert not is_recording(tmp_path)
    assert (folder.segments(), folder.packed(), folder.resume().number) == ([], [], 1)


def test_zeros_at_the_end_are_no_frame(tmp_path: Path) -> None:
    written(tmp_path / "a.live")
    frames, torn = read((tmp_path / "a.live").read_bytes() + bytes(4096))
    assert (len(frames), torn) == (5, 4096)


def test_it_is_read_while_it_is_written(tmp_path: Path) -> None:
    writer = LiveWriter(tmp_path / "a.live", header())
    with (tmp_path / "a.live").open("rb") as file:
        assert list(LiveReader(file, "a.live").frames()) == []
    writer.append(Frame(at={"k": 1}))
    with (tmp_path / "a.live").open("rb") as file:
        assert [frame.at for frame in LiveReader(file, "a.live").frames()] == [{"k": 1}]
    writer.close()


@pytest.mark.parametrize("changes", [{"format": 99}, {"schema_version": 99}])
def test_a_newer_version_is_refused_before_a_row_is_read(tmp_path: Path, changes: dict[str, int]) -> None:
    LiveWriter(tmp_path / "a.live", header(**changes)).close()
    with pytest.raises(OomctlError, match="newer than this oomctl reads"):
        read((tmp_path / "a.live").read_bytes())


@pytest.mark.parametrize("data", [b"", b"PAR1", MAGIC, MAGIC + FRAME.pack(0, 0), MAGIC + FRAME.pack(2**32 - 1, 0) + b"x"])
def test_what_is_no_live_file_is_refused(data: bytes) -> None:
    with pytest.raises(OomctlError):
        read(data)


def test_a_full_disk_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    writer = LiveWriter(tmp_path / "a.live", header())
    writer.append(Frame(at={"k": 1}))
    before = (tmp_path / "a.live").read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 10, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            writer.append(Frame(rows=[{"text": str(list(range(1000)))}]))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (tmp_path / "a.live").read_bytes() == before
    writer.append(Frame(at={"k": 2}))
    writer.close()
    assert [frame.at for frame in read((tmp_path / "a.live").read_bytes())[0]] == [{"k": 1}, {"k": 2}]


def rows_of(*frames: bytes) -> tuple[list[Row], LiveReader]:
    """What is read of frames that somebody wrote whose checksums hold."""
    packed = [zstandard.ZstdCompressor().compress(payload) for payload in (msgspec.msgpack.encode(header()), *frames)]
    data = MAGIC + b"".join(FRAME.pack(len(one), zlib.crc32(one)) + one for one in packed)
    reader = LiveReader(io.BytesIO(data), "a.live")
    return list(reader.rows()), reader


GOOD = {"stream": "s", "seq": 1, "kind": "step", "step": {"step_id": 1}}


@pytest.mark.parametrize(
    "odd",
    [
        3,
        {},
        {**GOOD, "kind": "nonsense"},
        {**GOOD, "step": None},
        {**GOOD, "linm": 2},
        {**GOOD, "seq": 2**64 - 1},
        {**GOOD, "step": {"step_id": "x"}},
        {**GOOD, "ts": 2**62},
        {**GOOD, "worker": "x" * (MAX_ROW_BYTES + 1)},
    ],
)
def test_what_is_no_row_is_counted_and_the_others_are_read(odd: object) -> None:
    found, reader = rows_of(msgspec.msgpack.encode({"rows": [GOOD, odd, GOOD]}), msgspec.msgpack.encode({"rows": [GOOD]}))
    assert (found, reader.odd_rows, reader.torn_bytes) == ([GOOD] * 3, 1, 0)


@pytest.mark.parametrize("common", [{"stream": "s", "q!ality": "x"}, {"stream": 5}, {}])
def test_records_of_a_ring_whose_columns_are_none(common: dict[str, object]) -> None:
    slots = [{"common": common, "offset_ns": 0, "columns": bytes([0, 0, STEP.code, *[0] * (WIDTH - 3)])}]
    found, reader = rows_of(msgspec.msgpack.encode({"slots": slots}))
    assert (found, reader.odd_rows) == ([], 1)


def test_a_frame_that_unpacks_to_millions_of_rows_is_no_frame() -> None:
    """64 MiB of empty maps would be 4 GB of them."""
    found, reader = rows_of(b"\x81\xa4rows\xdd" + (MAX_ROWS + 1).to_bytes(4, "big") + b"\x80" * (MAX_ROWS + 1))
    assert found == []
    assert reader.torn_bytes > MAX_ROWS


def test_a_state_is_what_its_changes_made_of_it() -> None:
    state = {"a": 1, "b": 2}
    apply(state, {"b": None, "c": 3})
    assert state == {"a": 1, "c": 3}
