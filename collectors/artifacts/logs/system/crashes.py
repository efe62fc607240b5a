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
    (
        "thread_limit",
        Pattern(
            r"\bpthread_create(?: failed\b[^\n]{0,60})?: (?:Resource temporarily unavailable|Operation not permitted)"
            r"|\bwhat\(\): +Resource temporarily unavailable|\bfork: (?:retry: )?Resource temporarily unavailable"
            r"|\bcan't start new thread\b|\bThread creation failed: Resource temporarily unavailable"
            r"|\bfailed to (?:create new OS|spawn) thread\b[^\n]{0,200}?\b(?:errno=|code: )11\b"
            r"|\bfork rejected by pids controller\b"
        ),
    ),
    ("nccl_timeout", Pattern(r"Watchdog caught collective operation timeout")),
    (
        "abort",
        Pattern(
            r"^(?:\S+: line \d{1,6}: +\d{1,10} )?Aborted(?: \(core dumped\)|\s{2,}\(core dumped\).*)?$"
            r"|Fatal Python error: Aborted"
        ),
    ),
)
"""In the order in which they are asked. EAGAIN of a new thread or process is a limit on their number, ENOMEM the host's
memory."""
_MAY_GO_ON = frozenset({"thread_limit"})
"""A library may do with fewer threads."""
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
            return [ends.crashed(code, text, fatal=None if code in _MAY_GO_ON else True)]
    lost = peer_lost("", text)
    return [lost] if lost is not None and _ADVICE.search(text) is None else []


def peer_lost(error_type: str, message: str) -> Fact | None:
    """The fault of a rank that lost the connection to another one: the other one is the story."""
    head = f"{error_type}: {message[:2000]}"
    if _PEER_LOST.search(head) is not None and _PEER_CONTEXT.search(head) is not None:
        return Fact("fault", {"code": "peer_lost", "detail": message[: ends.MAX_DETAIL], "fatal": True})
    return None
