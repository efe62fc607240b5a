"""What a fleet's findings have in common: how often, where, since when, and whose incidents are the same.

Rates are of worker-hours with at least one incident, against the worker-hours that were judged.
"""

from typing import TYPE_CHECKING, Any

import msgspec

from oomctl.analyzers.fleet.rates import share
from oomctl.analyzers.fleet.regressions import regressions
from oomctl.schemas.fleet import Count, Fleet, Offender, Repeat, Unreadable

if TYPE_CHECKING:
    import duckdb

MOST = 10
"""Offenders of each kind, and reasons why units could not be read."""
MOST_REPEATS = 50
OFFENCES = 2
"""Worker-hours with an incident, from which a worker or a node is named."""
_WHAT = "coalesce(class, verdict, 'undetermined')"
_TOTALS = """
SELECT
    count(DISTINCT unit) FILTER (outcome <> 'unreadable'), count(DISTINCT unit) FILTER (outcome = 'unreadable'),
    count(*) FILTER (outcome = 'incident'), count(DISTINCT unit) FILTER (outcome = 'incident'),
    count(DISTINCT (node, worker)) FILTER (worker IS NOT NULL), count(DISTINCT node), min(hour), max(hour)
FROM finding
"""
_REPEATS = f"""
SELECT
    fingerprint, fingerprint_version, any_value(fingerprint_parts), arg_max(summary, (ts, unit, incident)),
    count(*) + sum(repeats), count(DISTINCT unit), count(DISTINCT (node, worker)), count(DISTINCT node),
    list(DISTINCT engine_version ORDER BY engine_version) FILTER (engine_version IS NOT NULL),
    min(ts), max(ts), arg_max(unit, (ts, unit, incident))
FROM finding
WHERE outcome = 'incident'
GROUP BY fingerprint, fingerprint_version
HAVING count(*) + sum(repeats) > 1
ORDER BY count(DISTINCT unit) DESC, count(*) DESC, fingerprint
LIMIT {MOST_REPEATS}
"""
_PROBLEMS = f"""
SELECT problem, count(*), min(unit)
FROM (SELECT unit, replace(problem, unit, '...') AS problem FROM finding WHERE outcome = 'unreadable')
GROUP BY problem
ORDER BY count(*) DESC, problem
LIMIT {MOST}
"""


def summary(connection: "duckdb.DuckDBPyConnection") -> Fleet:
    """The summary of the table `finding`, of which a row is as `oomctl.schemas.fleet.FINDINGS` says."""
    judged, unreadable, incidents, hit, workers, nodes, first, last = connection.execute(_TOTALS).fetchall()[0]
    compared, named = regressions(connection)
    return Fleet(
        worker_hours=judged,
        unreadable=unreadable,
        incidents=incidents,
        hit_hours=hit,
        workers=workers,
        nodes=nodes,
        first=_iso(first),
        last=_iso(last),
        by_class=_of_incidents(connection, _WHAT),
        by_cause=_of_incidents(connection, "cause"),
        by_model=_of_hours(connection, "model"),
        by_engine_version=_of_hours(connection, "engine || coalesce(' ' || engine_version, '')"),
        by_node=_of_hours(connection, "node"),
        by_hour=_of_hours(connection, "strftime(hour, '%Y-%m-%dT%H:00:00Z')", "value"),
        repeats=tuple(_repeat(row) for row in connection.execute(_REPEATS).fetchall()),
        regressions=named,
        compared=compared,
        offenders=_offenders(connection, "worker") + _offenders(connection, "node"),
        problems=tuple(
            Unreadable(problem=problem or "not told", units=count, unit=unit)
            for problem, count, unit in connection.execute(_PROBLEMS).fetchall()
        ),
    )


def _of_incidents(connection: "duckdb.DuckDBPyConnection", value: str) -> tuple[Count, ...]:
    """By a value that only incidents have."""
    rows = connection.execute(
        f"SELECT {value} AS value, count(*), count(DISTINCT unit) FROM finding WHERE outcome = 'incident' "
        "GROUP BY value ORDER BY count(*) DESC, value NULLS LAST"
    ).fetchall()
    return tuple(Count(value=value, incidents=count, hit_hours=hit) for value, count, hit in rows)


def _of_hours(connection: "duckdb.DuckDBPyConnection", value: str, order: str = "incidents DESC") -> tuple[Count, ...]:
    """By a value that every worker-hour has; values without an incident are left out."""
    rows = connection.execute(
        f"SELECT {value} AS value, count(*) FILTER (outcome = 'incident') AS incidents, "
        "count(DISTINCT unit) FILTER (outcome = 'incident') AS hit, count(DISTINCT unit) AS hours "
        "FROM finding WHERE outcome <> 'unreadable' GROUP BY value HAVING incidents > 0 "
        f"ORDER BY {order}, value NULLS LAST"
    ).fetchall()
    found = []
    for value, count, hit, hours in rows:
        low, high = share(hit, hours)
        found.append(
            Count(
                value=value,
                incidents=count,
                hit_hours=hit,
                worker_hours=hours,
                rate=hit / hours,
                rate_low=low,
                rate_high=high,
            )
        )
    return tuple(found)


def _offenders(connection: "duckdb.DuckDBPyConnection", what: str) -> tuple[Offender, ...]:
    node = "node" if what == "worker" else "NULL"
    rows = connection.execute(
        f"SELECT {what} AS name, {node} AS node, count(*) FILTER (outcome = 'incident') AS incidents, "
        "count(DISTINCT unit) FILTER (outcome = 'incident') AS hit, count(DISTINCT unit) AS hours, "
        f"mode({_WHAT} ORDER BY {_WHAT}) FILTER (outcome = 'incident') AS most "
        f"FROM finding WHERE outcome <> 'unreadable' AND {what} IS NOT NULL GROUP BY ALL HAVING hit >= {OFFENCES} "
        f"ORDER BY hit DESC, incidents DESC, name, node LIMIT {MOST}"
    ).fetchall()
    kind: Any = what
    return tuple(
        Offender(what=kind, name=name, node=node, incidents=count, hit_hours=hit, worker_hours=hours, most=most)
        for name, node, count, hit, hours, most in rows
    )


def _repeat(row: tuple[Any, ...]) -> Repeat:
    print_, version, parts, said, count, hit, workers, nodes, versions, first, last, unit = row
    return Repeat(
        fingerprint=print_,
        fingerprint_version=version,
        parts=msgspec.json.decode(parts),
        summary=said,
        incidents=int(count),
        hit_hours=hit,
        workers=workers,
        nodes=nodes,
        engine_versions=tuple(versions or ()),
        first=_iso(first),
        last=_iso(last),
        unit=unit,
    )


def _iso(when: Any) -> str | None:
    return None if when is None else f"{when:%Y-%m-%dT%H:%M:%S}Z"
