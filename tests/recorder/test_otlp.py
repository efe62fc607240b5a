"""What a collector receives over OTLP, from a real exporter over a real socket; and that recording never waits for one."""

import os
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import grpc
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest, ExportTraceServiceResponse

from oomctl.collectors.agent.kinds import REQUEST
from oomctl.collectors.recorder import otlp
from oomctl.collectors.recorder import otlp_names as names
from oomctl.collectors.recorder.loop import Recorder
from oomctl.collectors.recorder.otlp_exporters import exporters
from oomctl.collectors.recorder.settings import Settings
from oomctl.schemas.errors import OomctlError
from oomctl.schemas.events import FIELD_NAMES
from oomctl.schemas.rows import Row, make_row
from tests.cli.run import oomctl
from tests.recorder.stand_in import NODE, Time, Worker, rows, write
from tests.working_tree import ROOT


class Receiver:
    """A collector's end of OTLP over HTTP."""

    def __init__(self) -> None:
        self.metrics: dict[str, Any] = {}
        self.spans: list[Any] = []
        self.hosts: set[str] = set()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.take(self.path, body)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server: Any = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def stop(self) -> None:
        self.server.shutdown()

    def take(self, path: str, body: bytes) -> None:
        if path == "/v1/metrics":
            metrics = ExportMetricsServiceRequest.FromString(body)
            for resource in metrics.resource_metrics:
                self.hosts |= {pair.value.string_value for pair in resource.resource.attributes if pair.key == "host.name"}
                for scope in resource.scope_metrics:
                    self.metrics |= {metric.name: metric for metric in scope.metrics}
        elif path == "/v1/traces":
            spans = ExportTraceServiceRequest.FromString(body)
            for traced in spans.resource_spans:
                for scope_spans in traced.scope_spans:
                    self.spans += scope_spans.spans


class GrpcReceiver(Receiver):
    """The same over gRPC."""

    def __init__(self) -> None:
        self.metrics, self.spans, self.hosts = {}, [], set()
        self.server = grpc.server(ThreadPoolExecutor(2))
        services = {
            "metrics.v1.MetricsService": ("/v1/metrics", ExportMetricsServiceResponse),
            "trace.v1.TraceService": ("/v1/traces", ExportTraceServiceResponse),
        }
        for name, (path, answer) in services.items():
            handler = grpc.unary_unary_rpc_method_handler(self.taking(path, answer()), lambda body: body, lambda body: body)
            service = f"opentelemetry.proto.collector.{name}"
            self.server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(service, {"Export": handler})])
        self.url = f"grpc://127.0.0.1:{self.server.add_insecure_port('127.0.0.1:0')}"
        self.server.start()

    def taking(self, path: str, answer: Any) -> Any:
        def take(body: bytes, context: object) -> bytes:
            self.take(path, body)
            return bytes(answer.SerializeToString())

        return take

    def stop(self) -> None:
        self.server.stop(None)


@pytest.fixture(params=[Receiver, GrpcReceiver], ids=["http", "grpc"])
def receiver(request: pytest.FixtureRequest) -> Iterator[Receiver]:
    made = request.param()
    yield made
    made.stop()


def attributes(holder: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, str(pair.value.WhichOneof("value"))) for pair in holder.attributes}


def test_facts_arrive_under_their_names(tmp_path: Path, receiver: Receiver) -> None:
    worker = Worker(tmp_path / "rings")
    for step_id, event in enumerate(("queued", "admitted", "first_token", "finished")):
        worker.step(step_id, prefill=100, used=250, preempted_requests=step_id)
        tokens = {"prompt_tokens": 100, "output_tokens": step_id}
        write(
            worker.ring, REQUEST, event=event, request_id="r1", sampled_by="all", sample_weight=1.0, kv_blocks=7, **tokens
        )
    worker.oom("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB")
    outlet = otlp.OtlpOutlet(receiver.url, NODE)
    settings = Settings(root=tmp_path / "rec", pid=os.getpid(), node=NODE, rings=tmp_path / "rings", settle_s=1e9)
    beside = Recorder(settings, Time().clock(), [outlet])
    beside.round()
    outlet.close()
    beside._outlets = ()
    beside.close()

    assert receiver.hosts == {NODE}
    (usage,) = receiver.metrics["oomctl.kv_pool.usage"].gauge.data_points
    assert usage.as_double == 0.25
    assert attributes(usage) == {"oomctl.worker": "w0", "oomctl.rank": 0}
    (prefill,) = receiver.metrics["oomctl.tokens.prefill"].sum.data_points
    assert prefill.as_int == 400
    (preempted,) = receiver.metrics["oomctl.requests.preempted"].sum.data_points
    assert preempted.as_int == 3
    assert receiver.metrics["oomctl.requests.preempted"].sum.is_monotonic
    spans = {span.name: span for span in receiver.spans}
    request = spans["oomctl.request"]
    assert [event.name for event in request.events] == [
        "oomctl.request.queued",
        "oomctl.request.admitted",
        "oomctl.request.first_token",
    ]
    assert attributes(request)["gen_ai.usage.output_tokens"] == 3
    assert attributes(request)["oomctl.request.outcome"] == "finished"
    assert request.end_time_unix_nano > request.start_time_unix_nano
    oom = attributes(spans["oomctl.oom"])
    assert (oom["error.type"], oom["oomctl.oom.requested_bytes"]) == ("OutOfMemoryError", 2 << 30)
    assert spans["oomctl.oom"].status.code == 2


def test_recording_never_waits_for_a_collector_and_drops_are_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck = threading.Event()
    monkeypatch.setattr(otlp._Metrics, "take", lambda self, row: stuck.wait())
    outlet = otlp.OtlpOutlet("http://127.0.0.1:9", NODE)
    worker = Worker(tmp_path / "rings")
    settings = Settings(root=tmp_path / "rec", pid=os.getpid(), node=NODE, rings=tmp_path / "rings")
    beside = Recorder(settings, Time().clock(), [outlet])
    for step_id in range(otlp.WAITING + 20):
        worker.step(step_id)
        beside.round()
    beside._outlets = (outlet,)
    monkeypatch.setattr(outlet, "close", lambda: None)
    beside.close()
    stuck.set()
    ((lost,),) = rows(tmp_path / "rec", "SELECT sum(count) FROM loss WHERE reason LIKE 'not sent over OTLP%'")
    assert lost >= 2 * 18
    assert rows(tmp_path / "rec", "SELECT count(*) FROM step") == [(otlp.WAITING + 20,)]


def test_a_dead_collector_does_not_keep_the_recorder_from_ending() -> None:
    outlet = otlp.OtlpOutlet("http://127.0.0.1:9", NODE)
    row: Row = make_row("step", {"prefill_tokens": 1}, {"stream": "s", "seq": 1, "worker": "w"})
    outlet.offer([row])
    begun = time.monotonic()
    outlet.close()
    assert time.monotonic() - begun < 3 * otlp.TIMEOUT_S


def test_every_metric_is_of_the_event_table_and_in_the_docs() -> None:
    page = (ROOT / "docs" / "otlp.md").read_text()
    for metric in names.METRICS:
        assert not metric.field or metric.field in FIELD_NAMES[metric.kind]
        assert set(metric.attributes) <= FIELD_NAMES[metric.kind]
        assert f"| `{metric.name}` | {metric.unit} | {metric.instrument} |" in page
    for name in (*names.REQUEST_ATTRIBUTES.values(), *names.OOM_ATTRIBUTES.values(), names.REQUEST_SPAN, names.OOM_SPAN):
        assert f"`{name}`" in page


def test_grpc_that_is_not_installed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.grpc.metric_exporter", None)
    with pytest.raises(OomctlError, match="not installed"):
        exporters("grpc://localhost:4317", 1)


@pytest.mark.parametrize("endpoint", ["localhost:4318", "ftp://localhost", "grpc://", "http:/x"])
def test_what_is_no_endpoint_is_refused(endpoint: str) -> None:
    with pytest.raises(OomctlError, match="is no URL"):
        exporters(endpoint, 1)


def test_an_endpoint_that_is_no_url_is_refused(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("")
    ran = oomctl(
        "attach", str(os.getpid()), "-o", str(tmp_path / "rec"), "--log", str(tmp_path / "log"), "--otlp-endpoint", "x:1"
    )
    ran.assert_fails(2, "--otlp-endpoint is no URL")
