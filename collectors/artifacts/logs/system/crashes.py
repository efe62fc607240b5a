"""Processes that broke without a traceback, and peers that notice that one is gone."""

from oomctl.collectors.artifacts.logs.fact import Fact
from oomctl.collectors.artifacts.logs.pattern import Pattern
from oomctl.collectors.artifacts.logs.system import ends

_CRASHES: tuple[tuple[str, Pattern], ...] = (
    (
        "segfault",
        Pattern(
            r"\b[Ss]egmentation [Ff]ault\b|!{3,} ?Segfault encountered|\bSIGSEGV\b(?! or other)|\bsegfault at [0-9a-f]"
            r"|Caught signal 11\b|\btraps: \S{1,64} general protection fault\b"
        ),
    ),
    ("bus_error", Pattern(r"\bBus error\b(?! or)|\bSIGBUS\b|Caught signal 7\b")),
    ("nccl_timeout", Pattern(r"Watchdog caught collective operation timeout")),
    ("abort", Pattern(r"^Aborted(?: \(core dumped\)|\s{2,}\(core dumped\).*)?$|Fatal Python error: Aborted")),
)
_PEER_CONTEXT = Pattern(r"(?i)nccl|gloo|c10d|tcpstore|processgroup|rccl|hccl|distbackend|distnetwork")
_PEER_LOST = Pattern(
    r"(?i)connection (?:was )?(?:likely )?(?:reset|closed|refused) by (?:remote )?peer|connection reset|broken pipe"
    r"|ncclRemoteError|remote process (?:exited|has)|failed to recv, got 0 bytes|socket closed"
    r"|Connection closed by peer|network error"
)
_ADVICE = Pattern(r"^\[?W|\bINFO\b|NCCL INFO")
"""glog's warning prefix: at an orderly end the store's clients complain too."""


def facts(text: str) -> list[Fact]:
    """What a line tells of a crash."""
    for code, pattern in _CRASHES:
        if pattern.search(text) is not None:
            return [ends.crashed(code, text)]
    lost = peer_lost("", text)
    return [lost] if lost is not None and _ADVICE.search(text) is None else []


def peer_lost(error_type: str, message: str) -> Fact | None:
    """The fault of a rank that lost the connection to another one: the other one is the story."""
    head = f"{error_type}: {message[:2000]}"
    if _PEER_LOST.search(head) is not None and _PEER_CONTEXT.search(head) is not None:
        return Fact("fault", {"code": "peer_lost", "detail": message[: ends.MAX_DETAIL], "fatal": True})
    return None
