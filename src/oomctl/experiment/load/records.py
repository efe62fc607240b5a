"""aiperf's records (profile_export.jsonl, a line as each request ends) as answers."""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from oomctl.analyzers.capacity.experiment.observed import Answer, State
from oomctl.experiment.load.calls import Call, turns


class Records:
    """Follows the file while it is written.

    Args:
        path: It need not be there yet.
        calls: What was asked for; a call's place is its session's id.
    """

    def __init__(self, path: Path, calls: Sequence[Call]) -> None:
        self._path, self._calls = path, calls
        self._expected = sum(1 for call in calls for _ in turns(call))
        self._read, self._rest = 0, b""
        self._records: list[dict[str, Any]] = []
        self._begun_ns: int | None = None
        self._offset_s = time.monotonic() - time.time()

    @property
    def complete(self) -> bool:
        """Whether every request has ended."""
        return len(self._records) >= self._expected

    @property
    def begun_s(self) -> float | None:
        """Where times count from, on the monotonic clock; None before there is a record."""
        return None if self._begun_ns is None else self._begun_ns / 1e9 + self._offset_s

    def latest_s(self, patience_s: float) -> float:
        """The moment, on the monotonic clock, after which nothing is waited for; only once there is a record."""
        last_s = max(call.due_s + sum(turn.pause_s for turn in turns(call)) for call in self._calls)
        return (self.begun_s or 0.0) + last_s + patience_s

    def take(self) -> list[Answer]:
        """What came since the last call."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._read)
                content = file.read()
        except FileNotFoundError:
            return []
        self._read += len(content)
        *lines, self._rest = (self._rest + content).split(b"\n")
        found = [record for line in lines if line.strip() and self._is_ours(record := json.loads(line))]
        self._records += found
        for record in found:
            self._begin(record["metadata"])
        return [self._answer(record) for record in found]

    def answers(self) -> list[Answer]:
        """All that ended, and those that were sent by now and did not."""
        self.take()
        if self.begun_s is None:
            return []
        now_s = time.monotonic() - self.begun_s
        begun = {int(record["metadata"]["conversation_id"]) for record in self._records}
        open_ = [
            Answer(call.due_s, call.due_s, None, now_s, "stopped", len(call.prompt), 0)
            for number, call in enumerate(self._calls)
            if number not in begun and call.due_s < now_s
        ]
        # Told anew: a record that came later may have moved the beginning.
        return [*map(self._answer, self._records), *open_]

    def _is_ours(self, record: dict[str, Any]) -> bool:
        return str(record["metadata"]["conversation_id"]).isdecimal()

    def _turn(self, told: dict[str, Any]) -> tuple[Call, bool]:
        """The call that a record is of, and whether it is its session's first."""
        call = self._calls[int(told["conversation_id"])]
        return list(turns(call))[told.get("turn_index") or 0], not told.get("turn_index")

    def _begin(self, told: dict[str, Any]) -> None:
        """The earliest beginning that a record allows: what was issued late does not move it."""
        call, first = self._turn(told)
        if first:
            begun_ns = int(told["credit_issued_ns"]) - round(call.due_s * 1e9)
            self._begun_ns = begun_ns if self._begun_ns is None else min(self._begun_ns, begun_ns)

    def _answer(self, record: dict[str, Any]) -> Answer:
        told, metrics = record["metadata"], record.get("metrics") or {}
        turn, first = self._turn(told)
        sent_s = self._since(told["request_start_ns"])
        first_ms = _value(metrics, "time_to_first_token")
        state: State = "cancelled" if told.get("was_cancelled") else "failed" if record.get("error") else "finished"
        return Answer(
            due_s=turn.due_s if first else sent_s,
            sent_s=sent_s,
            first_s=None if first_ms is None else sent_s + first_ms / 1000,
            ended_s=self._since(told["request_end_ns"]),
            state=state,
            prompt_tokens=len(turn.prompt),
            output_tokens=int(_value(metrics, "usage_completion_tokens") or _value(metrics, "output_sequence_length") or 0),
            error=str((record.get("error") or {}).get("message", ""))[:300] if state == "failed" else "",
        )

    def _since(self, ns: int) -> float:
        return (ns - (self._begun_ns or 0)) / 1e9


def _value(metrics: dict[str, Any], name: str) -> float | None:
    found = metrics.get(name)
    return float(found["value"]) if isinstance(found, dict) and isinstance(found.get("value"), int | float) else None
