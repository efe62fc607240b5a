"""One unit to its findings, in a local process or on a node of a cluster. Bad input is a finding, never an error."""

import hashlib
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oomctl import __version__
from oomctl.fleet.quiet import look
from oomctl.fleet.store import Store
from oomctl.fleet.units import Unit
from oomctl.schemas import ddl, storage
from oomctl.schemas.errors import OomctlError
from oomctl.schemas.events import KINDS
from oomctl.schemas.partitions import SUFFIX
from oomctl.schemas.verdict import Incident

if TYPE_CHECKING:
    import duckdb

Finding = dict[str, Any]
"""A row of `oomctl.schemas.fleet.FINDINGS`; what it lacks is NULL."""

JUDGES = ("schemas", "collectors", "queries", "analyzers", "fleet")
"""Packages that a verdict follows from."""
HOUR = timedelta(hours=1)
MOST_TOLD = 300
"""Characters of a problem."""
MOST_UNITS = 64
"""Judged on one connection, before what it keeps of their rows is given back."""
_MANIFEST = "SELECT section, key, value, epoch_us(ts), stream, seq FROM manifest"
_AGAIN = f"SELECT 1 FROM events JOIN {storage.PARQUET} AS beside USING (stream, seq) LIMIT 1"
_NODES = "SELECT DISTINCT node FROM events WHERE node IS NOT NULL"


@cache
def analyzer() -> str:
    """The version of oomctl, and a digest of the code and data that a verdict follows from."""
    digest = hashlib.sha256()
    for package in JUDGES:
        for name, content in sorted(_sources(files(f"oomctl.{package}"), package)):
            digest.update(f"{name}\n{len(content)}\n".encode() + content)
    return f"{__version__}+{digest.hexdigest()[:12]}"


def judge(unit: Unit) -> list[Finding]:
    """The findings of a unit: a row per incident, or one that says that there is none, or why it could not be read."""
    place, store = unit.place, Store(unit.root)
    common: Finding = {"unit": unit.name, "identity": unit.identity, "analyzer": analyzer()}
    if place is not None:
        common |= {"node": place.node, "worker": place.worker, "hour": place.hour}
    with tempfile.TemporaryDirectory(prefix="oomctl-") as folder:
        copy = Path(folder) / unit.path.rpartition("/")[2]
        try:
            if not store.fetch(unit.path, copy):
                raise OomctlError(f"gone since it was listed ({unit.name})")
            beside = copy.with_name("_context")
            context = beside if unit.context is not None and store.fetch(unit.context, beside) else None
            quiet = look(copy, context) if copy.suffix == SUFFIX else None
            if quiet is not None:
                about = _about(quiet.manifest, quiet.nodes, common)
                return [common | about | {"rows": quiet.rows, "outcome": "clean"}]
            return _judged(unit, common, copy, context)
        except OomctlError as error:
            problem = error.what
        except Exception as error:  # one unit's defect must not cost the others their verdict
            problem = f"internal error: {type(error).__name__}: {error}"
    return [common | {"outcome": "unreadable", "problem": problem.replace(str(copy), unit.name)[:MOST_TOLD]}]


def failed(unit: Unit, problem: str) -> list[Finding]:
    """The findings of a unit whose process died of it."""
    return [
        {"unit": unit.name, "identity": unit.identity, "analyzer": analyzer(), "outcome": "unreadable", "problem": problem}
    ]


def _judged(unit: Unit, common: Finding, copy: Path, context: Path | None) -> list[Finding]:
    from oomctl.analyzers.fleet.fingerprint import VERSION, fingerprint
    from oomctl.analyzers.triage import survey
    from oomctl.analyzers.triage.asked import CUT

    place = unit.place
    problems: list[str] = []
    with _Loaded(copy, unit.name, problems) as (connection, rows):
        if context is not None:
            again = bool(connection.execute(_AGAIN, [str(context)]).fetchall())
            storage.load_parquet(connection, context, unit.context, once=again, cut=CUT)
        incidents, omitted = survey(connection)
        nodes = [row[0] for row in connection.execute(_NODES).fetchall()]
        common |= _about(connection.execute(_MANIFEST).fetchall(), nodes, common) | {"rows": rows}
        if omitted:
            problems.append(f"{omitted} more failures were counted and not looked into")
        common["problem"] = "; ".join(problems).replace(str(copy), unit.name)[:MOST_TOLD] or None
        found: list[Finding] = []
        for incident in incidents:
            when = None if incident.ts is None else datetime.fromisoformat(incident.ts).astimezone(UTC)
            if place is not None and place.hour and when and not place.hour <= when < place.hour + HOUR:
                continue  # it is told by the hour in which it happened
            own = fingerprint(connection, incident)
            print_ = {"fingerprint_version": VERSION, "fingerprint": own.digest, "fingerprint_parts": own.text}
            found.append(common | _finding(incident, common, when) | print_)
            if found[-1]["worker"] == str(copy):  # a log that names no worker is its own
                found[-1]["worker"] = unit.name
    return found or [common | {"outcome": "clean"}]


def _about(manifest: Sequence[tuple[Any, ...]], nodes: Sequence[str], common: Finding) -> Finding:
    """What a unit's rows tell of its worker; of its manifest the last word."""
    told: dict[str, str] = {}
    for section, key, value, *_ in sorted(manifest, key=_moment):
        if section == "engine" and key in ("name", "version"):
            told[key] = str(value)
        elif section not in ("engine", None) and key in ("model", "model_path"):
            told["model"] = str(value)
    return {
        "node": common.get("node") or (nodes[0] if len(nodes) == 1 else None),
        "engine": told.get("name"),
        "engine_version": told.get("version"),
        "model": told.get("model"),
    }


def _moment(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """By which rows of the manifest are ordered: those without a time first."""
    ts, stream, seq = row[3:]
    return ts is not None, ts or 0, stream or "", seq or 0


def _finding(incident: Incident, common: Finding, when: datetime | None) -> Finding:
    exact = when is not None and incident.ts_quality == "exact"  # others may lack their year, and are not of one clock
    return {
        "outcome": "incident",
        "worker": common.get("worker") or incident.worker,
        "hour": common.get("hour")
        or (when.replace(minute=0, second=0, microsecond=0) if when is not None and exact else None),
        "engine": incident.engine or common["engine"],
        "engine_version": incident.engine_version or common["engine_version"],
        "incident": incident.id,
        "verdict": incident.verdict,
        "class": incident.oom_class,
        "cause": incident.causes[0].cause if incident.causes else None,
        "resource": incident.resource,
        "confidence": incident.confidence,
        "survived": incident.survived,
        "summary": incident.summary,
        "ts": when if exact else None,
        "requested_bytes": incident.requested_bytes,
        "short_bytes": incident.short_bytes,
        "repeats": incident.repeats,
    }


class _Loaded:
    """The event table of one file, and how many rows it has.

    That of Parquet is emptied and used again, for making one costs as much as judging.
    """

    _kept: "duckdb.DuckDBPyConnection | None" = None
    _judged = 0

    def __init__(self, path: Path, name: str, problems: list[str]) -> None:
        self._path = path
        self._name = name
        self._problems = problems
        self._own: duckdb.DuckDBPyConnection | None = None

    def __enter__(self) -> "tuple[duckdb.DuckDBPyConnection, int]":
        from oomctl.analyzers.triage.asked import CUT

        if self._path.suffix == SUFFIX:
            connection = self._emptied()
            return connection, storage.load_parquet(connection, self._path, self._name, cut=CUT)
        from oomctl.pipeline import open_inputs

        loaded = open_inputs([str(self._path)], lambda error: self._problems.append(error.what), CUT)
        self._own = loaded.connection
        return loaded.connection, sum(entry.rows for entry in loaded.inputs)

    def __exit__(self, *details: object) -> None:
        if self._own is not None:
            self._own.close()
        elif details[0] is not None:
            self._give_back()

    @classmethod
    def _emptied(cls) -> "duckdb.DuckDBPyConnection":
        if cls._kept is not None and cls._judged % MOST_UNITS == 0:
            cls._give_back()
        cls._judged += 1
        if cls._kept is None:
            cls._kept = storage.connect()
            cls._kept.execute("SET threads = 1")  # there is a process for each core
            return cls._kept
        for kind in KINDS.values():
            cls._kept.execute(f"TRUNCATE {ddl.stored(kind)}")
        return cls._kept

    @classmethod
    def _give_back(cls) -> None:
        if cls._kept is not None:
            cls._kept.close()
            cls._kept = None


def _sources(folder: Traversable, name: str) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for entry in folder.iterdir():
        path = f"{name}/{entry.name}"
        if entry.is_dir():
            found += _sources(entry, path) if entry.name != "__pycache__" else []
        elif entry.name.endswith((".py", ".sql", ".toml")):
            found.append((path, entry.read_bytes()))
    return found
