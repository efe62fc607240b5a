"""What the agent left in a folder of rings, in the terms of a test."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oomctl.collectors.agent.decode import Record
from oomctl.collectors.agent.header import Header
from oomctl.collectors.agent.reader import Batch, read_ring, ring_paths


@dataclass
class Recording:
    """All rings of one engine.

    Attributes:
        rings: Their headers and what they hold, by file name.
    """

    rings: dict[str, tuple[Header, Batch]]

    @staticmethod
    def read(folder: Path, *, final: bool = True) -> "Recording":
        """Read them all."""
        return Recording({path.name: read_ring(path, final=final) for path in ring_paths(folder)})

    def of(self, role: str, kind: str) -> Iterator[dict[str, Any]]:
        """The values of each record of a kind, with its seq and its time, in a role's rings, in order of time.

        One role can have a ring for each of several threads: vLLM may end its client on another one than made it.
        """
        records = [
            record
            for header, batch in self.rings.values()
            if header.role == role
            for record in batch.records
            if record.kind.name == kind
        ]
        for record in sorted(records, key=lambda record: record.monotonic_ns):
            yield {**record.values, "seq": record.seq, "monotonic_ns": record.monotonic_ns, "ts": record.ts}

    def headers(self, role: str) -> list[Header]:
        """Of each ring of a role."""
        return [header for header, _ in self.rings.values() if header.role == role]

    def last(self, role: str) -> Record:
        """The newest record of a role."""
        records = [batch.records[-1] for header, batch in self.rings.values() if header.role == role and batch.records]
        return max(records, key=lambda record: record.monotonic_ns)

    def requests(self, *sampled_by: str) -> dict[str, list[dict[str, Any]]]:
        """The core's events of each request, by its id."""
        found: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for event in self.of("core", "request"):
            if event["sampled_by"] in (sampled_by or ("all", "sample")):
                found[event["request_id"]].append(event)
        return found

    def losses(self) -> dict[str, int]:
        """Overwritten, torn, unknown, dropped records and the agent's own errors, over all rings."""
        found: dict[str, int] = defaultdict(int)
        for header, batch in self.rings.values():
            for name in ("overwritten", "torn", "unknown"):
                found[name] += getattr(batch, name)
            found["dropped"] += header.dropped
            found["errors"] += header.errors
        return dict(found)
