"""On which TCP ports a process listens: its sockets against the kernel's table of listeners."""

import re
from collections.abc import Iterable
from pathlib import Path

LISTEN = "0A"
_SOCKET = re.compile(r"socket:\[(\d+)\]")


def listening(pids: Iterable[int], proc: Path) -> list[int]:
    """The ports of some processes, lowest first; empty where their files may not be read.

    The table is that of the process's own network namespace, so a port of a container is the container's.
    """
    found: set[int] = set()
    for pid in pids:
        inodes = _sockets(proc / str(pid) / "fd")
        if inodes:
            for name in ("tcp", "tcp6"):
                found |= {port for inode, port in _listeners(proc / str(pid) / "net" / name) if inode in inodes}
    return sorted(found)


def _sockets(folder: Path) -> set[str]:
    found = set()
    try:
        for entry in folder.iterdir():
            try:
                match = _SOCKET.match(str(entry.readlink()))
            except OSError:
                continue
            if match is not None:
                found.add(match[1])
    except OSError:
        return set()
    return found


def _listeners(path: Path) -> Iterable[tuple[str, int]]:
    """(inode, port): columns of proc(5), /proc/net/tcp: local address in hex, state, inode as the tenth."""
    try:
        lines = path.read_text(encoding="ascii", errors="replace").splitlines()[1:]
    except OSError:
        return
    for line in lines:
        fields = line.split()
        if len(fields) > 9 and fields[3] == LISTEN:
            try:
                yield fields[9], int(fields[1].rpartition(":")[2], 16)
            except ValueError:
                continue
