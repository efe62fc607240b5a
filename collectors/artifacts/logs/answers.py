"""Whether a server answers on after a failure, by its access lines: whoever printed the failure had caught it.

Only those that stand not far below one are looked at: a busy server prints millions of them.
"""

from oomctl.collectors.artifacts.logs.fact import Fact, phase
from oomctl.collectors.artifacts.logs.pattern import Pattern
from oomctl.collectors.artifacts.logs.record import Record

WATCHED = 300
"""Lines below a failure."""
_ANSWERED = Pattern(r"[\"'](?:POST|PUT) \S{1,300} HTTP/[\d.]{1,4}[\"'] 200\b")


class Answers:
    """Watches the lines below a failure of one stream."""

    def __init__(self) -> None:
        self._until = 0

    def watch(self, record: Record, facts: list[Fact]) -> None:
        """Take note of a failure: an allocation that failed, and of which nothing says yet how it went on."""
        if any(fact.kind == "oom" and fact.fields.get("fatal") is None for fact in facts):
            self._until = record.line + WATCHED

    def wants(self, line: int) -> bool:
        """Whether a line is to be looked at."""
        return line <= self._until

    def facts(self, record: Record) -> list[Fact]:
        """The first answer below a failure; a request that only asks how the server is computes nothing."""
        if not self.wants(record.line) or "HTTP/" not in record.text or _ANSWERED.search(record.text) is None:
            return []
        self._until = 0
        return [phase("serving", "a request was answered after a failure")]
