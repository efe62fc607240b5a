"""The engines' own line headers: what they look like is each reader's business, how they are found is done here."""

import re
from dataclasses import dataclass

LEVELS = {
    "T": "DEBUG", "V": "DEBUG", "D": "DEBUG", "I": "INFO", "W": "WARNING", "E": "ERROR", "F": "CRITICAL",
    "TRACE": "DEBUG", "VERBOSE": "DEBUG", "WARN": "WARNING", "FATAL": "CRITICAL",
}  # fmt: skip
"""Levels as engines abbreviate them."""

_RANK_PART = re.compile(r"(DP|PP|TP|EP|CP|rank=|rank )(\d+)")

PROCESS = re.compile(
    r"\((?P<process>[A-Za-z][\w.:/<>-]{0,160}(?:\([^()]{0,80}\))?)(?P<rank> rank=\d+)? pid=(?P<pid>\d{1,10})"
    r"(?:, ip=(?P<ip>[\da-fA-F.:]{1,45}))?\) ?"
    r"|\[(?P<distributed>rank\d+)\]:? ?"
)
"""`(Worker_TP0 pid=4) `, `(VllmWorker rank=1 pid=8) `, Ray's `(RayWorker pid=1, ip=10.0.0.2) `,
`(ServeReplica:app:LLM pid=1) ` and `(Worker(rank=1) pid=1) `, torchrun's `[rank0]: `."""


@dataclass(frozen=True)
class HeaderPattern:
    """How an engine begins its lines.

    Attributes:
        engine: Whose.
        pattern: Groups level, ts, logger, ranks, all optional; what follows the match is the text.
        anchor: A literal that every headed line holds, so that the pattern is searched for in few lines only.
        year: Whether ts carries a year.
    """

    engine: str
    pattern: re.Pattern[str]
    anchor: re.Pattern[str]
    year: bool


def rank_of(name: str) -> int | None:
    """The global rank that a printed name gives for certain: a lone TP rank, or torch's own `rank=`.

    `DP1_TP3` or `PP1_TP0` need the sizes of the groups, which the line does not tell.
    """
    parts = {kind.strip(" ="): int(number[:6]) for kind, number in _RANK_PART.findall(name)}
    if "rank" in parts:
        return parts["rank"]
    if "TP" in parts and not parts.get("DP") and not parts.get("PP"):
        return parts["TP"]
    return None
