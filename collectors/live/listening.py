"""A server of ours: a thread for each connection, of which there are only so many, and none that stays silent."""

import socket
import socketserver
import threading
from typing import Any

MAX_CONNECTIONS = 32
SILENCE_S = 10.0
"""A peer that sends nothing for so long is hung up on."""

Request = socket.socket | tuple[bytes, socket.socket]


class Bounded(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """Mixed into a server; who comes while MAX_CONNECTIONS are served is hung up on at once."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, *args: Any, **named: Any) -> None:
        self._room = threading.BoundedSemaphore(MAX_CONNECTIONS)
        super().__init__(*args, **named)

    def turned_away(self) -> None:
        """Somebody was hung up on."""

    def process_request(self, request: Request, client_address: Any) -> None:
        """In the listening thread: hand it to a thread of its own, or hang up."""
        if self._room.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.turned_away()
            self.shutdown_request(request)

    def process_request_thread(self, request: Request, client_address: Any) -> None:
        """In its own thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Request, client_address: Any) -> None:
        """A peer that hangs up is no news."""
