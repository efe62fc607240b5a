"""One bounded request: so many bytes, so many seconds in all, no redirects, nothing unpacked."""

import contextlib
import http.client
import socket
import threading
from dataclasses import dataclass
from urllib.parse import urlsplit

MAX_BODY_BYTES = 8 << 20
"""A page of vLLM has 60 KB for each engine; eight engines of many ranks stay below 2 MB."""
CHUNK_BYTES = 65_536


class FetchError(Exception):
    """Why there is no body."""


@dataclass(frozen=True)
class Reply:
    """What came back.

    Attributes:
        status: HTTP status.
        body: At most MAX_BODY_BYTES.
        cut: There is more, or the peer hung up before its end.
        content_type: As sent, lower case.
    """

    status: int
    body: bytes
    cut: bool
    content_type: str


def get(url: str, deadline_s: float, max_bytes: int = MAX_BODY_BYTES, method: str = "GET") -> Reply:
    """Fetch a page.

    Args:
        url: http or https.
        deadline_s: For all of it: a peer that sends a byte a second is given up too.
        max_bytes: Of the body.
        method: POST, without a body, where that is how a page is asked for.

    Raises:
        FetchError: If there is no connection, no answer in time, or an encoding that was not asked for.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise FetchError(f"not an http address: {url[:200]}")
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname, parts.port, timeout=deadline_s)
    # A time limit of the socket begins anew with each byte; this one does not. It also ends slow headers.
    expired = threading.Event()
    timer = threading.Timer(deadline_s, _give_up, (connection, expired))
    timer.daemon = True
    timer.start()
    try:
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        headers = {"Accept": "text/plain;version=0.0.4, application/json", "Accept-Encoding": "identity"}
        connection.request(method, path, headers=headers)
        reply = connection.getresponse()
        if reply.getheader("Content-Encoding", "identity").lower() != "identity":
            raise FetchError(f"answers in an encoding that was not asked for ({reply.getheader('Content-Encoding')})")
        body = bytearray()
        while len(body) <= max_bytes and not expired.is_set():
            chunk = reply.read1(CHUNK_BYTES)
            if not chunk:
                break
            body += chunk
        if expired.is_set():
            raise FetchError(f"no whole answer within {deadline_s:g} s ({len(body)} bytes came)")
        content_type = (reply.getheader("Content-Type") or "").lower()
        cut = len(body) > max_bytes or bool(reply.length)
        return Reply(reply.status, bytes(memoryview(body)[:max_bytes]), cut, content_type)
    except (OSError, http.client.HTTPException, ValueError) as error:
        if expired.is_set():
            raise FetchError(f"no whole answer within {deadline_s:g} s") from error
        raise FetchError(str(error) or type(error).__name__) from error
    finally:
        timer.cancel()
        connection.close()


def _give_up(connection: http.client.HTTPConnection, expired: threading.Event) -> None:
    expired.set()
    sock = connection.sock
    if sock is not None:
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)
