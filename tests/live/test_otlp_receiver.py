"""Traces arrive over HTTP and gRPC, from the real SDK's exporters and from peers that send garbage."""

import gzip
import http.client
import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from google.protobuf.json_format import ParseDict
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from oomctl.collectors.live.otlp import inbox as module
from oomctl.collectors.live.otlp.inbox import MAX_BODY_BYTES, Inbox
from oomctl.collectors.live.otlp.over_grpc import GrpcReceiver
from oomctl.collectors.live.otlp.over_http import HttpReceiver
from oomctl.collectors.live.otlp.spans import requests
from tests.live.clock import Time
from tests.shared import shared

OLD = {
    "gen_ai.request.id": "r1", "gen_ai.usage.prompt_tokens": "82", "gen_ai.usage.completion_tokens": 32,
    "gen_ai.request.max_tokens": 64, "gen_ai.latency.time_in_queue": 0.5, "gen_ai.latency.time_to_first_token": 1.25,
}  # fmt: skip
NEW: dict[str, str | int] = {
    "gen_ai.operation.name": "chat", "gen_ai.conversation.id": "c1", "gen_ai.response.id": "r2",
    "gen_ai.usage.input_tokens": 82, "gen_ai.usage.output_tokens": 32, "gen_ai.usage.cache_read.input_tokens": 16,
    "gen_ai.input.messages": "a secret prompt",
}  # fmt: skip
TOOL = {"gen_ai.operation.name": "execute_tool", "gen_ai.conversation.id": "c1", "gen_ai.tool.call.id": "t1"}
START_US = 1_700_000_000_000_000


def export(*spans: dict[str, Any], seconds: float = 2.0) -> ExportTraceServiceRequest:
    def value(of: Any) -> dict[str, Any]:
        return {{str: "stringValue", int: "intValue", float: "doubleValue"}[type(of)]: of}

    made = [
        {
            "name": "s",
            "startTimeUnixNano": START_US * 1000,
            "endTimeUnixNano": (START_US + int(seconds * 1e6)) * 1000,
            "attributes": [{"key": name, "value": value(of)} for name, of in span.items()],
        }
        for span in spans
    ]
    parsed = ExportTraceServiceRequest()
    ParseDict({"resourceSpans": [{"scopeSpans": [{"spans": made}]}]}, parsed)
    return parsed


@pytest.fixture
def inbox() -> Inbox:
    return Inbox({"worker": "w"}, Time())


@pytest.fixture
def receiver(inbox: Inbox) -> Iterator[HttpReceiver]:
    made = HttpReceiver(inbox, port=0)
    yield made
    made.close()


def post(receiver: HttpReceiver, body: bytes, path: str = "/v1/traces", **headers: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", receiver.port, timeout=20)
    connection.request("POST", path, body, {name.replace("_", "-"): text for name, text in headers.items()})
    reply = connection.getresponse()
    reply.read()
    connection.close()
    return reply.status


def test_names_from_before_the_conventions() -> None:
    found = list(requests(export(OLD)))
    assert [(ts - START_US, quality, fields["event"]) for ts, quality, fields in found] == [
        (0, "measured", "arrived"),
        (500_000, "derived", "scheduled"),
        (1_250_000, "derived", "first_token"),
        (2_000_000, "measured", "finished"),
    ]
    assert found[0][2]["prompt_tokens"] == 82 and found[0][2]["max_output_tokens"] == 64
    assert found[-1][2]["output_tokens"] == 32 and found[-1][2]["cached_tokens"] is None
    assert {fields["request_id"] for _, _, fields in found} == {"r1"}


def test_names_of_the_conventions_and_a_tool_pause() -> None:
    found = [fields for _, _, fields in requests(export(NEW, TOOL))]
    assert [fields["event"] for fields in found] == ["arrived", "finished", "tool_wait_started", "tool_wait_ended"]
    assert {fields["session_id"] for fields in found} == {"c1"}
    assert found[1]["cached_tokens"] == 16
    assert "secret" not in repr(found)


def test_an_aborted_request_is_cancelled() -> None:
    found = [fields["event"] for _, _, fields in requests(export({**NEW, "gen_ai.response.finish_reasons": "abort"}))]
    assert found == ["arrived", "cancelled"]


def test_spans_of_other_things_are_none() -> None:
    assert not list(
        requests(export({"code.function": "f"}, {"gen_ai.operation.name": "invoke_agent", "gen_ai.usage.input_tokens": 5}))
    )


def test_recorded_spans_of_a_real_engine() -> None:
    events: dict[str, int] = {}
    for line in shared("data/engine").joinpath("otlp.jsonl").read_text().splitlines():
        message = json.loads(line)
        made = ParseDict(
            {"resourceSpans": message["resourceSpans"]}, ExportTraceServiceRequest(), ignore_unknown_fields=True
        )
        for _, _, fields in requests(made):
            events[fields["event"]] = events.get(fields["event"], 0) + 1
    assert events["arrived"] == 77
    assert events["finished"] + events.get("cancelled", 0) == 77
    assert events["first_token"] <= 77


def test_the_sdks_own_exporter_over_http(inbox: Inbox, receiver: HttpReceiver) -> None:
    provider = TracerProvider()
    provider.add_span_processor(
        SimpleSpanProcessor(OTLPSpanExporter(endpoint=f"http://127.0.0.1:{receiver.port}/v1/traces"))
    )
    with provider.get_tracer("t").start_as_current_span("chat m", attributes=NEW):
        pass
    provider.shutdown()
    batch = inbox.poll()
    assert [row["request"]["event"] for row in batch.rows] == ["arrived", "finished"]
    assert [row["seq"] for row in batch.rows] == [1, 2]
    assert not inbox.poll().rows


def test_json_and_gzip(inbox: Inbox, receiver: HttpReceiver) -> None:
    body = json.dumps(
        {"resourceSpans": [{"scopeSpans": [{"spans": [{
            "traceId": "5b8efff798038103d269b633813fc60c", "spanId": "eee19b7ec3c1b174", "kind": 2, "newField": {"a": 1},
            "startTimeUnixNano": "1700000000000000000", "endTimeUnixNano": "1700000001000000000",
            "attributes": [{"key": "gen_ai.usage.prompt_tokens", "value": {"intValue": "7"}}],
        }]}]}]}
    ).encode()  # fmt: skip
    assert post(receiver, gzip.compress(body), Content_Type="application/json", Content_Encoding="gzip") == 200
    assert [row["request"]["prompt_tokens"] for row in inbox.poll().rows] == [7, 7]


def test_grpc(inbox: Inbox) -> None:
    receiver = GrpcReceiver(inbox, port=0)
    try:
        with grpc.insecure_channel(f"127.0.0.1:{receiver.port}") as channel:
            stub = TraceServiceStub(channel)  # type: ignore[no-untyped-call]
            stub.Export(export(OLD), timeout=20)
            with pytest.raises(grpc.RpcError):
                stub.Export(export({"gen_ai.usage.prompt_tokens": 1, "x": "y" * MAX_BODY_BYTES}), timeout=20)
    finally:
        receiver.close()
    assert len(inbox.poll().rows) == 4


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"\xff\xff garbage", {"Content_Type": "application/x-protobuf"}, 400),
        (b"{" * 100_000, {"Content_Type": "application/json"}, 400),
        (b'{"resourceSpans": 3}', {"Content_Type": "application/json"}, 400),
        (gzip.compress(bytes(5 * MAX_BODY_BYTES)), {"Content_Encoding": "gzip"}, 413),
        (b"not gzip", {"Content_Encoding": "gzip"}, 400),
        (b"x", {"Content_Encoding": "br"}, 400),
    ],
    ids=["garbage", "brackets", "wrong type", "bomb", "no gzip", "brotli"],
)
def test_bad_bodies_are_refused_and_the_next_is_taken(
    inbox: Inbox, receiver: HttpReceiver, body: bytes, headers: dict[str, str], status: int
) -> None:
    assert post(receiver, body, **headers) == status
    assert post(receiver, export(OLD).SerializeToString(), Content_Type="application/x-protobuf") == 200
    batch = inbox.poll()
    assert len(batch.rows) == 4
    assert [count for _, count, _ in batch.losses] == [1]


def test_a_length_of_a_gigabyte_is_refused_before_it_is_read(inbox: Inbox, receiver: HttpReceiver) -> None:
    with socket.create_connection(("127.0.0.1", receiver.port), 20) as peer:
        peer.sendall(b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n")
        assert b" 413 " in peer.recv(1000)
    assert inbox.poll().losses == [("body over the limit", 1, "otlp")]


def test_other_paths_and_no_length(receiver: HttpReceiver) -> None:
    assert post(receiver, b"", path="/v1/logs") == 404
    with socket.create_connection(("127.0.0.1", receiver.port), 20) as peer:
        peer.sendall(b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
        assert b" 400 " in peer.recv(1000)


def test_a_length_in_digits_that_are_none(inbox: Inbox, receiver: HttpReceiver) -> None:
    """`str.isdigit` holds for a superscript two, at which `int` raises."""
    with socket.create_connection(("127.0.0.1", receiver.port), 20) as peer:
        peer.sendall(b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Length: \xb2\r\n\r\n")
        assert b" 400 " in peer.recv(1000)
    assert [count for _, count, _ in inbox.poll().losses] == [1]


@pytest.mark.parametrize("text", ["\u00b2", "9" * 400, "-1", "1.5"])
def test_a_count_that_is_none_is_not_told(inbox: Inbox, text: str) -> None:
    inbox.take(export(OLD | {"gen_ai.usage.completion_tokens": text}))
    finished = [row["request"] for row in inbox.poll().rows if row["request"]["event"] == "finished"]
    assert [(row["prompt_tokens"], row["output_tokens"]) for row in finished] == [(82, None)]


def test_a_flood_is_bounded_and_counted(inbox: Inbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_EVENTS", 10)
    for _ in range(5):
        inbox.take(export(OLD))
    batch = inbox.poll()
    assert len(batch.rows) == 10
    assert batch.losses == [("span events that came faster than they were written", 10, "otlp")]


def test_silent_peers_do_not_keep_others_out(inbox: Inbox, receiver: HttpReceiver) -> None:
    silent = [socket.create_connection(("127.0.0.1", receiver.port), 20) for _ in range(10)]
    try:
        time.sleep(0.05)
        assert post(receiver, export(OLD).SerializeToString()) == 200
    finally:
        for peer in silent:
            peer.close()


def test_it_listens_on_loopback_unless_told_otherwise(receiver: HttpReceiver) -> None:
    assert receiver._server.server_address[0] == "127.0.0.1"
