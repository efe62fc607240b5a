"""Rings as they are written, read, overtaken, torn and forked."""

import os
import threading
from pathlib import Path
from zlib import adler32, crc32

import pytest

from oomctl.collectors.agent import kinds, layout
from oomctl.collectors.agent.header import MAX_COUNT, set_active
from oomctl.collectors.agent.reader import RingReader, read_ring, ring_paths
from oomctl.collectors.agent.ring import Ring
from oomctl.collectors.agent.rows import common_columns, to_row
from oomctl.schemas.errors import OomctlError
from tests.agent.rings import make_rings, write_step, write_text


def _headed(raw: bytes, **changed: int) -> bytes:
    """With another value in the header, and its checksum."""
    values = [*layout.HEADER.unpack_from(raw)]
    for name, value in changed.items():
        values[layout.HEADER_FIELDS.index(name)] = value
    header = layout.HEADER.pack(*values)
    return header + layout.CHECKSUM.pack(crc32(header)) + raw[len(header) + layout.CHECKSUM.size :]


def path_of(ring: Ring) -> Path:
    assert ring.path is not None
    return ring.path


def test_header_says_whose_it_is(tmp_path: Path) -> None:
    rings = make_rings(tmp_path)
    write_step(rings.mine(), 1)
    header, _ = read_ring(path_of(rings.mine()))
    assert (header.worker, header.incarnation, header.engine) == ("w", "boot:1:2", "vllm 0.32.0")
    assert (header.role, header.rank, header.rank_name, header.device_id) == ("core", 3, "DP0", None)
    assert (header.pid, header.thread_id, header.capacity) == (os.getpid(), threading.get_native_id(), 16)
    assert header.is_alive()
    assert not header.closed
    assert path_of(rings.mine()).stat().st_mode & 0o777 == 0o600
    rings.close()
    assert read_ring(path_of(rings.mine()))[0].closed


def test_what_is_no_file_is_neither_followed_nor_waited_for(tmp_path: Path) -> None:
    """GIVEN a link to another's ring, and a pipe that nobody writes, in a folder that others may write to."""
    rings = make_rings(tmp_path)
    write_step(rings.mine(), 1)
    (tmp_path / "link.ring").symlink_to(path_of(rings.mine()))
    os.mkfifo(tmp_path / "pipe.ring")
    for name in ("link.ring", "pipe.ring", "."):
        with pytest.raises(OomctlError, match="cannot read the ring"):
            RingReader(tmp_path / name)
        with pytest.raises(OomctlError, match="cannot write to the ring"):
            set_active(tmp_path / name, False)
    assert read_ring(path_of(rings.mine()))[0].active


def test_a_ring_that_is_cut_short_says_so_before_it_is_read(tmp_path: Path) -> None:
    rings = make_rings(tmp_path)
    write_step(rings.mine(), 1)
    reader = RingReader(path_of(rings.mine()))
    assert not reader.is_cut
    os.truncate(path_of(rings.mine()), 100)
    assert reader.is_cut
    reader.close()


def test_another_process_of_the_same_pid_is_not_it(tmp_path: Path) -> None:
    rings = make_rings(tmp_path)
    write_step(rings.mine(), 1)
    header, _ = read_ring(path_of(rings.mine()))
    (tmp_path / "sys/kernel/random").mkdir(parents=True)
    (tmp_path / "sys/kernel/random/boot_id").write_text(header.boot_id + "\n")
    assert not header.is_alive(tmp_path)
    stat = tmp_path / str(header.pid) / "stat"
    stat.parent.mkdir()
    stat.write_text(f"{header.pid} (a) b) S {' '.join(str(n) for n in range(4, 22))} {header.start_ticks} 0\n")
    assert header.is_alive(tmp_path)
    (tmp_path / "sys/kernel/random/boot_id").write_text("another\n")
    assert not header.is_alive(tmp_path)


def test_records_come_back_in_order(tmp_path: Path) -> None:
    ring = make_rings(tmp_path).mine()
    write_step(ring, 7)
    write_text(ring, "short")
    write_text(ring, "long " * 100)
    write_step(ring, 8)
    _, batch = read_ring(path_of(ring))
    assert [record.seq for record in batch.records] == [1, 2, 3, 4]
    assert [record.values.get("step_id") or record.values["value"] for record in batch.records] == [
        7, "short", "long " * 100, 8,
    ]  # fmt: skip
    assert (batch.overwritten, batch.torn, batch.unknown) == (0, 0, 0)
    assert not any(record.cut for record in batch.records)
    times = [record.monotonic_ns for record in batch.records]
    assert times == sorted(times)


def test_rows_are_those_of_the_event_table(tmp_path: Path) -> None:
    ring = make_rings(tmp_path).mine()
    ring.write(kinds.STEP, b"", 5, 10, 2, *kinds.STEP.nulls[3:8], 1)
    ring.write(kinds.KV_POOL, layout.pack_texts("device"), 32, 48, 12, 36, *kinds.KV_POOL.nulls[4:])
    ring.write(kinds.COLLECTOR, layout.pack_texts("agent", "ok"), 1, 0, 10**18)
    header, batch = read_ring(path_of(ring))
    step, pool, state = (to_row(record, common_columns(header, "ring")) for record in batch.records)
    assert (step["kind"], step["seq"], step["rank"], step["source"]) == ("step", 1, 3, "agent")
    assert (step["step"]["mode"], step["step"]["running_requests"], step["step"]["dumped"]) == ("mixed", None, True)
    assert (pool["kv_pool"]["usage_ratio"], pool["kv_pool"]["tier"]) == (0.75, "device")
    assert state["collector"] == {"name": "agent", "state": "ok", "detail": None, "cost_us": 1, "errors": 0}


def test_the_wall_clock_is_followed_and_its_jumps_are_told(tmp_path: Path) -> None:
    ring = make_rings(tmp_path).mine()
    write_step(ring, 1)
    ring.write(kinds.COLLECTOR, b"", 0, 0, 2_000_000_000 * 10**9)
    write_step(ring, 2)
    header, batch = read_ring(path_of(ring))
    before, _, after = batch.records
    assert before.ts == (header.realtime_ns + before.monotonic_ns - header.monotonic_ns) // 1000
    assert 0 <= after.ts - 2_000_000_000 * 10**6 < 60 * 10**6
    assert len(batch.clock_steps_ns) == 1


@pytest.mark.parametrize("written", [15, 16, 17, 40])
def test_the_oldest_are_overwritten_and_counted(written: int, tmp_path: Path) -> None:
    ring = make_rings(tmp_path).mine()
    for step_id in range(1, written + 1):
        write_step(ring, step_id)
    _, batch = read_ring(path_of(ring))
    assert [record.seq for record in batch.records] == list(range(max(1, written - 15), written + 1))
    assert [record.values["step_id"] for record in batch.records] == [record.seq for record in batch.records]
    assert (batch.overwritten, batch.torn) == (max(0, written - 16), 0)


def test_a_follower_loses_what_overtakes_it_and_nothing_else(tmp_path: Path) -> None:
    ring = make_rings(tmp_path).mine()
    write_step(ring, 0)
    reader = RingReader(path_of(ring))
    assert len(reader.read().records) == 1
    assert reader.read().records == []
    texts = 0
    for burst in (3, 16, 1, 20, 0, 50, 7):
        for number in range(burst):
            write_text(ring, "x" * (number % 3 * 120))
        batch = reader.read()
        texts += len(batch.records) + batch.overwritten
        assert batch.torn == 0
        assert all(record.values["section"] == "section" and not record.cut for record in batch.records)
        assert (batch.overwritten > 0) == (burst >= 16)
    assert texts == 97
    reader.close()


def test_a_text_longer_than_the_ring_is_cut_and_says_so(tmp_path: Path) -> None:
    ring = make_rings(tmp_path, capacity=4).mine()
    write_text(ring, "y" * 5000)
    _, batch = read_ring(path_of(ring))
    (record,) = batch.records
    assert record.cut
    assert set(record.values["value"]) == {"y"}


def damage(path: Path, place: int, capacity: int = 16) -> None:
    with path.open("r+b") as file:
        file.seek(layout.HEADER_BYTES + place % capacity * layout.SLOT_BYTES + 60)
        file.write(b"\xff\xfe\xfd")


def test_a_torn_record_is_left_out_and_counted(tmp_path: Path) -> None:
    ring = make_rings(tmp_path).mine()
    for step_id in range(1, 6):
        write_step(ring, step_id)
    damage(path_of(ring), 3)
    _, batch = read_ring(path_of(ring))
    assert [record.seq for record in batch.records] == [1, 2, 4, 5]
    assert (batch.torn, batch.overwritten) == (1, 0)


@pytest.mark.parametrize("written", [5, 16, 30])
def test_the_last_record_torn_is_counted_only_when_the_process_is_dead(written: int, tmp_path: Path) -> None:
    ring = make_rings(tmp_path).mine()
    for step_id in range(1, written + 1):
        write_step(ring, step_id)
    damage(path_of(ring), written)
    alive, dead = read_ring(path_of(ring), final=False)[1], read_ring(path_of(ring))[1]
    assert [record.seq for record in alive.records] == [record.seq for record in dead.records]
    assert dead.records[-1].seq == written - 1
    assert (alive.torn, dead.torn) == (0, 1)
    assert len(dead.records) + dead.overwritten + dead.torn == written


def test_a_text_whose_head_was_never_written_is_one_torn_record(tmp_path: Path) -> None:
    ring = make_rings(tmp_path).mine()
    write_step(ring, 1)
    write_text(ring, "z" * 300)
    damage(path_of(ring), 2)
    _, batch = read_ring(path_of(ring))
    assert [record.seq for record in batch.records] == [1]
    assert (batch.torn, batch.overwritten) == (1, 0)


def test_an_unknown_kind_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ring = make_rings(tmp_path).mine()
    write_step(ring, 1)
    write_text(ring, "later")
    write_step(ring, 2)
    monkeypatch.delitem(kinds.KINDS, kinds.MANIFEST.code)
    _, batch = read_ring(path_of(ring))
    assert [record.seq for record in batch.records] == [1, 3]
    assert (batch.unknown, batch.torn, batch.overwritten) == (1, 0, 0)


def test_a_value_out_of_range_is_dropped_and_counted(tmp_path: Path) -> None:
    ring = make_rings(tmp_path).mine()
    write_step(ring, 2**63)
    write_step(ring, 1)
    ring.count_error()
    header, batch = read_ring(path_of(ring))
    assert [record.values["step_id"] for record in batch.records] == [1]
    assert (header.dropped, header.errors) == (1, 1)


@pytest.mark.parametrize(
    ("name", "spoil", "message"),
    [
        ("empty", lambda raw: b"", "shorter than its header"),
        ("other", lambda raw: b"not a ring" + raw[10:], "no ring file"),
        ("later", lambda raw: raw[:8] + b"\x09\x00" + raw[10:], "ring layout 9, this oomctl reads 1 to 2"),
        ("damaged", lambda raw: raw[:50] + b"\xff" + raw[51:], "its header is not whole"),
        ("short", lambda raw: raw[:-1], "shorter than its header says"),
        ("clocks", lambda raw: _headed(raw, realtime_ns=2**63 - 1), "its clocks are no clocks"),
    ],
)
def test_what_is_no_ring_gets_one_clear_error(name: str, spoil, message: str, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    ring = make_rings(tmp_path).mine()
    write_step(ring, 1)
    bad = tmp_path / f"{name}.bin"
    bad.write_bytes(spoil(path_of(ring).read_bytes()))
    for use in (RingReader, lambda path: set_active(path, False)):
        with pytest.raises(OomctlError, match=message if name != "empty" or use is RingReader else "cannot write"):
            use(bad)


def test_what_a_worker_makes_up_stays_within_the_event_table(tmp_path: Path) -> None:
    """GIVEN places, counts and clocks of 63 bits and more, with checksums, THEN they are lost, cut off, not followed."""
    ring = make_rings(tmp_path).mine()
    for step in range(3):
        write_step(ring, step)
    ring.write(kinds.COLLECTOR, b"", 0, 0, -(2**63) + 1)
    reader = RingReader(path_of(ring))
    with path_of(ring).open("r+b") as file:
        for at, (place, spilled) in enumerate([(2**63 + 1, 0), (2, 9)], 1):
            file.seek(layout.HEADER_BYTES + at * layout.SLOT_BYTES)
            _, *head = layout.SLOT_HEAD.unpack(file.read(layout.SLOT_HEAD.size))
            rest = layout.SLOT_HEAD.pack(0, *head[:3], place, head[4], spilled)[layout.CHECKSUM.size :]
            slot = rest.ljust(layout.SLOT_BYTES - layout.CHECKSUM.size, b"\0")
            file.seek(layout.HEADER_BYTES + at * layout.SLOT_BYTES)
            file.write(layout.CHECKSUM.pack(layout.CHECKSUMS[layout.VERSION](slot)) + slot)
        file.seek(layout.DROPPED_OFFSET)
        file.write(b"\xff" * 8)
        file.seek(50)  # of the fixed part of the header, read once
        file.write(b"\xff")
    batch = reader.read(final=True)
    assert [record.seq for record in batch.records] == [3, 4]
    assert (batch.torn + batch.overwritten, batch.clock_steps_ns) == (2, [])
    assert reader.header.dropped == MAX_COUNT
    assert abs(reader.position.offset_ns) < 2**62
    reader.close()


def test_a_ring_of_the_version_before_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oomctl.collectors.agent.rings.VERSION", 1)
    monkeypatch.setattr("oomctl.collectors.agent.ring.adler32", crc32)
    ring = make_rings(tmp_path).mine()
    write_step(ring, 7)
    write_text(ring, "long " * 100)
    header, batch = read_ring(path_of(ring))
    assert header.version == 1
    assert [record.seq for record in batch.records] == [1, 2]
    assert (batch.overwritten, batch.torn, batch.unknown) == (0, 0, 0)


def test_records_of_a_step_are_appended_together_also_over_the_end(tmp_path: Path) -> None:
    ring = make_rings(tmp_path).mine()
    for step_id in range(1, 8):
        slots = [
            kinds.STEP.pack(kinds.STEP.word, ring.place + at, 5, ring.spilled, step_id, *kinds.STEP.nulls[1:], b"")
            for at in (1, 2, 3)
        ]
        assert ring.extend(memoryview(b"".join(layout.SLOT_WHOLE.pack(adler32(slot), slot) for slot in slots)))
    _, batch = read_ring(path_of(ring))
    assert [record.seq for record in batch.records] == list(range(6, 22))
    assert [record.values["step_id"] for record in batch.records] == [(seq + 2) // 3 for seq in range(6, 22)]
    set_active(path_of(ring), False)
    assert not ring.extend(memoryview(b""))


def test_it_can_be_told_to_pause(tmp_path: Path) -> None:
    ring = make_rings(tmp_path).mine()
    assert ring.active
    write_step(ring, 1)
    assert ring.active
    set_active(path_of(ring), False)
    assert not ring.active
    assert not read_ring(path_of(ring))[0].active
    set_active(path_of(ring), True)
    assert ring.active


def test_each_thread_has_its_own_ring(tmp_path: Path) -> None:
    rings = make_rings(tmp_path)
    barrier = threading.Barrier(4)

    def work() -> None:
        barrier.wait()
        for step_id in range(10):
            write_step(rings.mine(), step_id)
        barrier.wait()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = [read_ring(path)[1] for path in ring_paths(tmp_path)]
    assert [[record.values["step_id"] for record in batch.records] for batch in found] == [list(range(10))] * 4


def test_a_new_thread_gets_the_ring_of_one_that_ended(tmp_path: Path) -> None:
    rings = make_rings(tmp_path)
    for step_id in range(3):
        thread = threading.Thread(target=lambda step_id=step_id: write_step(rings.mine(), step_id))
        thread.start()
        thread.join()
    (path,) = ring_paths(tmp_path)
    rings.close()
    header, batch = read_ring(path)
    assert [record.values["step_id"] for record in batch.records] == [0, 1, 2]
    assert header.closed


def test_a_forked_child_leaves_its_parents_ring_alone(tmp_path: Path) -> None:
    rings = make_rings(tmp_path)
    write_step(rings.mine(), 1)
    child = os.fork()
    if child == 0:
        write_step(rings.mine(), 2)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    write_step(rings.mine(), 3)
    found = {header.pid: batch for header, batch in map(read_ring, ring_paths(tmp_path))}
    assert [record.values["step_id"] for record in found[os.getpid()].records] == [1, 3]
    assert [record.values["step_id"] for record in found[child].records] == [2]


def test_without_a_folder_it_falls_quiet_and_says_so_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    rings = make_rings(tmp_path / "missing")
    for step_id in range(3):
        write_step(rings.mine(), step_id)
    assert rings.quiet
    assert rings.mine().path is None
    assert capfd.readouterr().err.count("oomctl agent: no ring in") == 1


def test_without_space_it_falls_quiet_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def full(_descriptor: int, _offset: int, _size: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    rings = make_rings(tmp_path)
    write_step(rings.mine(), 1)
    assert list(tmp_path.iterdir()) == []
    assert "No space left on device" in capfd.readouterr().err


def test_a_later_reader_goes_on_where_an_earlier_one_stopped(tmp_path: Path) -> None:
    ring = make_rings(tmp_path).mine()
    for step_id in range(1, 11):
        write_step(ring, step_id)
    (path,) = ring_paths(tmp_path)
    first = RingReader(path)
    assert [record.seq for record in first.read(limit=4).records] == [1, 2, 3, 4]
    second = RingReader(path, first.position)
    assert [record.seq for record in second.read().records] == [5, 6, 7, 8, 9, 10]
    for step_id in range(11, 41):
        write_step(ring, step_id)
    batch = RingReader(path, second.position).read()
    assert batch.records[-1].seq == 40
    assert batch.overwritten + len(batch.records) == 30
    assert len(RingReader(path, second.position._replace(made_ns=1)).read().records) == 16, "of another ring"
