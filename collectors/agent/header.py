"""The header of a ring file, for readers: whose ring it is, whether that process lives, and its on and off."""

import errno
import mmap
import os
import stat
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, cast
from zlib import crc32

from oomctl.collectors.agent.layout import (
    CHECKSUM,
    CHECKSUMS,
    CONTROL_OFFSET,
    COUNTER,
    DROPPED_OFFSET,
    ERRORS_OFFSET,
    HEADER,
    HEADER_BYTES,
    HEADER_FIELDS,
    MAGIC,
    SLOT_BYTES,
    STATE_OFFSET,
)
from oomctl.collectors.agent.process import boot_id, start_ticks
from oomctl.schemas.errors import OomctlError

MAX_OFFSET_NS = 1 << 62
"""Of the wall clock from the monotonic one: 146 years. Beyond, no time of the ring would fit into the event table."""
MAX_COUNT = 1 << 62
"""Of what a counter tells; beyond, it is made up."""


@dataclass(frozen=True)
class Header:
    """What a ring file says of itself.

    Attributes:
        version: Of its layout.
        capacity: Slots.
        pid: Process that wrote it, in its own namespace.
        thread_id: Thread that made it; after its end another one may write it.
        rank: Global rank, None where it has none.
        device_id: None where it has none.
        start_ticks: When the process started, in clock ticks since boot.
        monotonic_ns: When the file was made.
        realtime_ns: The same instant on the wall clock.
        boot_id: The kernel's name for its boot.
        incarnation: One life of the engine, the same in all its processes.
        worker: The engine instance, the same over restarts.
        rank_name: As the engine prints it.
        role: api_server, core or worker.
        engine: Name and version.
        active: Whether it records, or pauses.
        closed: Whether the process ended in order.
        dropped: Records that could not be written.
        errors: Exceptions that the agent kept from the engine.
    """

    version: int
    capacity: int
    pid: int
    thread_id: int
    rank: int | None
    device_id: int | None
    start_ticks: int
    monotonic_ns: int
    realtime_ns: int
    boot_id: str
    incarnation: str
    worker: str
    rank_name: str
    role: str
    engine: str
    active: bool
    closed: bool
    dropped: int
    errors: int

    def is_alive(self, proc: Path = Path("/proc")) -> bool:
        """Whether the process that writes this ring still runs. Right only in that process's own pid namespace."""
        return self.boot_id == boot_id(proc) and self.start_ticks == start_ticks(self.pid, proc)


def read_header(view: mmap.mmap, path: Path) -> Header:
    """The header of a mapped ring file.

    Raises:
        OomctlError: If it is no ring, one of another layout, or damaged.
    """
    found: dict[str, Any] = dict(zip(HEADER_FIELDS, HEADER.unpack_from(view, 0), strict=True))
    if found.pop("magic") != MAGIC:
        raise OomctlError(f"no ring file ({path})")
    if (version := found["version"]) not in CHECKSUMS:
        raise OomctlError(
            f"ring layout {version}, this oomctl reads {min(CHECKSUMS)} to {max(CHECKSUMS)} ({path})",
            "read it with the version of oomctl that the worker has",
        )
    sizes = found.pop("header_bytes"), found.pop("slot_bytes")
    whole = CHECKSUM.unpack_from(view, HEADER.size)[0] == crc32(view[: HEADER.size])
    if not whole or sizes != (HEADER_BYTES, SLOT_BYTES) or found["capacity"] < 2:
        raise OomctlError(f"damaged ring file: its header is not whole ({path})")
    if len(view) < HEADER_BYTES + found["capacity"] * SLOT_BYTES:
        raise OomctlError(f"damaged ring file: shorter than its header says ({path})")
    if abs(found["realtime_ns"] - found["monotonic_ns"]) > MAX_OFFSET_NS:
        raise OomctlError(f"damaged ring file: its clocks are no clocks ({path})")
    for name, value in found.items():
        if isinstance(value, bytes):
            found[name] = value.rstrip(b"\0").decode("utf-8", "replace")
    for name in ("rank", "device_id"):
        found[name] = None if found[name] < 0 else found[name]
    return with_counters(Header(**found, active=False, closed=False, dropped=0, errors=0), view)


def with_counters(header: Header, view: mmap.mmap) -> Header:
    """The same with what changes while the ring is written: whether it records, whether it ended, its two counters."""
    return replace(
        header,
        active=view[CONTROL_OFFSET] == 1,
        closed=view[STATE_OFFSET] == 1,
        dropped=min(COUNTER.unpack_from(view, DROPPED_OFFSET)[0], MAX_COUNT),
        errors=min(COUNTER.unpack_from(view, ERRORS_OFFSET)[0], MAX_COUNT),
    )


def opened(path: Path, how: int = os.O_RDONLY) -> BinaryIO:
    """A ring's file. What else may lie in a folder that others write to is not followed and not waited for.

    Raises:
        OSError: If it cannot be opened, or is a link, a pipe, or anything else that is no file.
    """
    descriptor = os.open(path, how | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a file")
        return cast(BinaryIO, os.fdopen(descriptor, "rb" if how == os.O_RDONLY else "r+b", buffering=0))
    except BaseException:
        os.close(descriptor)
        raise


def set_active(path: Path, active: bool) -> None:
    """Tell the thread that writes this ring to record or to pause; it obeys at its next step.

    Raises:
        OomctlError: If it is no ring, or one of another layout, or not ours to write.
    """
    try:
        with opened(path, os.O_RDWR) as file, mmap.mmap(file.fileno(), 0) as view:
            if len(view) < HEADER_BYTES:
                raise OomctlError(f"no ring file: shorter than its header ({path})")
            read_header(view, path)
            view[CONTROL_OFFSET] = int(active)
    except (OSError, ValueError) as error:
        raise OomctlError(f"cannot write to the ring: {error} ({path})") from error
