"""A memory cgroup of a test's own, below the one that the test runs in; or why there is none."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from oomctl.collectors.live.host.cgroup import Cgroups

EMPTY_S = 20


class MemoryCgroup:
    """Processes that share a limit of memory.

    Attributes:
        folder: Its files; version 1 or 2.
        command: Runs what stands behind it as a member.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.command = ("sh", "-c", f'echo $$ > {folder}/cgroup.procs && exec "$@"', "sh")

    def limit(self, size_bytes: int) -> None:
        """Allow so much; without swap, where it is counted."""
        for limit, of_swap in (("memory.max", "memory.swap.max"), ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes")):
            if (self.folder / limit).exists():
                (self.folder / limit).write_text(str(size_bytes))
                if (self.folder / of_swap).exists():
                    (self.folder / of_swap).write_text("0" if "swap." in of_swap else str(size_bytes))
                return
        raise FileNotFoundError(f"no limit of memory in {self.folder}")

    @property
    def used_bytes(self) -> int:
        """In use, what can be given back included."""
        return next(
            int((self.folder / name).read_text())
            for name in ("memory.current", "memory.usage_in_bytes")
            if (self.folder / name).exists()
        )


@contextmanager
def memory_cgroup(limit_bytes: int) -> Iterator[MemoryCgroup]:
    """Make one; the test is skipped, with the reason, where that cannot be."""
    levels = Cgroups().of(os.getpid())
    if not levels:
        pytest.skip("no memory cgroup is to be seen here")
    made = MemoryCgroup(levels[0].folder / f"oomctl-test-{os.getpid()}")
    try:
        made.folder.mkdir()
        made.limit(limit_bytes)
    except OSError as error:
        if made.folder.exists():
            made.folder.rmdir()
        pytest.skip(f"memory cgroups are not ours to make here: {error}")
    try:
        yield made
    finally:
        deadline = time.monotonic() + EMPTY_S
        while True:
            try:
                made.folder.rmdir()
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
