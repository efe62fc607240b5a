"""OTLP over HTTP: POST /v1/traces, protobuf or JSON, gzip or plain."""

import http.server
import threading
import zlib
from http import HTTPStatus

from oomctl.collectors.live.access import LOCAL, REFUSED, Access
from oomctl.collectors.live.listening import SILENCE_S, Bounded
from oomctl.collectors.live.otlp.inbox import MAX_BODY_BYTES, Inbox, Refused
from oomctl.schemas.numbers import whole

CHUNK_BYTES = 65_536


class _TooLarge(Exception):
    """A body over the limit, packed or not."""


class HttpReceiver:
    """Listens, in threads of its own, until it is closed.

    Args:
        inbox: Takes what comes.
        access: Where, and who may send.
        port: 0 for any.

    Raises:
        OSError: If the port is taken.
    """

    def __init__(self, inbox: Inbox, access: Access = LOCAL, port: int = 4318) -> None:
        self._server = _Server(inbox, access, port)
        self.port: int = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, name="oomctl-otlp-http", daemon=True).start()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()


class _Server(Bounded, http.server.HTTPServer):
    def __init__(self, inbox: Inbox, access: Access, port: int) -> None:
        self.address_family = access.family
        self.inbox = inbox
        self.access = access
        super().__init__((access.host, port), _Handler)

    def turned_away(self) -> None:
        self.inbox.lose("connection beyond those served at once", 1)


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = SILENCE_S
    server: _Server

    def do_POST(self) -> None:
        """Take an export."""
        if not self.server.access.allows(self.headers.get("Authorization")):
            self.server.inbox.lose("export without a token, or with another one", 1)
            self._reply(HTTPStatus.UNAUTHORIZED, REFUSED)
            return
        if self.path.split("?")[0] != "/v1/traces":
            self._reply(HTTPStatus.NOT_FOUND, "only /v1/traces is taken here")
            return
        try:
            body = self._unpacked(self._body())
            self.server.inbox.take_body(body, self.headers.get("Content-Type", ""))
        except _TooLarge:
            self.server.inbox.lose("body over the limit", 1)
            self._reply(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"more than {MAX_BODY_BYTES} bytes")
        except Refused as error:
            self.server.inbox.lose("body that is no export of traces", 1)
            self._reply(HTTPStatus.BAD_REQUEST, str(error))
        else:
            self._reply(HTTPStatus.OK, "")

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is printed for a request."""

    def _body(self) -> bytes:
        length = whole(self.headers.get("Content-Length"))
        if length is None:
            raise Refused("no Content-Length")
        if length > MAX_BODY_BYTES:
            raise _TooLarge
        body = bytearray()
        while len(body) < length:
            chunk = self.rfile.read1(min(CHUNK_BYTES, length - len(body)))
            if not chunk:
                raise Refused("the body ends before its length")
            body += chunk
        return bytes(body)

    def _unpacked(self, body: bytes) -> bytes:
        match self.headers.get("Content-Encoding", "identity").lower():
            case "identity":
                return body
            case "gzip":
                decoder = zlib.decompressobj(zlib.MAX_WBITS | 16)
                try:
                    plain = decoder.decompress(body, MAX_BODY_BYTES)
                except zlib.error as error:
                    raise Refused(str(error)) from error
                if decoder.unconsumed_tail:
                    raise _TooLarge
                return plain
            case other:
                raise Refused(f"Content-Encoding {other[:40]}")

    def _reply(self, status: HTTPStatus, text: str) -> None:
        # What was not read of a refused body would be taken for the next request.
        self.close_connection = status is not HTTPStatus.OK
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(data)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)
