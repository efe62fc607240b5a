"""What the two servers have taken in and nobody has fetched yet; bounded, and what does not fit is counted."""

import threading
from typing import Any

from google.protobuf.json_format import Parse, ParseError
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from oomctl.collectors.live.batch import Batch
from oomctl.collectors.live.otlp.spans import Fields, requests
from oomctl.collectors.live.stream import Stream

MAX_EVENTS = 50_000
MAX_BODY_BYTES = 16 << 20


class Refused(ValueError):
    """A body that is no export of traces."""


def decode(body: bytes, content_type: str) -> ExportTraceServiceRequest:
    """An export out of a request's body, or out of a line of a file of them.

    Raises:
        Refused: If it is no export of traces.
    """
    export = ExportTraceServiceRequest()
    try:
        if "json" in content_type:
            # Ids come as hex there and are read as base64: other bytes than were meant, and not used.
            Parse(body, export, ignore_unknown_fields=True, max_recursion_depth=50)
        else:
            export.ParseFromString(body)
    except (DecodeError, ParseError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise Refused(str(error)[:200]) from error
    return export


class Inbox:
    """Takes exports in from the servers' threads, gives rows out to the recorder's.

    Args:
        common: The common columns: node, worker.
        clock: `wall_us()`.
    """

    def __init__(self, common: dict[str, Any], clock: Any) -> None:
        self.stream = Stream("otlp", "otlp", common)
        self._clock = clock
        self._lock = threading.Lock()
        self._events: list[tuple[int, str, Fields]] = []
        self._lost: dict[str, int] = {}

    def take(self, export: ExportTraceServiceRequest) -> None:
        """Take one export in."""
        found = list(requests(export))
        with self._lock:
            room = MAX_EVENTS - len(self._events)
            self._events += found[:room]
        if len(found) > room:
            self.lose("span events that came faster than they were written", len(found) - room)

    def take_body(self, body: bytes, content_type: str) -> None:
        """Take a request's body in.

        Raises:
            Refused: If it is no export of traces.
        """
        self.take(decode(body, content_type))

    def lose(self, reason: str, count: int) -> None:
        """Count what could not be taken."""
        with self._lock:
            self._lost[reason] = self._lost.get(reason, 0) + count

    def poll(self) -> Batch:
        """What came since the last call."""
        with self._lock:
            events, self._events = self._events, []
            lost, self._lost = self._lost, {}
        batch = Batch(losses=[(reason, count, "otlp") for reason, count in lost.items()])
        batch.rows = [
            self.stream.row(ts or self._clock.wall_us(), "request", fields, {"quality": quality})
            for ts, quality, fields in events
        ]
        return batch
