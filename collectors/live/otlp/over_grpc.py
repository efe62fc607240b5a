"""OTLP over gRPC: opentelemetry.proto.collector.trace.v1.TraceService/Export."""

from concurrent.futures import ThreadPoolExecutor

import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest, ExportTraceServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import (
    TraceServiceServicer,
    add_TraceServiceServicer_to_server,
)

from oomctl.collectors.live.otlp.inbox import MAX_BODY_BYTES, Inbox

THREADS = 2
MAX_CALLS = 32


class GrpcReceiver:
    """Listens, in threads of its own, until it is closed.

    Args:
        inbox: Takes what comes.
        host: Loopback, unless somebody decided otherwise.
        port: 0 for any.

    Raises:
        RuntimeError: If the port is taken.
    """

    def __init__(self, inbox: Inbox, host: str = "127.0.0.1", port: int = 4317) -> None:
        options = [("grpc.max_receive_message_length", MAX_BODY_BYTES), ("grpc.so_reuseport", 0)]
        pool = ThreadPoolExecutor(THREADS, "oomctl-otlp-grpc")
        self._server = grpc.server(pool, options=options, maximum_concurrent_rpcs=MAX_CALLS)
        add_TraceServiceServicer_to_server(_Service(inbox), self._server)  # type: ignore[no-untyped-call]
        self.port: int = self._server.add_insecure_port(f"{host}:{port}")
        self._server.start()

    def close(self) -> None:
        """Stop listening; calls in progress have half a second."""
        self._server.stop(0.5).wait(2)


class _Service(TraceServiceServicer):
    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox

    def Export(self, request: ExportTraceServiceRequest, context: grpc.ServicerContext) -> ExportTraceServiceResponse:
        """Take an export."""
        self._inbox.take(request)
        return ExportTraceServiceResponse()
