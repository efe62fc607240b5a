"""An allocator snapshot that was taken for a failure which another source, such as the worker's log, tells too."""

from typing import TYPE_CHECKING

from oomctl.analyzers.allocator.rules import segment_bytes
from oomctl.analyzers.triage.evidence import EvidenceRow, ask

if TYPE_CHECKING:
    import duckdb

Group = list[EvidenceRow]
PRINTED_BYTES = 6 << 20
"""To which the framework's figures are printed: GiB with two decimals, and what became of the message while it was made."""
INFERRED = "snapshot_at_oom"
"""The name of a failure of which the snapshot kept no entry: its file is called so, and its state bears that out."""


def join(connection: "duckdb.DuckDBPyConnection", groups: list[Group]) -> list[Group]:
    """The incidents, each snapshot's failure put behind the same failure as a log tells it; the root then has a `heap`.

    A snapshot's clock is UTC and a log's often nobody's, so figures decide: what was asked for, and what was allocated. A
    snapshot that is written again at every failure holds the last one.
    """
    known = {(row["stream"], row["device_id"]): row for row in ask(connection, "heaps")}
    if not known:
        return groups
    streams = {stream for stream, _ in known}
    found = [members for members in groups if members[0]["stream"] not in streams]
    for members in groups:
        root = members[0]
        if root["stream"] not in streams:
            continue
        heap = known.get((root["stream"], root["device_id"]))
        home = _home(connection, found, root, heap) if heap is not None else None
        if home is None:
            found.append(members)
            home = members
        else:
            home += members
        if "heap" not in home[0]:
            home[0]["heap"] = heap
    return found


def _home(
    connection: "duckdb.DuckDBPyConnection", groups: list[Group], root: EvidenceRow, heap: EvidenceRow
) -> Group | None:
    """The newest incident of a log that fits a snapshot best, or None."""
    best: tuple[int, Group] | None = None
    for members in groups:
        if members[0]["what"] != "oom" or members[0]["resource"] != "device" or "heap" in members[0]:
            continue
        if None not in (members[0]["rank"], root["rank"]) and members[0]["rank"] != root["rank"]:
            continue
        agreeing = _agreeing(connection, members[0], heap)
        if agreeing is not None and (best is None or agreeing >= best[0]):
            best = agreeing, members
    return best[1] if best is not None else None


def _agreeing(connection: "duckdb.DuckDBPyConnection", root: EvidenceRow, heap: EvidenceRow) -> int | None:
    """How many figures agree within their print; None where what was asked for does not, or nothing can be compared but
    what was allocated and that does not."""
    (figures,) = ask(connection, "figures", {"stream": root["stream"], "seq": root["seq"]}) or ({},)
    asked = segment_bytes(heap["oom_bytes"]) if heap["oom_bytes"] is not None else None
    pairs = (
        (figures.get("requested_bytes"), asked, figures.get("resolution_bytes") or 0),
        (figures.get("allocated_true_bytes"), heap["allocated_bytes"], PRINTED_BYTES),
        (figures.get("framework_bytes"), heap["reserved_bytes"], 2 * PRINTED_BYTES),
    )
    same = [None if one is None or other is None else abs(one - other) <= room for one, other, room in pairs]
    if same[0] is False or (same[0] is None and same[1] is False):
        return None
    return sum(value is True for value in same)
