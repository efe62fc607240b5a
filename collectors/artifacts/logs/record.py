"""A log line as the readers see it: taken out of its envelope, its header read."""

from dataclasses import dataclass, replace

WARNING_LEVELS = frozenset({"WARNING", "WARN", "ERROR", "CRITICAL", "FATAL"})


@dataclass(slots=True)
class Record:
    """One line, or the part of it between carriage returns.

    Attributes:
        line: Its 1-based number, counted by \\n.
        raw: The whole line as it stands.
        text: What the process wrote, without outer prefix and header.
        headed: Whether the engine's own header stood before it.
        engine: Whose header that was.
        level: As printed, or None.
        logger: Source file and line as printed, or None.
        process: Process as printed (EngineCore_DP0, Worker_TP1), or None.
        pid: Its process id, or None.
        rank_name: Rank as printed, or None.
        rank: Global rank, where that is certain from the line alone.
        ts: Microseconds since 1970, or None.
        ts_quality: exact, local or none.
        worker: Pod or container from an envelope, or None.
        node: Host from an envelope, or None.
        repeats: How many further processes printed the same, which Ray left out.
    """

    line: int
    raw: str
    text: str
    headed: bool = False
    engine: str | None = None
    level: str | None = None
    logger: str | None = None
    process: str | None = None
    pid: int | None = None
    rank_name: str | None = None
    rank: int | None = None
    ts: int | None = None
    ts_quality: str = "none"
    worker: str | None = None
    node: str | None = None
    repeats: int = 0

    @property
    def serious(self) -> bool:
        """Whether its level is WARNING or above."""
        return self.level in WARNING_LEVELS

    @property
    def writer(self) -> tuple[str | None, str | None, str | None, int | None]:
        """Who wrote it, as far as the line tells: continuation lines are put together by it."""
        return (self.worker, self.node, self.process, self.pid)

    def with_text(self, text: str) -> "Record":
        """The same line, seen as another text."""
        return replace(self, text=text)
