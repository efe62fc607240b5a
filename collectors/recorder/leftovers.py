"""Rings that the dead leave behind: 8 MiB each, five a life. Once all that they hold is on the disk they are removed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from oomctl.collectors.agent.header import Header
from oomctl.collectors.agent.process import boot_id
from oomctl.collectors.live.processes import PROC, sees_all
from oomctl.collectors.recorder.live import State


class Leftovers:
    """Rings that were read to their end.

    Args:
        proc: The process file system.
    """

    def __init__(self, proc: Path = PROC) -> None:
        self._proc = proc
        self._keys: dict[Path, str] = {}

    def __bool__(self) -> bool:
        return bool(self._keys)

    def add(self, path: Path, key: str, header: Header, seen: bool) -> None:
        """Take up a ring, if its process is dead for sure.

        Args:
            path: The ring.
            key: Of what is known of it.
            header: As it was left.
            seen: Whether the process was ever seen alive from here. One that was not may run where its pid is not seen.
        """
        if seen or header.boot_id != boot_id(self._proc) or sees_all(self._proc):
            self._keys[path] = key

    def remove(self, told: Callable[[str, dict[str, Any]], None]) -> State:
        """Remove them, and tell of it; returns what need not be known any more. What cannot be removed is left."""
        removed, size, forgotten = 0, 0, State()
        for path, key in self._keys.items():
            try:
                size += path.stat().st_size
                path.unlink()
                removed += 1
            except FileNotFoundError:
                pass
            except OSError as error:
                told("removing a ring that is read to its end", {"error": f"{error.strerror} ({path})"})
                continue
            forgotten[key] = None
        self._keys.clear()
        if removed:
            told("removing rings", {"removed": removed, "bytes": size})
        return forgotten
