"""Servers that misbehave, on loopback: raw sockets, so that they can do what no HTTP server does."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

Talk = Callable[[socket.socket], None]
OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"


@contextlib.contextmanager
def peer(talk: Talk) -> Iterator[str]:
    """Answers each connection with `talk`; gives the address."""
    server = socket.create_server(("127.0.0.1", 0))
    ended = threading.Event()

    def serve() -> None:
        while not ended.is_set():
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError):
                connection.recv(65_536)
                talk(connection)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/metrics"
    finally:
        ended.set()
        with contextlib.suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join(5)
