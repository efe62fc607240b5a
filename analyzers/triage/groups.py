"""From failures to incidents: the first failure is the root, what follows without progress in between is its cascade."""

from collections.abc import Collection, Iterable
from datetime import timedelta
from typing import TYPE_CHECKING

from oomctl.analyzers.triage import across, death, heaps, kills
from oomctl.analyzers.triage.evidence import EvidenceRow, ask

if TYPE_CHECKING:
    import duckdb

MAX_MEMBERS = 256
MESSAGE_HEAD = 60
"""Characters of a message that tell it from others: its size and its device are among them."""
MIN_PRESSURE_REPORTS = 2
STRANGER = "other_process_killed"
"""A kill that did not concern the engine: an incident only where there is no other."""
WORDS = frozenset({"oom_kill", "evicted"})
"""What is said of a kill by who ordered it."""
CONSEQUENCES = frozenset({"peer_lost", "nccl_timeout", "watchdog", "xid", "oom_killer", "probe_kill", STRANGER})
"""Faults that tell of an end elsewhere, or go with one: never the root where an end is told."""
TOLD = frozenset({"sigkill", "segfault", "bus_error", "abort"})
"""Ends of which the status is known."""
APART = timedelta(minutes=10)
"""Failures of different ranks farther apart are no cascade."""


def incidents(connection: "duckdb.DuckDBPyConnection", besides: Collection[str] = frozenset()) -> list[list[EvidenceRow]]:
    """The members of each incident, the root first, in the order of their roots.

    Args:
        connection: With the event table and the derived views.
        besides: Streams that are left out.

    What the engine itself survived (retractions, preemptions, fallbacks) is one incident per worker, incarnation and kind,
    however much work was done in between; pressure that is only seen in the usage reports joins it. An engine that died
    without any such failure is one too.
    """
    failures, pressures, deaths, lives = (
        [row for row in ask(connection, name) if row["stream"] not in besides]
        for name in ("failures", "kv_pressure", "other_deaths", "lives")
    )
    hard = [row for row in failures if not row["soft"]]
    soft = [row for row in failures if row["soft"]]
    groups: dict[tuple[object, ...], list[EvidenceRow]] = {}
    for row in hard:
        _join_hard(groups, row)
    for row in soft:
        _join_soft(groups, row)
    for row in pressures:
        _join_pressure(groups, row)
    failed = {(row["stream"], row["worker"], row["incarnation"]) for row in hard if row["name"] != STRANGER}
    for row in deaths:
        life = (row["stream"], row["worker"], row["incarnation"])
        if life not in failed and not death.stopped(row):
            groups[*life, "death"] = [row]
    found = [_rooted(members) for members in groups.values() if not _chance(members)]
    found = kills.join(across.join(connection, heaps.join(connection, found)), lives)
    if any(members[0]["name"] != STRANGER for members in found):
        found = [members for members in found if members[0]["name"] != STRANGER]
    return sorted(found, key=lambda members: (members[0]["stream"], members[0]["seq"]))


def _join_hard(groups: dict[tuple[object, ...], list[EvidenceRow]], row: EvidenceRow) -> None:
    """The newest incident of its episode that the failure may belong to, or one of its own."""
    key = (row["stream"], row["worker"], row["incarnation"], row["episode"])
    parts = 0
    while (*key, parts) in groups:
        parts += 1
    for part in reversed(range(parts)):
        if not _apart(groups[*key, part], row):
            groups[*key, part].append(row)
            return
    groups[*key, parts] = [row]


def _apart(members: list[EvidenceRow], row: EvidenceRow) -> bool:
    """Whether a failure is of another rank and long after: a rank that waits for a dead one tells so as a fault."""
    if row["what"] == "fault" or row["ts"] is None or row["rank_name"] is None:
        return False
    if any(member["rank_name"] in (row["rank_name"], None) or member["ts"] is None for member in members):
        return False
    return all(abs(row["ts"] - member["ts"]) > APART for member in members)


def _chance(members: list[EvidenceRow]) -> bool:
    """Whether only the usage reports speak, and too few of them: requests that come and go may look alike once."""
    return all(row["what"] == "pressure" for row in members) and len(members) < MIN_PRESSURE_REPORTS


def _join_soft(groups: dict[tuple[object, ...], list[EvidenceRow]], row: EvidenceRow) -> None:
    fatal = _exhausted_later(groups, row)
    if fatal is not None:
        fatal.append(row)
        return
    groups.setdefault((row["stream"], row["worker"], row["incarnation"], "soft", row["resource"]), []).append(row)


def _join_pressure(groups: dict[tuple[object, ...], list[EvidenceRow]], row: EvidenceRow) -> None:
    """A usage report under pressure: evidence of the shortage that an error told, or an incident of its own."""
    member = {
        **row, "what": "pressure", "resource": "kv_blocks", "api": "engine", "name": "preemption", "message": None,
        "fatal": False, "stack_id": None, "soft": True, "device_id": None,
    }  # fmt: skip
    fatal = _exhausted_later(groups, row)
    if fatal is not None:
        fatal.append(member)
        return
    key = (row["stream"], row["worker"], row["incarnation"], "soft", "kv_blocks")
    groups.setdefault(key, []).append(member)


def _exhausted_later(groups: dict[tuple[object, ...], list[EvidenceRow]], row: EvidenceRow) -> list[EvidenceRow] | None:
    """The incident in which the same worker later failed for want of KV blocks, if there is one."""
    for members in groups.values():
        root = members[0]
        same = all(root[name] == row[name] for name in ("stream", "worker", "incarnation"))
        if (
            same
            and not root["soft"]
            and root["what"] == "oom"
            and root["resource"] == "kv_blocks"
            and root["seq"] > row["seq"]
        ):
            return members
    return None


def _repeats(root: EvidenceRow, row: EvidenceRow) -> bool:
    """Whether a line without a traceback says what a later traceback ends with, in the name of nobody else with a rank."""
    if root["what"] != "oom" or root["stack_id"] is not None or row["what"] != "oom" or row["stack_id"] is None:
        return False
    if root["resource"] != row["resource"] or (root["rank"] is not None and root["rank_name"] != row["rank_name"]):
        return False
    said = (row["message"] or "").partition("\n")[0][:MESSAGE_HEAD]
    return bool(said) and said in (root["message"] or "")


def _rooted(members: Iterable[EvidenceRow]) -> list[EvidenceRow]:
    """Members with the root first: the first failure; an error before the pressure that led to it.

    A kill may be noticed by the supervisor before the kernel's word is read; the kernel's word is then the root. A refusal
    or an out-of-memory is the root even if a fault that cannot be read as memory stands before it; and an end is the root
    even if a peer that waited for the dead one cried before it. What a router repeats of an error may be printed before the
    traceback of it, which is then the root.
    """
    ordered = sorted(members, key=lambda row: row["seq"])
    hard = [row for row in ordered if not row["soft"]] or ordered
    root = hard[0]
    if root["what"] == "killed":
        root = next((row for row in hard if row["name"] in WORDS), root)
    elif root["name"] == "admission":
        root = next((row for row in hard if row["what"] == "oom"), root)
    elif root["what"] == "fault":
        # NCCL's watchdog aborts its own process once it has given up.
        last_words = {*CONSEQUENCES, "abort"} if root["name"] == "nccl_timeout" else CONSEQUENCES
        ends = [row for row in hard if row["what"] != "fault" or row["name"] not in last_words]
        plain = next((row for row in hard if row["what"] in ("oom", "refusal")), None)
        root = plain or next(iter(ends), root) if root["name"] in CONSEQUENCES else plain or root
    if root["what"] == "killed" and root["name"] == "vanished":
        # How it ended may be told a line later: a status, or a signal.
        root = next((row for row in hard if row["name"] in TOLD), root)
    root = next((row for row in hard if _repeats(root, row)), root)
    rest = [row for row in ordered if row is not root]
    return [root, *rest[:MAX_MEMBERS]]
