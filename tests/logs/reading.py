"""Read a log given as text or bytes, and look at its rows."""

from collections.abc import Iterable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from oomctl.collectors.artifacts.logs import LogReading, read_log
from oomctl.schemas.rows import Row
from tests.shared import SHARED


def read(log: str | bytes, stream: str = "test.log") -> list[Row]:
    """All rows of a log."""
    return reading(log, stream)[1]


def reading(log: str | bytes, stream: str = "test.log") -> tuple[LogReading, list[Row]]:
    """The reading, read to its end, and its rows."""
    data = log.encode("utf-8", "surrogateescape") if isinstance(log, str) else log
    result = read_log(BytesIO(data), stream)
    return result, list(result.rows)


def of_kind(rows: Iterable[Row], *kinds: str) -> list[dict[str, Any]]:
    """The fields of the rows of some kinds."""
    return [row[row["kind"]] for row in rows if row["kind"] in kinds]


def one(log: str | bytes, kind: str) -> dict[str, Any]:
    """The fields of the only row of a kind."""
    found = of_kind(read(log), kind)
    assert len(found) == 1, found
    return found[0]


def facts(rows: Iterable[Row]) -> list[tuple[object, ...]]:
    """What a reader found, without what only places it: comparable between the same log in two envelopes."""
    return [
        (row["line"], row.get("rank"), row.get("rank_name"), row["incarnation"], row["kind"], row[row["kind"]])
        for row in rows
        if row["kind"] != "log"
    ]


NO_SHARED = [pytest.param(None, marks=pytest.mark.skip("no shared data: set OOMCTL_SHARED"))]
"""Stands for the parameters that a test takes from the shared data."""


def shared_logs(*patterns: str) -> list[Path]:
    """The shared logs that match, for the parameters of tests; empty where there are none."""
    return sorted(path for pattern in patterns for path in (SHARED / "data").glob(pattern))
