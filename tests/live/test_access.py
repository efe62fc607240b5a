"""Who is let in: this machine alone by default; others with a token, which is asked of every one of them."""

import os
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from oomctl.cli.attach import _access
from oomctl.collectors.live.access import Access, is_loopback
from oomctl.collectors.live.listening import MAX_CONNECTIONS
from oomctl.collectors.live.otlp.receiver import OtlpReceiver
from oomctl.collectors.recorder.health import Health
from oomctl.collectors.recorder.prometheus_out import PrometheusOutlet
from oomctl.schemas.errors import OomctlError
from tests.cli.run import oomctl
from tests.live.clock import Time
from tests.live.test_otlp_receiver import NEW, OLD, export, post

TOKEN = "0123456789abcdef"
URL = "http://127.0.0.1:1/metrics"
ANYWHERE = ("0.0.0.0", "::", "192.0.2.1", "gpu-7.example", "localhost.example", "")


@pytest.mark.parametrize("host", ANYWHERE)
def test_others_are_not_let_in_without_a_token(host: str) -> None:
    with pytest.raises(OomctlError, match="without a token"):
        Access(host)
    assert Access(host, TOKEN).host == host


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_this_machine_needs_none(host: str) -> None:
    assert Access(host).allows(None)
    assert is_loopback(host)


@pytest.mark.parametrize(
    "token", ["", "short", "0123456789abcde", "0123456789 abcdef", "0123456789abcde\n", "0123456789abcdeé"]
)
def test_a_token_that_can_be_guessed_or_not_be_sent_is_refused(token: str) -> None:
    with pytest.raises(OomctlError, match="16 printable characters"):
        Access("0.0.0.0", token)


@pytest.mark.parametrize(
    ("shown", "allowed"),
    [
        (f"Bearer {TOKEN}", True),
        (f"bearer {TOKEN}", True),
        (None, False),
        ("", False),
        (TOKEN, False),
        (f"Basic {TOKEN}", False),
        (f"Bearer {TOKEN}x", False),
        (f"Bearer {TOKEN[:-1]}", False),
        ("Bearer \u00e9", False),
        ("Bearer \udc80", False),
    ],
)
def test_what_a_peer_shows(shown: str | None, allowed: bool) -> None:
    assert Access(token=TOKEN).allows(shown) is allowed


def test_tokens_are_compared_in_constant_time_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return one == other

    monkeypatch.setattr("hmac.compare_digest", compare)
    access = Access(token=TOKEN)
    assert access.allows(f"Bearer {TOKEN}")
    assert not access.allows("Bearer other")
    assert compared == [(TOKEN.encode(), TOKEN.encode()), (b"other", TOKEN.encode())]
    assert TOKEN not in repr(access)


@pytest.fixture
def outlet() -> Iterator[PrometheusOutlet]:
    made = PrometheusOutlet(0, Health(), Access("0.0.0.0", TOKEN))
    yield made
    made.close()


@pytest.mark.parametrize("path", ["/metrics", "/healthz", "/"])
def test_figures_and_health_are_told_to_who_shows_it(outlet: PrometheusOutlet, path: str) -> None:
    url = f"http://127.0.0.1:{outlet.port}{path}"
    for shown in ({}, {"Authorization": "Bearer other"}):
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(urllib.request.Request(url, headers=shown), timeout=20)
    with urllib.request.urlopen(
        urllib.request.Request(url, headers={"Authorization": f"Bearer {TOKEN}"}), timeout=20
    ) as reply:
        assert reply.status == 200


def test_connections_are_bounded(outlet: PrometheusOutlet, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN silent peers in every place THEN the next one is hung up on, and no thread is made for it."""
    silent = [socket.create_connection(("127.0.0.1", outlet.port), 20) for _ in range(MAX_CONNECTIONS)]
    with socket.create_connection(("127.0.0.1", outlet.port), 20) as late:
        assert late.recv(1) == b""
    for peer in silent:
        peer.close()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--serve-metrics", "0", "--listen", "0.0.0.0"), "refused to listen on 0.0.0.0 without a token"),
        (("--otlp-receive", "--listen", "::"), "refused to listen on :: without a token"),
        (("--otlp-receive", "--listen", "0.0.0.0", "--token-file", "short"), "a token takes 16 printable characters"),
        (("--otlp-receive", "--token-file", "missing"), "no token to be read: No such file or directory (missing)"),
        (("--listen", "127.0.0.1"), "--listen, and nothing listens"),
        (("--token-file", "short"), "--token-file, and nothing listens"),
    ],
)
def test_the_command_refuses(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    (tmp_path / "short").write_text("secret\n")
    ran = oomctl("attach", str(os.getpid()), "-o", "rec", "--metrics", URL, *arguments, cwd=tmp_path)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert not (tmp_path / "rec").exists()


def test_the_token_of_the_environment_opens_it(tmp_path: Path) -> None:
    access = _access_of("0.0.0.0", None, {"OOMCTL_TOKEN": TOKEN})
    assert (access.host, access.token) == ("0.0.0.0", TOKEN)
    (tmp_path / "token").write_text(f"{TOKEN}-of-a-file\n")
    assert _access_of("0.0.0.0", tmp_path / "token", {"OOMCTL_TOKEN": TOKEN}).token == f"{TOKEN}-of-a-file"


def _access_of(listen: str, token_file: Path | None, environment: dict[str, str]) -> Access:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        return _access(listen, token_file, listens=True)


@pytest.fixture(params=["127.0.0.1", "0.0.0.0"])
def receiver(request: pytest.FixtureRequest) -> Iterator[OtlpReceiver]:
    made = OtlpReceiver({"node": "n", "worker": "w"}, Time(), 0, 0, Access(request.param, TOKEN))
    yield made
    made.close()


def test_the_receiver_asks_over_http(receiver: OtlpReceiver) -> None:
    body = export(OLD).SerializeToString()
    assert post(receiver._http, body) == 401
    assert post(receiver._http, body, Authorization="Bearer other") == 401
    assert post(receiver._http, b"", path="/elsewhere") == 401
    assert post(receiver._http, body, Authorization=f"Bearer {TOKEN}") == 200
    batch = receiver.poll()
    assert len(batch.rows) == 4
    assert batch.losses == [("export without a token, or with another one", 3, "otlp")]


def test_the_receiver_asks_over_grpc(receiver: OtlpReceiver) -> None:
    with grpc.insecure_channel(f"127.0.0.1:{receiver.ports[0]}") as channel:
        stub: Any = TraceServiceStub(channel)  # type: ignore[no-untyped-call]
        for shown in ((), (("authorization", "Bearer other"),)):
            with pytest.raises(grpc.RpcError) as refused:
                stub.Export(export(NEW), timeout=20, metadata=shown)
            assert refused.value.code() == grpc.StatusCode.UNAUTHENTICATED
    assert receiver.poll().rows == []


def test_the_sdks_own_exporter_shows_it(receiver: OtlpReceiver) -> None:
    exporter = GrpcExporter(
        f"http://127.0.0.1:{receiver.ports[0]}", insecure=True, headers={"authorization": f"Bearer {TOKEN}"}
    )
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with provider.get_tracer("t").start_as_current_span("s", attributes=NEW):
        pass
    provider.shutdown()
    assert {row["request"]["request_id"] for row in receiver.poll().rows} == {"r2"}
