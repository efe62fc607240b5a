"""Where a fleet's recordings lie, on a file system or in an object store; Spark, Trino and ClickHouse find them there too.

    date=2026-03-11/node=gpu-7/worker=w0/hour-02.parquet        what was recorded in that hour (UTC), each row in one file
    date=2026-03-11/node=gpu-7/worker=w0/_context-02.parquet    what an hour's triage needs of the hours beside it

Names in the paths are escaped as Hive does it, and what is not known is `__HIVE_DEFAULT_PARTITION__`, which readers of such
layouts take for NULL. A name that begins with `_` is no data to them: a row's copies in a context are counted by nobody.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote, unquote

UNKNOWN = "__HIVE_DEFAULT_PARTITION__"
KEYS = ("date", "node", "worker")
HOUR = "hour-"
CONTEXT = "_context-"
FINDINGS = "findings-"
"""What was found in a folder of units, in a place of its own."""
SUFFIX = ".parquet"
_PLACE = re.compile(r"(?:.*/)?date=([^/]*)/node=([^/]*)/worker=([^/]*)/hour-(\d\d|none)(-\d{1,6})?\.parquet")
_SAFE = " !$&()+,;@~"
"""Characters beside letters, digits and -_. that a path may hold as they are."""


@dataclass(frozen=True, order=True)
class Place:
    """One hour of one worker.

    Attributes:
        node: Where it ran; None where that is not known.
        worker: Which.
        hour: Its beginning, in UTC; None for rows whose stream tells no time.
        number: 1, or more where two recordings of that hour contradict each other.
    """

    node: str | None
    worker: str | None
    hour: datetime | None
    number: int = 1

    @property
    def folder(self) -> str:
        """Where it lies, below the root."""
        day = None if self.hour is None else f"{self.hour:%Y-%m-%d}"
        return "/".join(f"{key}={_escaped(value)}" for key, value in zip(KEYS, (day, self.node, self.worker), strict=True))

    @property
    def path(self) -> str:
        """Its rows."""
        return f"{self.folder}/{HOUR}{self._name}"

    @property
    def context(self) -> str:
        """What its triage needs beside them."""
        return f"{self.folder}/{CONTEXT}{self._name}"

    @property
    def _name(self) -> str:
        again = "" if self.number == 1 else f"-{self.number}"
        return f"{'none' if self.hour is None else f'{self.hour:%H}'}{again}{SUFFIX}"


def place_of(path: str) -> Place | None:
    """The hour whose rows lie there; None where it is no path of this layout."""
    told = _PLACE.fullmatch(path)
    if told is None:
        return None
    day, node, worker = (None if value == UNKNOWN else unquote(value) for value in told.groups()[:3])
    try:
        known = day is not None and told[4] != "none"
        hour = datetime.strptime(f"{day} {told[4]}", "%Y-%m-%d %H").replace(tzinfo=UTC) if known else None
    except ValueError:
        return None
    return Place(node, worker, hour, int(told[5][1:]) if told[5] else 1)


def _escaped(value: str | None) -> str:
    if value is None:
        return UNKNOWN
    # A name of dots alone would be another folder, and an empty one no name.
    return quote(value, safe=_SAFE) if value.strip(".") else quote(value, safe=_SAFE).replace(".", "%2E") or "%00"
