"""What triage of a fleet keeps and says: the table of findings, and the summary of `oomctl fleet`; each declared once."""

from typing import Any, Literal

import msgspec

from oomctl.schemas import arrow
from oomctl.schemas.declare import DUCKDB_TYPES, Field, flag, integer, number, text

SCHEMA = "oomctl.fleet/0"
FINDINGS_KEY = "oomctl.findings_version"
"""Of a findings file's metadata."""
FINDINGS_VERSION = 0
"""Additive. A file of a newer version is refused before a row is read."""
OUTCOMES = ("incident", "clean", "unreadable")

FINDINGS: tuple[Field, ...] = (
    text("unit", "What was judged: the worker-hour's file, or a log's; the source of the finding."),
    text("identity", "Of that file, and of its context: another one is judged anew."),
    text("analyzer", "Version of oomctl, and a digest of what it judges by: another one judges anew."),
    text("outcome", "One row per incident; one row where there was none, or nothing could be read.", *OUTCOMES),
    text("problem", "Why it could not be read, or what of it could not."),
    integer("rows", "Of the event table that it had."),
    text("node", "Host, where known."),
    text("worker", "The engine instance."),
    Field("hour", "timestamp", "The worker-hour's beginning, or that of the incident, in UTC; NULL where no time is told."),
    text("engine", "Its name."),
    text("engine_version", "As it announces itself."),
    text("model", "As the engine was told."),
    text("incident", "Its id, as `oomctl triage` of the unit gives it."),
    text("verdict", "oom, capacity_gate, not_oom; NULL where undetermined."),
    text("class", "One of six; NULL where the evidence does not decide."),
    text("cause", "The first of its causes: what to mend."),
    text("resource", "Of what it ran out."),
    number("confidence", "0 to 1."),
    flag("survived", "Whether the worker went on."),
    text("summary", "The verdict in one sentence."),
    Field("ts", "timestamp", "The instant, in UTC; NULL where no time is told."),
    integer("requested_bytes", "Asked for."),
    integer("short_bytes", "Of these, what was not free."),
    integer("repeats", "How many earlier starts in the unit failed the same way."),
    integer("fingerprint_version", "By which rules two incidents are the same."),
    text("fingerprint", "Equal for incidents that are the same."),
    text("fingerprint_parts", "What it is made of, as JSON: why they are the same."),
)


class Count(msgspec.Struct, frozen=True, kw_only=True):
    """Incidents that share a value, against the worker-hours that had it."""

    value: str | None
    incidents: int
    hit_hours: int
    """Worker-hours with at least one: a crash loop counts once."""
    worker_hours: int | None = None
    """With that value, with or without an incident; None where only incidents have such a value."""
    rate: float | None = None
    """hit_hours / worker_hours."""
    rate_low: float | None = None
    rate_high: float | None = None
    """Clopper and Pearson's interval, 95 %."""


class Repeat(msgspec.Struct, frozen=True, kw_only=True):
    """Incidents that are the same."""

    fingerprint: str
    fingerprint_version: int
    parts: dict[str, Any]
    """Why."""
    summary: str
    """Of the newest."""
    incidents: int
    hit_hours: int
    workers: int
    nodes: int
    engine_versions: tuple[str, ...]
    first: str | None
    last: str | None
    unit: str
    """Of the newest: what to look into."""


class Regression(msgspec.Struct, frozen=True, kw_only=True):
    """An incident that came more often after a change of the engine's version, on the same model."""

    engine: str
    model: str | None
    fingerprint: str
    parts: dict[str, Any]
    old_version: str
    new_version: str
    old_hit_hours: int
    old_worker_hours: int
    new_hit_hours: int
    new_worker_hours: int
    new_workers: int
    """Workers hit under the new version."""
    ratio: float | None
    """Of the two rates; None where the old one is 0."""
    ratio_low: float
    """End of the exact interval, at `confidence`, all comparisons together."""
    ratio_high: float | None
    confidence: float


class Offender(msgspec.Struct, frozen=True, kw_only=True):
    """A worker or node with many incidents."""

    what: Literal["worker", "node"]
    name: str | None
    node: str | None
    incidents: int
    hit_hours: int
    worker_hours: int
    most: str | None
    """What it mostly was: class, else verdict."""


class Unreadable(msgspec.Struct, frozen=True, kw_only=True):
    """Why units could not be judged."""

    problem: str
    units: int
    unit: str
    """One of them."""


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """What `oomctl fleet --json` prints."""

    schema: str = SCHEMA
    worker_hours: int
    """Units that were judged: worker-hours, or logs."""
    unreadable: int
    incidents: int
    hit_hours: int
    workers: int
    nodes: int
    first: str | None
    last: str | None
    """First and last hour."""
    by_class: tuple[Count, ...]
    by_cause: tuple[Count, ...]
    by_model: tuple[Count, ...]
    by_engine_version: tuple[Count, ...]
    by_node: tuple[Count, ...]
    by_hour: tuple[Count, ...]
    repeats: tuple[Repeat, ...]
    regressions: tuple[Regression, ...]
    compared: int
    """Pairs of versions, per incident and model, that were compared; the regressions are those that the evidence bears."""
    offenders: tuple[Offender, ...]
    problems: tuple[Unreadable, ...]


def create_findings() -> str:
    """`CREATE TABLE` of the findings."""
    body = ",\n".join(f'    "{field.name}" {DUCKDB_TYPES[field.type]}' for field in FINDINGS)
    return f"CREATE TABLE finding (\n{body}\n);"


def findings_schema() -> Any:
    """The findings as pyarrow's schema."""
    import pyarrow as pa

    return pa.schema(arrow.fields(FINDINGS, "UTC"))
