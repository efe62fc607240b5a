"""What a scenario is made of: printed lines, and the facts that each line gives."""

from dataclasses import dataclass, field
from typing import Literal

Value = int | float | str | bool | None
Process = Literal["api", "core", "worker", "system", "bare"]
"""Who prints: the API server, the engine core, a worker of one rank, the machine (kernel, init system, shell),
or nobody (the continuation of a print, without any prefix)."""


@dataclass(frozen=True)
class Fact:
    """One row of the event table without its common columns."""

    kind: str
    fields: dict[str, Value]


@dataclass(frozen=True)
class Entry:
    """One printed line.

    Attributes:
        at_us: When, in microseconds since the start of the scenario, filler not counted.
        text: The line without the engine's prefix.
        process: Whose prefix it gets.
        level: INFO, WARNING, ERROR; empty where the engine prints none.
        where: Source file and line as the engine prints them.
        rank: Global rank of the worker that prints.
        incarnation: Which start of the worker, from 1.
        facts: Rows that a log reader makes of the line.
        exception: Whether it belongs to a traceback or a failure, so that a `log` row keeps it.
    """

    at_us: int
    text: str
    process: Process = "core"
    level: str = "INFO"
    where: str = ""
    rank: int | None = None
    incarnation: int = 1
    facts: tuple[Fact, ...] = ()
    exception: bool = False

    @property
    def kept(self) -> bool:
        """Whether the line itself becomes a `log` row."""
        return bool(self.facts) or self.exception or self.level in ("WARNING", "ERROR")


@dataclass(frozen=True)
class Background:
    """What goes on between the deciding lines, where the filler stands.

    Attributes:
        serving: Requests are served; otherwise the engine starts, and filler is start-up chatter.
        usage_tenths: KV usage, lowest and highest, in tenths of a percent.
        running: Running requests, lowest and highest.
        waiting: Waiting requests, lowest and highest.
        prefill_tokens: Prompt tokens of a step, lowest and highest.
    """

    serving: bool = True
    usage_tenths: tuple[int, int] = (180, 320)
    running: tuple[int, int] = (4, 9)
    waiting: tuple[int, int] = (0, 0)
    prefill_tokens: tuple[int, int] = (64, 640)


@dataclass
class Script:
    """The lines of a scenario, in order, and the place where the filler goes.

    Attributes:
        entries: Deciding and corroborating lines.
        fill_at: Index of the entry before which filler stands.
        background: What the filler shows.
    """

    entries: list[Entry] = field(default_factory=list)
    fill_at: int = 0
    background: Background = field(default_factory=lambda: Background(serving=False))
