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


def join(groups: Iterable[list[EvidenceRow]]) -> list[list[EvidenceRow]]:
    """The groups of failures, each silent end joined to the kernel's word on it.

    The kernel's row stays the root, as it is the proof; under `home` it gets the place of the engine's end, about which
    everything else is to be asked.
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
    return [members for members in rooted if id(members) not in gone]


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
