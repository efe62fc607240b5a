"""Small changes of an input, the same for the same seed: what damaged, cut and hostile files have in common."""

import random
import re
from collections.abc import Callable, Sequence

MAX_BYTES = 1 << 16
NUMBERS = (
    b"0", b"-1", b"255", b"4294967296", b"-9223372036854775809", b"18446744073709551616", b"1e999", b"NaN", b"0x7f",
    "\u00b2\u0663".encode(), b"9" * 400,
)  # fmt: skip
"""In the place of digits: out of range, no number to a machine, digits to `str.isdigit` alone."""
WORDS = (
    b"\0", b"\xff\xfe", b"\r", b"\n", b"\\", b'"', b"'", b"{", b"}}", b"[[", b"\xed\xa0\x80", b"\\ud800", b"null", b"true",
    b"\xf0\x9f\x92\xa5", b"\x1b[31m", b"\xc1", b"\xdf\xff\xff\xff\xff", b"--", b"%s", b"\x80",
)  # fmt: skip
_DIGITS = re.compile(rb"\d+")

Change = Callable[[random.Random, bytearray, Sequence[bytes]], None]


def mutated(data: bytes, seed: int, others: Sequence[bytes]) -> bytes:
    """One to four changes.

    Args:
        data: What is changed.
        seed: Which changes.
        others: Inputs of which a part may be put in.
    """
    draw, found = random.Random(seed), bytearray(data)
    for _ in range(draw.randint(1, 4)):
        draw.choice(_CHANGES)(draw, found, others)
    return bytes(found[:MAX_BYTES])


def _flip(draw: random.Random, data: bytearray, others: Sequence[bytes]) -> None:
    if data:
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)


def _set(draw: random.Random, data: bytearray, others: Sequence[bytes]) -> None:
    if data:
        data[draw.randrange(len(data))] = draw.choice((0, 1, 0x7F, 0x80, 0xFF, draw.randrange(256)))


def _cut(draw: random.Random, data: bytearray, others: Sequence[bytes]) -> None:
    del data[draw.randrange(len(data) + 1) :]


def _remove(draw: random.Random, data: bytearray, others: Sequence[bytes]) -> None:
    start = draw.randrange(len(data) + 1)
    del data[start : start + draw.choice((1, 2, 8, 64, 512))]


def _repeat(draw: random.Random, data: bytearray, others: Sequence[bytes]) -> None:
    start = draw.randrange(len(data) + 1)
    part = data[start : start + draw.choice((1, 3, 17, 200))]
    data[start:start] = part * draw.choice((1, 2, 40))


def _insert(draw: random.Random, data: bytearray, others: Sequence[bytes]) -> None:
    start = draw.randrange(len(data) + 1)
    data[start:start] = draw.choice(WORDS) * draw.choice((1, 1, 1, 100))


def _number(draw: random.Random, data: bytearray, others: Sequence[bytes]) -> None:
    found = list(_DIGITS.finditer(data))
    if found:
        start, end = draw.choice(found).span()
        data[start:end] = draw.choice(NUMBERS)


def _splice(draw: random.Random, data: bytearray, others: Sequence[bytes]) -> None:
    other = draw.choice(others)
    start, there = draw.randrange(len(data) + 1), draw.randrange(len(other) + 1)
    data[start:] = other[there:]


_CHANGES: tuple[Change, ...] = (_flip, _set, _cut, _remove, _repeat, _insert, _number, _splice)
