"""From inputs to a report: the verdict, the answers beside it, and the charts of both."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from oomctl.report.answers import Answer, ask
from oomctl.report.panels import NAMES
from oomctl.schemas.verdict import Triage

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from oomctl.inputs import Report as Warn
    from oomctl.report.charts import Spec

MARKED = 20
"""So many failures are marked over time."""
MAPS = 8
"""So many heaps are drawn, one for each device of each snapshot."""
_SNAPSHOTS = "SELECT DISTINCT stream, device_id FROM segment WHERE total_bytes > 0 AND device_id IS NOT NULL ORDER BY ALL"


@dataclass(frozen=True)
class Report:
    """What each form of the report is written from.

    Attributes:
        triage: The verdict.
        answers: Of the queries of all sections, by name.
        maps: The allocator's segments as SVG, where a snapshot was read.
    """

    triage: Triage
    answers: dict[str, Answer]
    maps: list[str] = field(default_factory=list)


def build(paths: Sequence[str], warn: "Warn | None" = None, last: bool = False) -> Report:
    """Read, judge and ask.

    Args:
        paths: Logs and recordings, as `oomctl triage` takes them.
        warn: Called with each input that could not be read, where others could.
        last: Only the newest start of a worker that failed again and again.
    """
    from oomctl import queries
    from oomctl.pipeline import judged

    with judged(paths, last=last, warn=warn) as (connection, triage):
        queries.install(connection)
        return Report(triage, ask(connection, NAMES), _maps(connection))


def specs(report: Report) -> "dict[str, Spec]":
    """The charts, by the key of the section that they belong to; a section without figures has none."""
    from oomctl.report import charts
    from oomctl.report.timeline import timeline

    incidents = report.triage.incidents
    tree = next((incident.memory_at_oom for incident in incidents if incident.memory_at_oom is not None), None)
    drawn = {
        "memory": charts.waterfall(tree) if tree is not None else None,
        "ranks": charts.ranks(report.answers["ranks_compared"]),
        "cohorts": charts.cohorts(report.answers["reserved_and_output"]),
        "heap": charts.heap(report.answers["heap_pools"]),
    }
    found = {key: spec for key, spec in drawn.items() if spec is not None}
    over_time = timeline(report.answers, [incident.ts for incident in incidents[:MARKED] if incident.ts])
    return found if over_time is None else found | {"time": over_time}


def _maps(connection: "DuckDBPyConnection") -> list[str]:
    """The segments of each snapshot in the event table, drawn."""
    snapshots = connection.execute(_SNAPSHOTS).fetchall()
    if not snapshots:
        return []
    from oomctl.analyzers.allocator.recorded import recorded_state
    from oomctl.cli.render.heap_page import pool_maps

    maps: list[str] = []
    for stream, devices in groupby(snapshots[:MAPS], itemgetter(0)):
        seen, _ = recorded_state(connection, stream)
        maps += [pool_maps(seen, device) for _, device in devices]
    return maps
