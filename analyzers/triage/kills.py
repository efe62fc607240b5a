"""The kernel's word on a kill, brought together with the end that the engine's log shows, wherever the two stand.

The kernel's log comes pasted above or below the engine's, or as a file of its own. Its victim is the engine's process if
the pids agree, or if both are alone: one silent end, one kill.
"""

from collections.abc import Iterable
from datetime import timedelta

from oomctl.analyzers.triage import death
from oomctl.analyzers.triage.evidence import EvidenceRow

APART = timedelta(minutes=10)
PLACE = ("stream", "worker", "incarnation", "seq", "line")
"""What says whose life a row belongs to, and where in it."""
_CONSEQUENCES = frozenset({"peer_lost", "nccl_timeout", "watchdog"})


def join(groups: Iterable[list[EvidenceRow]], lives: Iterable[EvidenceRow] = ()) -> list[list[EvidenceRow]]:
    """The groups of failures, each silent end joined to the kernel's word on it.

    The kernel's row stays the root, as it is the proof; under `home` it gets the place of the engine's end, about which
    everything else is to be asked. A log that just stops has no end but its last row.

    Args:
        groups: Members of each incident, the root first.
        lives: Rows of lives.sql.
    """
    rooted = list(groups)
    words = [members for members in rooted if _is_word(members[0])]
    ends = [members for members in rooted if _is_end(members[0])]
    gone: set[int] = set()
    for word in words:
        matching = [end for end in ends if id(end) not in gone and _may_be(word[0], end[0], len(words), len(ends))]
        if len(matching) == 1:
            end = matching[0]
            gone.add(id(end))
            word[0] = {**word[0], "home": {name: end[0][name] for name in PLACE}}
            word.extend(end)
    left = [members for members in rooted if id(members) not in gone]
    failed = {_life(members[0]) for members in left if not _is_word(members[0])}
    silent = [life for life in lives if _life(life) not in failed]
    if len(words) == 1 and "home" not in words[0][0]:
        root = words[0][0]
        stopped = [life for life in silent if _just_stopped(root, life)]
        if len(stopped) == 1:
            words[0][0] = {**root, "home": {name: stopped[0][name] for name in PLACE}}
    return left


def _life(row: EvidenceRow) -> tuple[object, ...]:
    return row["stream"], row["worker"], row["incarnation"]


def _just_stopped(word: EvidenceRow, life: EvidenceRow) -> bool:
    """Whether a life may be the one that a kill ended: its log stands wholly beside the word, and near it in time."""
    if word["stream"] == life["stream"]:
        before, after = word["seq"] < life["first_seq"], life["seq"] <= word["seq"]
        return bool(before or (after and _life(word) != _life(life)))
    if word["ts"] is not None and life["ts"] is not None and word["ts_quality"] == life["ts_quality"] == "exact":
        return bool(abs(word["ts"] - life["ts"]) <= APART)
    return True


def _is_word(root: EvidenceRow) -> bool:
    if root["name"] == "evicted":
        return True
    return bool(root["what"] == "oom" and root["name"] == "oom_kill" and root["resource"] == "host")


def _is_end(root: EvidenceRow) -> bool:
    if root["what"] == "death":
        return not death.told(root)
    return root["what"] == "killed" or (root["what"] == "fault" and root["name"] in _CONSEQUENCES)


def _may_be(word: EvidenceRow, end: EvidenceRow, words: int, ends: int) -> bool:
    """Whether the kernel may have spoken of this end: near in time by two sure clocks, else for want of another."""
    if word["ts"] is not None and end["ts"] is not None and word["ts_quality"] == end["ts_quality"] == "exact":
        return bool(abs(word["ts"] - end["ts"]) <= APART)
    if word["stream"] == end["stream"]:
        return bool(word["worker"] == end["worker"] and word["incarnation"] == end["incarnation"]) or words == ends == 1
    return words == ends == 1
