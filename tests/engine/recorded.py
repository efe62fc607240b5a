"""A real engine with the agent inside and the recorder beside it; what is judged later is the incident file alone."""

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oomctl.collectors.agent.reader import ring_paths
from tests.cli.run import oomctl
from tests.engine.recording import Recording
from tests.engine.server import Server

RECORDER_END_S = 120
PHASE_S = 480
RINGS = "rings"


@dataclass
class Life:
    """One engine's life, recorded.

    Attributes:
        server: The engine; started, not yet ready.
        rings: What the agent writes.
        recording: What the recorder writes; it is given no log.
        earlier: Names of the rings that were there before.
    """

    server: Server
    rings: Path
    recording: Path
    recorder: "subprocess.Popen[str]"
    earlier: frozenset[str]

    def wait_for(self, role: str, kind: str, field: str, value: str) -> int:
        """Wait until such a record is in a ring of that role; the pid that wrote it."""
        deadline = time.monotonic() + PHASE_S
        while time.monotonic() < deadline:
            for name, (header, batch) in Recording.read(self.rings, final=False).rings.items():
                if (
                    name not in self.earlier
                    and header.role == role
                    and any(record.kind.name == kind and record.values[field] == value for record in batch.records)
                ):
                    return header.pid
            assert self.server.process.poll() is None, self.server.log_end()
            time.sleep(0.01)
        raise AssertionError(f"no {kind} {value} in a {role} ring:\n{self.server.log_end()}")

    def limit(self, role: str, more_bytes: int, phase: str) -> None:
        """From that phase on, let its process have only so much more address space: the allocator then fails for real."""
        pid = self.wait_for(role, "lifecycle", "phase", phase)
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
        size = next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmSize:"))
        resource.prlimit(pid, resource.RLIMIT_AS, (size + more_bytes, resource.RLIM_INFINITY))

    def end(self) -> None:
        """The engine ends, if it has not; the recorder finishes by itself."""
        self.server.stop()
        self.recorder.wait(RECORDER_END_S)

    def incidents(self) -> list[Path]:
        """What was frozen."""
        return sorted((self.recording / "incidents").glob("*.parquet"))

    def rows(self, sql: str) -> list[dict[str, Any]]:
        """What a query of the one incident file gives."""
        (incident,) = self.incidents()
        result = oomctl("query", str(incident), "-c", sql, "--json")
        assert result.code == 0, result.err
        return list(json.loads(result.out))

    def verdict(self) -> dict[str, Any]:
        """What triage says of the one incident file."""
        self.end()
        (incident,) = self.incidents()
        result = oomctl("triage", str(incident), "--json")
        assert result.code == 0, result.err
        (found,) = json.loads(result.out)["incidents"]
        return dict(found)


def with_agent(folder: Path, site: Path) -> dict[str, str]:
    """The environment of an engine whose agent writes into a folder; all that share it are lives of one worker."""
    (folder / RINGS).mkdir(exist_ok=True)
    return {
        "OOMCTL_RING": str(folder / RINGS), "OOMCTL_RING_RECORDS": "4096", "OOMCTL_WORKER": "tiny",
        "PYTHONPATH": str(site),
    }  # fmt: skip


@contextmanager
def recorded(
    engine: Path, model: Path, site: Path, folder: Path, environment: Mapping[str, str] | None = None, **options: Any
) -> Iterator[Life]:
    """Start an engine and a recorder; both are ended at last.

    Args:
        engine: Virtual environment that holds vLLM.
        model: The model's folder.
        site: Where the agent is installed.
        folder: Where everything goes.
        environment: More variables.
        options: Of Server.
    """
    rings, recording = folder / RINGS, folder / "recording"
    variables = {**with_agent(folder, site), **(environment or {})}
    earlier = frozenset(path.name for path in ring_paths(rings))
    server = Server(engine, model, folder / "server.log", environment=variables, **options)
    server.start()
    attach = ["attach", str(server.process.pid), "-o", str(recording), "--rings", str(rings)]
    with (folder / "recorder.log").open("w") as said:
        recorder = subprocess.Popen([sys.executable, "-m", "oomctl", *attach], stderr=said, text=True)
        try:
            yield Life(server, rings, recording, recorder, earlier)
        finally:
            server.stop()
            recorder.kill()
            recorder.wait()


def until(condition: Callable[[], object], seconds: float = 120) -> None:
    """Wait for it."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.1)
