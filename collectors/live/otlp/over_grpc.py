"""OTLP over gRPC: opentelemetry.proto.collector.trace.v1.TraceService/Export."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest, ExportTraceServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import (
    TraceServiceServicer,
    add_TraceServiceServicer_to_server,
)

from oomctl.collectors.live.access import LOCAL, REFUSED, Access
from oomctl.collectors.live.otlp.inbox import MAX_BODY_BYTES, Inbox

THREADS = 2
MAX_CALLS = 32


class GrpcReceiver:
    """Listens, in threads of its own, until it is closed.

    Args:
        inbox: Takes what comes.
        access: Where, and who may send.
        port: 0 for any.

    Raises:
        RuntimeError: If the port is taken.
    """

    def __init__(self, inbox: Inbox, access: Access = LOCAL, port: int = 4317) -> None:
        options = [("grpc.max_receive_message_length", MAX_BODY_BYTES), ("grpc.so_reuseport", 0)]
        pool = ThreadPoolExecutor(THREADS, "oomctl-otlp-grpc")
        gate = [_Gate(inbox, access)]
        self._server = grpc.server(pool, options=options, maximum_concurrent_rpcs=MAX_CALLS, interceptors=gate)
        add_TraceServiceServicer_to_server(_Service(inbox), self._server)  # type: ignore[no-untyped-call]
        self.port: int = self._server.add_insecure_port(access.at(port))
        self._server.start()

    def close(self) -> None:
        """Stop listening; calls in progress have half a second."""
        self._server.stop(0.5).wait(2)


class _Gate(grpc.ServerInterceptor):  # type: ignore[misc]
    """Turns away who shows no token, before a message is read."""

    def __init__(self, inbox: Inbox, access: Access) -> None:
        self._inbox = inbox
        self._access = access
        self._away = grpc.unary_unary_rpc_method_handler(self._refuse)

    def intercept_service(
        self, continuation: Callable[[grpc.HandlerCallDetails], Any], handler_call_details: grpc.HandlerCallDetails
    ) -> Any:
        """The handler of a call."""
        shown = dict(handler_call_details.invocation_metadata).get("authorization")
        if self._access.allows(shown if isinstance(shown, str) else None):
            return continuation(handler_call_details)
        self._inbox.lose("export without a token, or with another one", 1)
        return self._away

    def _refuse(self, request: bytes, context: grpc.ServicerContext) -> None:
        context.abort(grpc.StatusCode.UNAUTHENTICATED, REFUSED)


class _Service(TraceServiceServicer):
    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox

    def Export(self, request: ExportTraceServiceRequest, context: grpc.ServicerContext) -> ExportTraceServiceResponse:
        """Take an export."""
        self._inbox.take(request)
        return ExportTraceServiceResponse()
