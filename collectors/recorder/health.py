"""Whether the recorder lives: its loop says so each round, and whoever asks gets it as JSON."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

LATE_S = 15.0
"""A loop that has not turned for so long hangs: its rounds begin a second after each other."""


class _Turn(NamedTuple):
    at_s: float
    written_s: float
    lost: int
    errors: int
    held_rows: int
    problem: str | None


class Health:
    """How the recorder is, as of its last round. Written by its thread, read by others: one value, replaced whole.

    Args:
        monotonic_s: For ages, in seconds.
    """

    def __init__(self, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._monotonic_s = monotonic_s
        now_s = monotonic_s()
        self._turn = _Turn(now_s, now_s, 0, 0, 0, None)
        self._ending = False

    def turned(self, lost: int, errors: int, held_rows: int, problem: str | None) -> None:
        """A round is over.

        Args:
            lost: Records lost since the recorder began, for whatever reason.
            errors: Problems since then.
            held_rows: Rows that could not be written so far.
            problem: Why.
        """
        now_s = self._monotonic_s()
        written_s = self._turn.written_s if held_rows else now_s
        self._turn = _Turn(now_s, written_s, lost, errors, held_rows, problem)

    def ends(self) -> None:
        """No more rounds: what is left is written, which may take longer than a round."""
        self._ending = True

    def report(self) -> tuple[bool, dict[str, Any]]:
        """Whether it lives, and how it is.

        `degraded`: it lives, and something cannot be written; to start it anew would not help.
        """
        turn, now_s = self._turn, self._monotonic_s()
        alive = self._ending or now_s - turn.at_s <= LATE_S
        status = "ending" if self._ending else "hangs" if not alive else "degraded" if turn.held_rows else "ok"
        return alive, {
            "status": status,
            "last_round_age_s": round(now_s - turn.at_s, 3),
            "last_write_age_s": round(now_s - turn.written_s, 3),
            "lost_records": turn.lost,
            "errors": turn.errors,
            "held_rows": turn.held_rows,
            "problem": turn.problem,
        }
