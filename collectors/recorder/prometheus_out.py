"""The same facts for a Prometheus server to fetch, through prometheus-client; names by the list in otlp_names."""

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from oomctl.collectors.live.access import LOCAL, Access
from oomctl.collectors.live.listening import SILENCE_S, Bounded
from oomctl.collectors.live.prometheus.scraper import PAGE
from oomctl.collectors.recorder import otlp_names as names
from oomctl.collectors.recorder.health import Health
from oomctl.schemas.errors import ExitCode, OomctlError
from oomctl.schemas.rows import Row

MAX_SERIES = 5_000
SUFFIXES = {"By": "_bytes", "s": "_seconds", "1": "_ratio"}
_ENDS = ("killed", "stopped")
Labels = tuple[tuple[str, str], ...]


class PrometheusOutlet:
    """Serves the newest figures, and under /healthz how the recorder is.

    Args:
        port: 0 for any.
        health: Of the recorder.
        access: Where, and who may ask.

    Raises:
        OomctlError: If the port is taken.
    """

    drop_reason = "not served to Prometheus: more series than are kept"

    def __init__(self, port: int, health: Health, access: Access = LOCAL) -> None:
        self._newest = _Newest()
        registry = CollectorRegistry()
        registry.register(self._newest)
        try:
            self._server = _Server(access, port)
        except OSError as error:
            hint = "choose another with --serve-metrics"
            raise OomctlError(
                f"cannot listen on {access.at(port)} ({error.strerror})", hint, ExitCode.ENVIRONMENT
            ) from error
        self._server.set_app(access.guarded(_routed(make_wsgi_app(registry), health)))
        self.port: int = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, name="oomctl-metrics", daemon=True)
        self._thread.start()

    def offer(self, rows: Sequence[Row]) -> None:
        """Take rows."""
        for row in rows:
            self._newest.take(row)

    def dropped(self) -> int:
        """Figures of series beyond MAX_SERIES since the last call."""
        return self._newest.dropped()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)


class _Server(Bounded, WSGIServer):
    def __init__(self, access: Access, port: int) -> None:
        self.address_family = access.family
        super().__init__((access.host, port), _Handler)


class _Handler(WSGIRequestHandler):
    timeout = SILENCE_S

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is printed for a request."""


def _routed(metrics: Callable[..., Iterable[bytes]], health: Health) -> Callable[..., Iterable[bytes]]:
    """A WSGI application: /healthz, and everything else as prometheus-client answers it."""

    def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ.get("PATH_INFO") != "/healthz":
            return metrics(environ, start_response)
        alive, report = health.report()
        body = json.dumps(report).encode() + b"\n"
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body))), ("Cache-Control", "no-store")]
        start_response("200 OK" if alive else "503 Service Unavailable", headers)
        return [body]

    return app


class _Newest(Collector):
    """The newest value of each series. Histograms are left out: their buckets are a choice that the sender makes.

    A gauge goes with what told it: when a page fails or is stale, or the life ends that it is of, its series ends.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_kind: dict[str, list[names.Metric]] = {}
        for metric in names.METRICS:
            if metric.instrument != "histogram":
                self._by_kind.setdefault(metric.kind, []).append(metric)
        self._values: dict[names.Metric, dict[Labels, float]] = {}
        self._origins: dict[tuple[names.Metric, Labels], tuple[str, str | None]] = {}
        self._dropped = 0

    def take(self, row: Row) -> None:
        """Keep what a row tells."""
        fields = row[row["kind"]]
        origin = (row.get("stream") or "", row.get("incarnation"))
        if row["kind"] == "lifecycle" and fields.get("phase") in _ENDS and origin[1] is not None:
            self._forget(lambda _, life: life == origin[1])
        if row["kind"] == "collector" and fields.get("state") in ("degraded", "failed"):
            page = str(fields.get("name")).removeprefix(PAGE)
            self._forget(lambda stream, _: stream == page or stream.endswith(f"/{page}"))
        for metric in self._by_kind.get(row["kind"], ()):
            value = fields.get(metric.field) if metric.field else 1
            if value is None:
                continue
            said = {name: fields[name] for name in metric.attributes if fields.get(name) is not None}
            said |= {name: row[name] for name in ("worker", "rank", "rank_name", "device_id") if row.get(name) is not None}
            labels = tuple(sorted((name, str(text)) for name, text in said.items()))
            self._keep(metric, labels, value * names.SCALE.get(metric.unit, 1), origin)

    def dropped(self) -> int:
        """Since the last call."""
        with self._lock:
            count, self._dropped = self._dropped, 0
        return count

    def collect(self) -> Iterator[Metric]:
        """All families; called by the server's threads."""
        with self._lock:
            values = {metric: dict(series) for metric, series in self._values.items()}
        for metric, series in values.items():
            labels = sorted({name for said in series for name, _ in said})
            family = CounterMetricFamily if metric.instrument == "counter" else GaugeMetricFamily
            made = family(_name(metric), f"{metric.name} (docs/otlp.md)", labels=labels)
            for said, value in series.items():
                known = dict(said)
                made.add_metric([known.get(name, "") for name in labels], value)
            yield made

    def _keep(self, metric: names.Metric, labels: Labels, value: float, origin: tuple[str, str | None]) -> None:
        with self._lock:
            series = self._values.setdefault(metric, {})
            if labels not in series and len(self._origins) >= MAX_SERIES:
                self._dropped += 1
                return
            series[labels] = series.get(labels, 0.0) + value if metric.each else value
            self._origins[metric, labels] = origin

    def _forget(self, gone: Callable[[str, str | None], bool]) -> None:
        """End the gauges of such a (stream, incarnation); what was counted stays true."""
        with self._lock:
            for metric, labels in [key for key, origin in self._origins.items() if gone(*origin)]:
                if metric.instrument == "gauge":
                    del self._values[metric][labels], self._origins[metric, labels]


def _name(metric: names.Metric) -> str:
    """As Prometheus spells it: https://prometheus.io/docs/practices/naming/."""
    bare = metric.name.replace(".", "_")
    suffix = SUFFIXES.get(metric.unit, "")
    return bare if bare.endswith(suffix) else bare + suffix
