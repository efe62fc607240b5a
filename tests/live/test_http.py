"""One bounded GET against peers that do everything wrong; each costs its limit and one clear line."""

import gzip
import socket
import time

import pytest

from oomctl.collectors.live.http import FetchError, get
from tests.live.peers import OK, peer


def test_a_page() -> None:
    with peer(lambda to: to.sendall(OK + b"Content-Length: 4\r\n\r\na 1\n")) as url:
        reply = get(url, 5)
    assert (reply.status, reply.body, reply.cut, reply.content_type) == (200, b"a 1\n", False, "text/plain")


def test_a_body_without_end_is_cut() -> None:
    def talk(to: socket.socket) -> None:
        to.sendall(OK + b"\r\n")
        while True:
            to.sendall(b"a 1\n" * 10_000)

    with peer(talk) as url:
        reply = get(url, 30, max_bytes=100_000)
    assert len(reply.body) == 100_000
    assert reply.cut


def test_a_peer_that_hangs_up_in_the_middle() -> None:
    with peer(lambda to: to.sendall(OK + b"Content-Length: 400\r\n\r\na 1\n")) as url:
        reply = get(url, 5)
    assert reply.body == b"a 1\n"
    assert reply.cut


@pytest.mark.parametrize("start", [OK + b"\r\n", OK, b"HTTP/1.1 2"], ids=["body", "headers", "status"])
def test_a_byte_a_second_is_given_up(start: bytes) -> None:
    def talk(to: socket.socket) -> None:
        to.sendall(start)
        for _ in range(100):
            to.sendall(b"a")
            time.sleep(0.1)

    with peer(talk) as url, pytest.raises(FetchError, match="no whole answer within"):
        get(url, 0.5)


def test_silence_is_given_up() -> None:
    with peer(lambda to: time.sleep(2)) as url, pytest.raises(FetchError, match=r"no whole answer within|timed out"):
        get(url, 0.3)


def test_redirects_are_not_followed() -> None:
    with peer(
        lambda to: to.sendall(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n")
    ) as url:
        assert get(url, 5).status == 302


def test_a_gzip_bomb_is_not_unpacked() -> None:
    bomb = gzip.compress(bytes(10_000_000))
    with (
        peer(lambda to: to.sendall(OK + b"Content-Encoding: gzip\r\n\r\n" + bomb)) as url,
        pytest.raises(FetchError, match="encoding that was not asked for"),
    ):
        get(url, 5)


@pytest.mark.parametrize(
    "garbage", [b"\x00\xff" * 100, b"SSH-2.0-x\r\n", b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 1000 + b"\r\n", b""]
)
def test_what_is_no_http(garbage: bytes) -> None:
    with peer(lambda to: to.sendall(garbage)) as url, pytest.raises(FetchError):
        get(url, 5)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://h/x", "http://", "127.0.0.1:8000/metrics", "http://h:99999/"])
def test_what_is_no_address(url: str) -> None:
    with pytest.raises((FetchError, ValueError)):
        get(url, 1)


def test_nobody_listens() -> None:
    with pytest.raises(FetchError, match="refused"):
        get("http://127.0.0.1:1/metrics", 5)
