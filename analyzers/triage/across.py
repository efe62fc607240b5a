"""One failure that several sources tell of, such as the logs of the ranks of one worker.

Within a source the order of lines tells what came first. Across sources only times do, and clocks differ: so what a failure
is goes before when it was told. A rank that waits for a dead one, a supervisor that misses a process and an engine that
reports its own end are echoes of an allocation that failed elsewhere, never its cause. What the kernel says of an end is
brought to it afterwards (kills).
"""

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from oomctl.analyzers.triage.evidence import EvidenceRow, ask

if TYPE_CHECKING:
    import duckdb

Group = list[EvidenceRow]
"""The members of an incident, the root first."""

SKEW = timedelta(seconds=90)
"""By how much the clocks of two nodes may differ, and ranks fail one after the other."""
NOTICED = timedelta(minutes=3)
"""Within which a supervisor or an engine misses a process."""
WAITED = timedelta(minutes=31)
"""Within which a rank gives up on another: NCCL waits ten minutes unless told otherwise, Gloo thirty."""
WAITERS = frozenset({"nccl_timeout", "watchdog"})
_SIGNIFICANCE = {"oom": 0, "refusal": 0, "killed": 1, "fault": 2, "death": 3}
SYSTEM = frozenset({"oom_kill", "oom_killer", "other_process_killed", "probe_kill", "xid"})
"""What the kernel, a driver or a supervisor says of processes: no rank speaks there."""


@dataclass
class Teller:
    """What a source says of itself.

    Attributes:
        ranks: Who writes it.
        starts: Whether an engine announces itself in it.
        engines: Their names.
        models: What they load.
    """

    ranks: set[str] = field(default_factory=set)
    starts: bool = False
    engines: set[str] = field(default_factory=set)
    models: set[str] = field(default_factory=set)


def join(connection: "duckdb.DuckDBPyConnection", groups: list[Group]) -> list[Group]:
    """The incidents, those of several sources that tell of one failure put together, the likeliest root first."""
    hard = [members for members in groups if not members[0]["soft"] and members[0]["what"] in _SIGNIFICANCE]
    hard = [members for members in hard if members[0]["name"] not in SYSTEM]
    if len({_source(members) for members in hard}) < 2:
        return groups
    across = _Across(connection)
    clusters: list[list[Group]] = []
    for members in sorted(hard, key=lambda each: (_weight(each), _moment(each), _source(each))):
        home = across.home(clusters, members)
        if home is None:
            clusters.append([members])
        else:
            home.append(members)
    whole = [[row for members in cluster for row in members] for cluster in clusters]
    return [members for members in groups if not any(members is each for each in hard)] + whole


class _Across:
    """Which sources belong to one worker, and which failures to one another."""

    def __init__(self, connection: "duckdb.DuckDBPyConnection") -> None:
        self._tellers: dict[tuple[str, str], Teller] = defaultdict(Teller)
        for row in ask(connection, "tellers"):
            teller = self._tellers[row["stream"], row["worker"]]
            if row["what"] == "start":
                teller.starts = True
            else:
                {"rank": teller.ranks, "engine": teller.engines, "model": teller.models}[row["what"]].add(row["name"])

    def home(self, clusters: list[list[Group]], members: Group) -> list[Group] | None:
        """The cluster that a failure belongs to: the nearest in time, or the only one where no times can be compared."""
        near: list[tuple[timedelta, list[Group]]] = []
        untimed: list[list[Group]] = []
        for cluster in clusters:
            if any(_source(each) == _source(members) or not self._related(each, members) for each in cluster):
                continue
            apart = _apart(cluster[0][0], members[0])
            if apart is None:
                if self._numbered(cluster[0], members):
                    untimed.append(cluster)
            elif -SKEW <= apart <= _patience(cluster[0], members):
                near.append((abs(apart), cluster))
        if near:
            return min(near, key=lambda item: item[0])[1]
        return untimed[0] if len(untimed) == 1 else None

    def _related(self, one: Group, other: Group) -> bool:
        """Whether two sources may be parts of one worker."""
        if _is_cause(one) and _is_cause(other) and one[0]["resource"] != other[0]["resource"]:
            return False
        a, b = self._tellers[_source(one)], self._tellers[_source(other)]
        if (a.engines and b.engines and not a.engines & b.engines) or (a.models and b.models and not a.models & b.models):
            return False
        if a.starts and b.starts:
            return bool(a.ranks and b.ranks) and not a.ranks & b.ranks
        return a.starts or b.starts or not a.ranks & b.ranks

    def _numbered(self, one: Group, other: Group) -> bool:
        """Whether both sources name ranks, which then are of one job even if no times say so."""
        return bool(self._tellers[_source(one)].ranks and self._tellers[_source(other)].ranks)


def _source(members: Group) -> tuple[str, str]:
    return members[0]["stream"], members[0]["worker"]


def _is_cause(members: Group) -> bool:
    return bool(members[0]["what"] in ("oom", "refusal"))


def _weight(members: Group) -> int:
    return _SIGNIFICANCE[members[0]["what"]]


def _moment(members: Group) -> float:
    moment = members[0]["ts"]
    return float("inf") if moment is None else (moment - moment.min).total_seconds()


def _apart(root: EvidenceRow, later: EvidenceRow) -> timedelta | None:
    """How long after a root something was told, or None where the two times cannot be compared.

    A time whose zone is unknown may be hours off one that names its zone. Two without a year have the same one.
    """
    one, other = root["ts"], later["ts"]
    if one is None or other is None or root["ts_quality"] != later["ts_quality"]:
        return None
    if root["ts_quality"] == "local" and one.year != other.year:
        one, other = one.replace(year=2000), other.replace(year=2000)
    difference: timedelta = other - one
    return difference


def _patience(root: Group, later: Group) -> timedelta:
    """How long after the root a failure may be told and still be of it."""
    if _is_cause(later):
        return SKEW
    return WAITED if later[0]["name"] in WAITERS else NOTICED
