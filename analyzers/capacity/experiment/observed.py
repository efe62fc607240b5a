"""What is observed of a worker under load: answers, as the client saw them, and looks at the worker, beside it."""

from dataclasses import dataclass
from typing import Literal

State = Literal["finished", "cancelled", "failed", "stopped"]
"""cancelled: given up as planned; failed: refused or broken off by the server; stopped: the try was ended."""


@dataclass(frozen=True)
class Answer:
    """One request. Times are seconds from the beginning of the try.

    Attributes:
        due_s: When it was to be sent.
        sent_s: When it was.
        first_s: Its first token; None where none came.
        ended_s: Its end, whichever.
        state: How it ended.
        prompt_tokens: Asked.
        output_tokens: Received.
        error: What the server said, where it failed.
    """

    due_s: float
    sent_s: float
    first_s: float | None
    ended_s: float
    state: State
    prompt_tokens: int
    output_tokens: int
    error: str = ""

    @property
    def ttft_s(self) -> float | None:
        """From the moment at which it was due."""
        return None if self.first_s is None else self.first_s - self.due_s

    @property
    def tpot_s(self) -> float | None:
        """Mean time of a further token; None where there was none, or the answer is not whole."""
        if self.first_s is None or self.output_tokens < 2 or self.state != "finished":
            return None
        return (self.ended_s - self.first_s) / (self.output_tokens - 1)


@dataclass(frozen=True)
class Look:
    """One look at the worker; None where nobody tells.

    Attributes:
        s: Seconds, on the clock of the answers.
        total_blocks: Of the KV pool.
        free_blocks: Of the rank with the fewest; what only the prefix cache holds is free.
        preempted: Requests so far.
        query_tokens: Looked up in the prefix cache so far.
        hit_tokens: Found there so far.
        running: Requests now.
        waiting: Requests now.
        device_total_bytes: Of the device with the least free.
        device_free_bytes: There.
        host_total_bytes: Of the worker's host.
        host_free_bytes: Available there.
    """

    s: float
    total_blocks: int | None = None
    free_blocks: int | None = None
    preempted: int | None = None
    query_tokens: int | None = None
    hit_tokens: int | None = None
    running: int | None = None
    waiting: int | None = None
    device_total_bytes: int | None = None
    device_free_bytes: int | None = None
    host_total_bytes: int | None = None
    host_free_bytes: int | None = None
