"""Incidents that came more often after a change of the engine's version: named only where the evidence bears it.

Compared are neighbouring versions of one engine on one model, so that another mix of models is no regression. All
comparisons together are wrong with at most 1 - CONFIDENCE (Bonferroni). A single worker, such as one on a bad node, is
never enough: what befalls one worker hour after hour is not independent.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import msgspec

from oomctl.analyzers.fleet.rates import ratio
from oomctl.analyzers.triage.remedies.versions import parse
from oomctl.schemas.fleet import Regression

if TYPE_CHECKING:
    import duckdb

CONFIDENCE = 0.95
LEAST_WORKERS = 2
_HOURS = """
SELECT engine, model, engine_version, count(DISTINCT unit), min(hour)
FROM finding
WHERE outcome <> 'unreadable' AND engine IS NOT NULL AND engine_version IS NOT NULL
GROUP BY ALL
"""
_HITS = """
SELECT
    engine, model, fingerprint, engine_version, count(DISTINCT unit), count(DISTINCT (node, worker)),
    any_value(fingerprint_parts)
FROM finding
WHERE outcome = 'incident' AND engine IS NOT NULL AND engine_version IS NOT NULL
GROUP BY ALL
"""


@dataclass
class _Same:
    """Incidents of one fingerprint, on one model.

    Attributes:
        parts: Why they are the same.
        hits: (hours, workers) that were hit, by version.
    """

    parts: str = ""
    hits: dict[str, tuple[int, int]] = field(default_factory=dict)


def regressions(connection: "duckdb.DuckDBPyConnection") -> tuple[int, tuple[Regression, ...]]:
    """How many pairs were compared, and those that are regressions, the largest first.

    Args:
        connection: With the table `finding`.
    """
    hours: dict[tuple[str, str | None], dict[str, tuple[int, Any]]] = defaultdict(dict)
    for engine, model, version, count, first in connection.execute(_HOURS).fetchall():
        hours[engine, model][version] = count, first
    same: dict[tuple[str, str | None, str], _Same] = defaultdict(_Same)
    for engine, model, print_, version, hit, workers, parts in connection.execute(_HITS).fetchall():
        found = same[engine, model, print_]
        found.parts = parts
        found.hits[version] = hit, workers
    pairs = [
        (key, old, new)
        for key, found in sorted(same.items(), key=lambda item: str(item[0]))
        for old, new in pairwise(_in_order(hours[key[:2]]))
        if old in found.hits or new in found.hits
    ]
    named = []
    for (engine, model, print_), old, new in pairs:
        found, known = same[engine, model, print_], hours[engine, model]
        (old_hit, _), (new_hit, workers) = (found.hits.get(version, (0, 0)) for version in (old, new))
        confidence = 1 - (1 - CONFIDENCE) / len(pairs)
        low, high = ratio(new_hit, known[new][0], old_hit, known[old][0], confidence)
        if low > 1 and workers >= LEAST_WORKERS:
            rates = new_hit / known[new][0], old_hit / known[old][0]
            named.append(
                Regression(
                    engine=engine,
                    model=model,
                    fingerprint=print_,
                    parts=msgspec.json.decode(found.parts),
                    old_version=old,
                    new_version=new,
                    old_hit_hours=old_hit,
                    old_worker_hours=known[old][0],
                    new_hit_hours=new_hit,
                    new_worker_hours=known[new][0],
                    new_workers=workers,
                    ratio=rates[0] / rates[1] if rates[1] else None,
                    ratio_low=low,
                    ratio_high=high,
                    confidence=confidence,
                )
            )
    return len(pairs), tuple(sorted(named, key=lambda one: (-one.ratio_low, one.fingerprint)))


def _in_order(versions: dict[str, tuple[int, Any]]) -> list[str]:
    """By number where all have one, else by when each was first seen: a revision may be a hash."""
    numbers = {version: parse(version) for version in versions}
    if all(number is not None for number in numbers.values()):
        return sorted(versions, key=lambda version: (numbers[version], str(versions[version][1]), version))
    return sorted(versions, key=lambda version: (str(versions[version][1]), version))
