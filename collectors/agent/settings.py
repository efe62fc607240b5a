"""How the agent is switched on: environment variables, because they reach every process of an engine."""

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from oomctl.collectors.agent.process import boot_id, start_ticks
from oomctl.collectors.agent.rings import DEFAULT_CAPACITY

FOLDER = "OOMCTL_RING"
INCARNATION = "OOMCTL_INCARNATION"
TRACKED_REQUESTS = 16
"""Enough: where requests take half a minute, it is some two thousand of them in an hour; at an OOM all are told anyway."""


@dataclass(frozen=True)
class Settings:
    """What the environment says.

    Attributes:
        folder: OOMCTL_RING: where the rings go. It switches the agent on.
        worker: OOMCTL_WORKER: the engine instance's name, the same over restarts; the host's name if unset.
        incarnation: OOMCTL_INCARNATION: one life of the engine. Its first process names it, the others inherit it.
        capacity: OOMCTL_RING_RECORDS: slots per ring.
        tracked_requests: OOMCTL_TRACKED_REQUESTS: about how many requests are followed at a time; 0 for all.
        interval_s: OOMCTL_INTERVAL_S: between two readings of the allocator's counters.
        snapshot: OOMCTL_SNAPSHOT=1: keep a bounded allocator history, and write a snapshot at an OOM.
    """

    folder: Path
    worker: str
    incarnation: str
    capacity: int = DEFAULT_CAPACITY
    tracked_requests: int = TRACKED_REQUESTS
    interval_s: float = 1.0
    snapshot: bool = False


def read(environment: Mapping[str, str] = os.environ) -> Settings | None:
    """The settings; None where the agent is not switched on.

    Raises:
        ValueError: If a number is none.
    """
    folder = environment.get(FOLDER)
    if not folder:
        return None
    return Settings(
        folder=Path(folder),
        worker=environment.get("OOMCTL_WORKER") or socket.gethostname(),
        incarnation=environment.get(INCARNATION) or this_process(),
        capacity=int(environment.get("OOMCTL_RING_RECORDS") or DEFAULT_CAPACITY),
        tracked_requests=int(environment.get("OOMCTL_TRACKED_REQUESTS") or TRACKED_REQUESTS),
        interval_s=max(float(environment.get("OOMCTL_INTERVAL_S") or 1.0), 0.05),
        snapshot=environment.get("OOMCTL_SNAPSHOT") == "1",
    )


def this_process() -> str:
    """Boot, pid and start time: no other process ever has all three."""
    return f"{boot_id()}:{os.getpid()}:{start_ticks()}"
