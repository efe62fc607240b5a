"""Read a log given as text or bytes, and look at its rows."""

import os
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from oomctl.collectors.artifacts.logs import LogReading, read_log
from oomctl.schemas.rows import Row
from tests.working_tree import ROOT

FAILURES = ("oom", "refusal", "fault")
NOTHING_PRINTED = frozenset({"stream", "seq", "source", "quality", "ts", "ts_quality", "worker", "node"})
"""Common columns that an outer prefix or a missing time stamp may change."""


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


def shared(*parts: str) -> Path:
    """A file or folder of the shared data; the calling test is skipped where it is not there."""
    path = Path(os.environ.get("OOMCTL_SHARED") or ROOT.parent / "shared").joinpath(*parts)
    if not path.exists():
        pytest.skip(f"no shared data ({path}); set OOMCTL_SHARED")
    return path


def has_shared() -> bool:
    """Whether the shared data is there, for the parameters of tests."""
    return (Path(os.environ.get("OOMCTL_SHARED") or ROOT.parent / "shared") / "data").is_dir()


def shared_logs(*patterns: str) -> list[Path]:
    """The shared logs that match, for the parameters of tests; empty where there are none."""
    root = Path(os.environ.get("OOMCTL_SHARED") or ROOT.parent / "shared") / "data"
    return sorted(path for pattern in patterns for path in root.glob(pattern))
