"""The same facts over OTLP, through the OpenTelemetry SDK, in a thread of its own: the recorder only ever queues."""

import queue
import threading
from collections.abc import Sequence
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Span, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Status, StatusCode

from oomctl.collectors.recorder import otlp_names as names
from oomctl.collectors.recorder.otlp_exporters import exporters
from oomctl.schemas.rows import Row

WAITING = 64
"""Rounds that may wait; more is dropped, and counted."""
INTERVAL_S = 10.0
TIMEOUT_S = 5.0
MAX_OPEN = 10_000
"""Requests whose end is awaited; of more, the oldest is given up."""
ENDS = ("finished", "cancelled", "rejected")


class OtlpOutlet:
    """Sends what is offered.

    Args:
        endpoint: Of a collector: see `otlp_exporters`.
        node: This host.
        interval_s: Between two exports of metrics.

    Raises:
        OomctlError: If the endpoint is none.
    """

    drop_reason = "not sent over OTLP: its queue was full"

    def __init__(self, endpoint: str, node: str, interval_s: float = INTERVAL_S) -> None:
        metrics, spans = exporters(endpoint, TIMEOUT_S)
        resource = Resource({"service.name": "oomctl", "host.name": node})
        reader = PeriodicExportingMetricReader(metrics, interval_s * 1000, TIMEOUT_S * 1000)
        self._meters = MeterProvider([reader], resource, shutdown_on_exit=False)
        self._spans = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._spans.add_span_processor(BatchSpanProcessor(spans))
        self._queue: queue.Queue[Sequence[Row] | None] = queue.Queue(WAITING)
        self._dropped = 0
        self._metrics = _Metrics(self._meters)
        self._traces = _Traces(self._spans)
        self._thread = threading.Thread(target=self._run, name="otlp", daemon=True)
        self._thread.start()

    def offer(self, rows: Sequence[Row]) -> None:
        """Take rows, or count them as dropped; never waits."""
        try:
            self._queue.put_nowait(rows)
        except queue.Full:
            self._dropped += len(rows)

    def dropped(self) -> int:
        """Rows dropped since the last call."""
        count, self._dropped = self._dropped, 0
        return count

    def close(self) -> None:
        """Send what is left; gives up after some seconds."""
        try:
            self._queue.put(None, timeout=TIMEOUT_S)
        except queue.Full:
            return
        self._thread.join(TIMEOUT_S)
        last = threading.Thread(target=self._shut_down, name="otlp-last", daemon=True)
        last.start()
        last.join(2 * TIMEOUT_S)

    def _shut_down(self) -> None:
        self._meters.shutdown(TIMEOUT_S * 1000)
        self._spans.shutdown()

    def _run(self) -> None:
        while (rows := self._queue.get()) is not None:
            for row in rows:
                self._metrics.take(row)
                self._traces.take(row)


class _Metrics:
    """Rows to metrics, by the list in otlp_names."""

    def __init__(self, provider: MeterProvider) -> None:
        meter = provider.get_meter("oomctl")
        self._by_kind: dict[str, list[tuple[names.Metric, Any]]] = {}
        self._before: dict[tuple[str, str, str | None], float] = {}
        for metric in names.METRICS:
            make = {
                "gauge": meter.create_gauge, "counter": meter.create_counter, "histogram": meter.create_histogram,
            }[metric.instrument]  # fmt: skip
            self._by_kind.setdefault(metric.kind, []).append((metric, make(metric.name, unit=metric.unit)))

    def take(self, row: Row) -> None:
        fields = row[row["kind"]]
        for metric, instrument in self._by_kind.get(row["kind"], ()):
            value = fields.get(metric.field) if metric.field else 1
            if value is None:
                continue
            attributes = {f"oomctl.{name}": fields[name] for name in metric.attributes if fields.get(name) is not None}
            for name in ("worker", "rank"):
                if row.get(name) is not None:
                    attributes[f"oomctl.{name}"] = row[name]
            value *= names.SCALE.get(metric.unit, 1)
            if metric.instrument == "gauge":
                instrument.set(value, attributes)
            elif metric.instrument == "histogram":
                instrument.record(value, attributes)
            else:
                instrument.add(value if metric.each else self._growth(row, metric, value), attributes)

    def _growth(self, row: Row, metric: names.Metric, value: float) -> float:
        """By how much a cumulative figure grew; one that is seen first, or began anew, counts from here on."""
        key = (row["stream"], metric.name, row[row["kind"]].get("group_id"))
        before, self._before[key] = self._before.get(key, value), value
        return max(value - before, 0)


class _Traces:
    """Requests and out-of-memory events as spans."""

    def __init__(self, provider: TracerProvider) -> None:
        self._tracer = provider.get_tracer("oomctl")
        self._open: dict[tuple[str, str], Span] = {}

    def take(self, row: Row) -> None:
        if row["kind"] == "oom":
            self._oom(row)
        elif row["kind"] == "request" and row["request"].get("request_id"):
            self._request(row)

    def _oom(self, row: Row) -> None:
        fields = row["oom"]
        span: Any = self._tracer.start_span(names.OOM_SPAN, start_time=_ns(row), attributes=_common(row))
        _describe(span, fields, names.OOM_ATTRIBUTES)
        span.set_status(Status(StatusCode.ERROR, (fields.get("message") or "")[:1000]))
        span.end(_ns(row))

    def _request(self, row: Row) -> None:
        fields = row["request"]
        key = (row["stream"], fields["request_id"])
        event = fields.get("event") or "seen"
        span: Any = self._open.get(key)
        if span is None:
            if event == "blocks_freed":
                return
            if len(self._open) >= MAX_OPEN:
                self._open.pop(next(iter(self._open)))
            span = self._tracer.start_span(names.REQUEST_SPAN, start_time=_ns(row), attributes=_common(row))
            span.set_attribute("oomctl.request.id", fields["request_id"])
            self._open[key] = span
        _describe(span, fields, names.REQUEST_ATTRIBUTES)
        if event in ENDS:
            span.set_attribute("oomctl.request.outcome", event)
            span.end(_ns(row))
            del self._open[key]
        elif event != "blocks_changed":
            span.add_event(f"oomctl.request.{event}", timestamp=_ns(row))


def _describe(span: Any, fields: dict[str, Any], named: dict[str, str]) -> None:
    for name, attribute in named.items():
        if fields.get(name) is not None:
            span.set_attribute(attribute, fields[name])


def _common(row: Row) -> dict[str, Any]:
    return {f"oomctl.{name}": row[name] for name in ("worker", "incarnation", "rank") if row.get(name) is not None}


def _ns(row: Row) -> int | None:
    return row["ts"] * 1000 if row.get("ts") is not None else None
