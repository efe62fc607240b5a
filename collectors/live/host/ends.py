"""How processes ended that are no children of ours, where the kernel tells.

A pidfd that was opened while the process lived tells its exit status from Linux 6.15 on (PIDFD_GET_INFO with
PIDFD_INFO_EXIT, include/uapi/linux/pidfd.h), once its parent has collected it; until then its stat has it, for its owner.
"""

import contextlib
import fcntl
import os
import struct
from dataclasses import dataclass
from pathlib import Path

from oomctl.collectors.agent.process import stat

_INFO = struct.Struct("<QQ11Ii")
"""mask, cgroup, eleven ids, exit code."""
_GET_INFO = 3 << 30 | _INFO.size << 16 | 0xFF << 8 | 11
_EXIT = 1 << 3
_STATE, _EXIT_CODE = 0, 49
"""Fields of /proc/PID/stat behind the name: the 3rd and the 52nd."""


@dataclass(frozen=True)
class End:
    """How a process ended; both None: not known.

    Attributes:
        exit_code: What it returned.
        signal: What killed it.
    """

    exit_code: int | None = None
    signal: int | None = None


class Ends:
    """Keeps a hold on processes, to be told of their ends.

    Args:
        proc: The process file system; a made-up one has no pidfds.
    """

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._held: dict[int, int | None] = {}

    def hold(self, pid: int) -> None:
        """Be ready for its end; it must live."""
        if pid not in self._held:
            self._held[pid] = None
            if self._proc == Path("/proc"):
                with contextlib.suppress(OSError, AttributeError):
                    self._held[pid] = os.pidfd_open(pid)

    def of(self, pid: int) -> End:
        """How it ended, and let go of it."""
        held = self._held.pop(pid, None)
        status = self._waiting(pid)
        if held is not None:
            status = _collected(held) if status is None else status
            os.close(held)
        if status is None:
            return End()
        return End(signal=status & 0x7F) if status & 0x7F else End(exit_code=status >> 8 & 0xFF)

    def close(self) -> None:
        """Let go of all."""
        for held in self._held.values():
            if held is not None:
                os.close(held)
        self._held.clear()

    def _waiting(self, pid: int) -> int | None:
        """The status of one whose parent has not collected it yet."""
        try:
            fields = stat(pid, self._proc)
            # 0 is also what those see who may not know.
            return int(fields[_EXIT_CODE]) or None if fields[_STATE] in (b"Z", b"X") else None
        except (OSError, ValueError, IndexError):
            return None


def _collected(held: int) -> int | None:
    info = bytearray(_INFO.size)
    _INFO.pack_into(info, 0, _EXIT, *[0] * 13)
    try:
        fcntl.ioctl(held, _GET_INFO, info)
    except OSError:
        return None  # an older kernel
    mask, *_, status = _INFO.unpack(info)
    return status if mask & _EXIT else None
