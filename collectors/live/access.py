"""Who may talk to what listens here: this machine alone, or whoever has a token."""

import hmac
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any

from oomctl.schemas.errors import ExitCode, OomctlError

LOOPBACK = "127.0.0.1"
VARIABLE = "OOMCTL_TOKEN"
MIN_TOKEN_CHARS = 16
MAX_TOKEN_BYTES = 4096
REFUSED = "no token, or another one: send it as `Authorization: Bearer TOKEN`"

_WsgiApp = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


@dataclass(frozen=True)
class Access:
    """Where to listen, and what is asked of who comes.

    Attributes:
        host: An address of this machine; LOOPBACK, unless somebody decided otherwise.
        token: What a peer must show, or None; never shown itself.

    Raises:
        OomctlError: If others may come and no token is asked of them, or one that can be guessed.
    """

    host: str = LOOPBACK
    token: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.token is None and not is_loopback(self.host):
            hint = f"give a token with --token-file or {VARIABLE}, or listen on {LOOPBACK}"
            raise OomctlError(f"refused to listen on {self.host} without a token", hint, ExitCode.USAGE)
        if self.token is not None and not (
            len(self.token) >= MIN_TOKEN_CHARS
            and self.token.isascii()
            and self.token.isprintable()
            and " " not in self.token
        ):
            hint = "make one: openssl rand -hex 32"
            raise OomctlError(f"a token takes {MIN_TOKEN_CHARS} printable characters or more", hint, ExitCode.USAGE)

    @property
    def family(self) -> socket.AddressFamily:
        """IPv6 where the address is one."""
        return socket.AF_INET6 if ":" in self.host else socket.AF_INET

    def at(self, port: int) -> str:
        """HOST:PORT, as URLs write it."""
        return f"[{self.host}]:{port}" if ":" in self.host else f"{self.host}:{port}"

    def allows(self, authorization: str | None) -> bool:
        """Whether a peer that sends this header is let in; takes as long for any wrong token.

        Args:
            authorization: The value of the header, or None.
        """
        if self.token is None:
            return True
        scheme, _, shown = (authorization or "").partition(" ")
        same = hmac.compare_digest(shown.strip().encode("utf-8", "replace"), self.token.encode())
        return same and scheme.lower() == "bearer"

    def guarded(self, app: _WsgiApp) -> _WsgiApp:
        """A WSGI application that is asked only by who is let in."""

        def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
            if self.allows(environ.get("HTTP_AUTHORIZATION")):
                return app(environ, start_response)
            body = f"{REFUSED}\n".encode()
            headers = [("Content-Type", "text/plain"), ("Content-Length", str(len(body))), ("WWW-Authenticate", "Bearer")]
            start_response("401 Unauthorized", headers)
            return [body]

        return answer


def is_loopback(host: str) -> bool:
    """Whether an address is this machine's own; a name that is not `localhost` may mean anything."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


LOCAL = Access()
"""This machine alone; nothing is asked."""
