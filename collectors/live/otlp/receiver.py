"""The receiver as a source: both servers and the inbox that they share."""

from typing import Any

from oomctl.collectors.live.access import LOCAL, Access
from oomctl.collectors.live.batch import Batch
from oomctl.collectors.live.otlp.inbox import Inbox
from oomctl.collectors.live.otlp.over_grpc import GrpcReceiver
from oomctl.collectors.live.otlp.over_http import HttpReceiver
from oomctl.schemas.errors import ExitCode, OomctlError


class OtlpReceiver:
    """Listens for OTLP traces.

    Args:
        common: The common columns: node, worker.
        clock: `wall_us()`.
        grpc_port: 0 for any.
        http_port: 0 for any.
        access: Where, and who may send.

    Raises:
        OomctlError: If a port is taken.
    """

    def __init__(
        self,
        common: dict[str, Any],
        clock: Any,
        grpc_port: int = 4317,
        http_port: int = 4318,
        access: Access = LOCAL,
    ) -> None:
        self.name = "otlp"
        self._inbox = Inbox(common, clock)
        self.stream = self._inbox.stream
        try:
            self._http = HttpReceiver(self._inbox, access, http_port)
        except OSError as error:
            raise _taken(access.at(http_port), error) from error
        try:
            self._grpc = GrpcReceiver(self._inbox, access, grpc_port)
        except RuntimeError as error:
            self._http.close()
            raise _taken(access.at(grpc_port), error) from error
        self.ports = (self._grpc.port, self._http.port)

    def poll(self) -> Batch:
        """What came since the last call."""
        return self._inbox.poll()

    def close(self) -> None:
        """Stop listening."""
        self._http.close()
        self._grpc.close()


def _taken(place: str, error: Exception) -> OomctlError:
    return OomctlError(f"cannot listen on {place} ({error})", "another collector listens there", ExitCode.ENVIRONMENT)
