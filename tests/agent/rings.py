"""Rings for tests, and records in them."""

from pathlib import Path
from typing import Any

from oomctl.collectors.agent.kinds import MANIFEST, STEP
from oomctl.collectors.agent.layout import SLOT_BYTES, pack_texts
from oomctl.collectors.agent.reader import RingReader, ring_paths
from oomctl.collectors.agent.ring import Ring
from oomctl.collectors.agent.rings import Identity, Rings

IDENTITY = Identity("core", worker="w", incarnation="boot:1:2", engine="vllm 0.32.0", rank=3, rank_name="DP0")


def make_rings(folder: Path, capacity: int = 16) -> Rings:
    return Rings(folder, IDENTITY, capacity)


class Recorded:
    """A ring of this thread, and what was written into it since it was read last."""

    def __init__(self, folder: Path, capacity: int = 512) -> None:
        self.ring = make_rings(folder, capacity).mine()
        self._folder = folder
        self._reader: RingReader | None = None

    def rows(self) -> list[tuple[str, dict[str, Any]]]:
        """The kind and the values of each record; none may be lost."""
        if self._reader is None:
            paths = ring_paths(self._folder)
            if not paths:
                return []
            self._reader = RingReader(paths[0])
        batch = self._reader.read()
        assert (batch.overwritten, batch.torn, batch.unknown) == (0, 0, 0)
        return [(record.kind.name, record.values) for record in batch.records]


def write_step(ring: Ring, step_id: int) -> None:
    ring.write(STEP, b"", step_id, *STEP.nulls[1:])


def write_text(ring: Ring, text: str) -> None:
    ring.write(MANIFEST, pack_texts("section", "key", text))


def slots_of(text: str) -> int:
    """How many slots `write_text` fills with it."""
    rest = len(pack_texts("section", "key", text)) - MANIFEST.room
    return 1 + max(0, -(-rest // (SLOT_BYTES - 28)))
