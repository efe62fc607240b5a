"""What was found, for programs: JSON, JSON lines, CSV. What a terminal obeys is escaped, in JSON without loss."""

import csv
import io

import msgspec

from oomctl.cli.render.text import escape, json_line
from oomctl.schemas.verdict import Incident, Triage

CSV_COLUMNS = (
    "id", "verdict", "class", "code", "resource", "confidence", "survived", "phase", "worker", "incarnation", "rank",
    "ts", "ts_quality", "requested_bytes", "short_bytes", "first_cause", "summary",
)  # fmt: skip


def triage_jsonl(triage: Triage) -> str:
    """One incident per line."""
    return "".join(json_line(incident) for incident in triage.incidents)


def triage_csv(triage: Triage) -> str:
    """One row per incident; NULL is empty."""
    target = io.StringIO()
    writer = csv.writer(target, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    writer.writerows(_csv_row(incident) for incident in triage.incidents)
    return target.getvalue()


def _csv_row(incident: Incident) -> list[object]:
    record = msgspec.to_builtins(incident)
    record["first_cause"] = incident.causes[0].cause if incident.causes else None
    if incident.survived is not None:
        record["survived"] = str(incident.survived).lower()
    values = (record[column] for column in CSV_COLUMNS)
    return [escape(value) if isinstance(value, str) else value for value in values]
