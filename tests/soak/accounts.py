"""What should have been recorded, what was, and what was declared lost."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from oomctl.collectors.agent.reader import read_ring, ring_paths
from oomctl.collectors.recorder.contents import load
from oomctl.collectors.recorder.folder import Folder
from oomctl.schemas import storage
from oomctl.schemas.errors import OomctlError
from tests.engine.load import Outcome
from tests.recorder.stand_in import NODE
from tests.soak.peers import Wire

GAP = "KV events that were not received"


@dataclass(frozen=True)
class Account:
    """One kind of event.

    Attributes:
        name: Of the kind.
        expected: By who made them.
        recorded: In the recording.
        lost: Declared lost there.
    """

    name: str
    expected: int
    recorded: int
    lost: int

    @property
    def adds_up(self) -> bool:
        """Whether each is one or the other."""
        return self.expected == self.recorded + self.lost


def accounts(root: Path, rings: Path, wire: Wire, outcomes: Sequence[Outcome]) -> list[Account]:
    """Records of the rings, requests, and KV events.

    Args:
        root: The recording; nobody writes it any more.
        rings: All that were made.
        wire: What the engine published, and what was taken out of it.
        outcomes: What clients saw.
    """
    problems: list[OomctlError] = []
    with storage.connect() as connection:
        load(connection, Folder(root), problems.append)
        ended = "SELECT DISTINCT request_id FROM request WHERE event IN ('finished', 'cancelled', 'blocks_freed')"
        known = " ".join(row[0] for row in connection.execute(ended).fetchall() if row[0])
        rows = connection.execute("SELECT count(*) FROM kv_block WHERE source = 'kv_events'").fetchall()[0][0]
        kept = connection.execute(
            "SELECT stream, count(*), count(DISTINCT seq) FROM events WHERE source = 'agent' GROUP BY ALL"
        ).fetchall()
        losses = connection.execute(
            "SELECT detail, sum(count) FROM loss WHERE starts_with(detail, $1) GROUP BY ALL", [f"{NODE}/"]
        ).fetchall()
        gaps = connection.execute("SELECT coalesce(sum(count), 0) FROM loss WHERE reason = $1", [GAP]).fetchall()[0][0]
    assert not problems, problems
    twice = sum(count - distinct for _, count, distinct in kept)
    assert twice == 0, f"{twice} records are there twice"
    made = {f"{NODE}/{path.stem}": _made(path) for path in ring_paths(rings)}
    of_rings = sum(count for _, count, _ in kept), sum(int(count) for detail, count in losses if detail in made)
    served = [outcome.wish.name for outcome in outcomes if outcome.state in ("finished", "hung_up")]
    found = sum(f"{name}-" in known for name in served)
    gone = sum(wire.rows[message] for message in wire.lost)
    return [
        Account(f"records of the agent's {len(made)} rings", sum(made.values()), *of_rings),
        Account("requests that were served", len(served), found, 0),
        Account("messages of KV events that nobody can bring back", len(wire.lost), 0, int(gaps)),
        Account("rows of all others", sum(wire.rows.values()) - gone, int(rows), 0),
    ]


def _made(path: Path) -> int:
    """How many records were written to a ring, by what it holds at its end."""
    _, batch = read_ring(path)
    return max((record.seq for record in batch.records), default=0) + batch.torn
