"""Whatever a log is wrapped in, line by line and in any order, it tells the same of the same lines."""

from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oomctl.collectors.artifacts.logs.lines import Lines
from oomctl.schemas.rows import Row
from oomctl.schemas.verdict import Incident
from tests.envelopes.logs import BARE, fixtures
from tests.envelopes.wraps import LEARNED, LINES, wrapped
from tests.logs.reading import read
from tests.metamorphic.verdicts import essence
from tests.triage.logs import triaged

LOGS = fixtures()
NAMERS = ("ray, repeated",)
"""They say of lines that name no process which one it was."""


def told(text: str, *, names: bool) -> list[str]:
    """What a log's rows say, each with its line; not when, where, in which envelope, and as which of several tracebacks."""
    return sorted(
        repr((row["line"], row.get("rank"), names and row.get("rank_name"), row["incarnation"], _fields(row)))
        for row in read(text)
        if row["kind"] not in ("log", "loss")
    )


def _fields(row: Row) -> dict[str, object]:
    return {name: value for name, value in row[row["kind"]].items() if name != "stack_id"}


@cache
def told_plain(name: str, names: bool) -> list[str]:
    return told(LOGS[name], names=names)


def verdicts(text: str) -> list[tuple[object, ...]]:
    """Each incident's verdict, class, resource and cause, with the line of its first citation, which is the root's."""
    return [(essence(found), _root_line(found)) for found in triaged(text)]


@cache
def verdicts_plain(name: str) -> list[tuple[object, ...]]:
    return verdicts(LOGS[name])


def _root_line(incident: Incident) -> int | None:
    return next((cite.line for statement in incident.evidence for cite in statement.cites), None)


def _fits(name: str, wraps: tuple[str, ...]) -> bool:
    """Whether a log can stand in these envelopes: a prefix that must be learned needs a header that teaches it, and the
    kernel does not print through Ray.
    """
    if name.startswith("host_kill_kernel"):
        return not set(wraps) & set(NAMERS)
    return name not in BARE or not set(wraps) & {*LEARNED, *NAMERS}


@pytest.mark.parametrize("wrap", LINES)
def test_every_envelope(wrap: str) -> None:
    """The logs take turns, so that each meets many envelopes, and all of them every one in some."""
    names = [name for name in LOGS if _fits(name, (wrap,))]
    turn = list(LINES).index(wrap) % 6
    for name in {*names[turn::6], *(name for name in BARE if name in names)}:
        keep = wrap not in NAMERS
        assert told(wrapped(LOGS[name], wrap), names=keep) == told_plain(name, keep), name


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(list(LOGS)), st.lists(st.sampled_from(list(LINES)), min_size=3, max_size=3, unique=True))
def test_any_nesting_of_three(name: str, wraps: list[str]) -> None:
    if _fits(name, tuple(wraps)):
        keep = not set(wraps) & set(NAMERS)
        assert told(wrapped(LOGS[name], *wraps), names=keep) == told_plain(name, keep)


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(list(LOGS)), st.lists(st.sampled_from(list(LINES)), min_size=1, max_size=3, unique=True))
def test_the_verdict_stays(name: str, wraps: list[str]) -> None:
    if _fits(name, tuple(wraps)):
        assert verdicts(wrapped(LOGS[name], *wraps)) == verdicts_plain(name)


def test_the_logs_have_verdicts() -> None:
    """A log without any would pass every test above."""
    silent = [name for name in LOGS if not told_plain(name, True)]
    assert [name for name in silent if not name.startswith("healthy")] == []


@pytest.mark.parametrize("wrap", LINES)
def test_an_envelope_changes_a_line(wrap: str) -> None:
    line = "(Worker_TP0 pid=4) INFO 03-14 15:09:26 [a.py:1] Model loading took 17.25 GiB memory"
    outer = LINES[wrap](9, line)
    assert outer != line
    (record,) = Lines().records(9, outer)
    assert record.text == "Model loading took 17.25 GiB memory"
