"""Work grows with the input, not faster. Steps are counted, no clock is read."""

import importlib
import pkgutil
import re
import sys
from collections.abc import Callable, Iterator
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from types import FrameType
from typing import Any

import pytest

import oomctl.collectors.artifacts.logs as logs
from oomctl.collectors.artifacts.logs import registry
from oomctl.collectors.artifacts.logs.headers import HeaderPattern
from oomctl.collectors.artifacts.logs.pattern import Pattern
from tests.logs.reading import read
from tests.logs.samples import SGLANG, VLLM

MANY = 64
"""A repeat of at most so many rounds counts as bounded."""
DELIMITED = {
    "arguments._OBJECT", "failures._LONE", "headers", "lines._RANK_SUFFIX", "standard._ANY", "tracebacks._EXCEPTION",
}  # fmt: skip
"""Repeats within repeats whose rounds end with what the inner one cannot take (a dot, a digit, a colon, a brace), so that a
text can be split in one way only."""
HEAD = b"INFO 03-14 15:09:26 [a.py:1] "
GROWING: dict[str, Callable[[int], bytes]] = {
    "logs of vLLM": lambda n: VLLM.encode() * n,
    "logs of SGLang": lambda n: SGLANG.encode() * n,
    "dull lines": lambda n: b'INFO:     10.0.0.1:4 - "POST /v1/completions HTTP/1.1" 200 OK\n' * 30 * n,
    "brackets": lambda n: HEAD + b"([{" * 200 * n + b" error\n",
    "quotes that stay open": lambda n: (HEAD + b"prompt: 'error\n") * 30 * n,
    "heads of tracebacks": lambda n: b"Traceback (most recent call last):\n" * 30 * n,
    "heads of many writers": lambda n: b"".join(
        b"(W pid=%d) Traceback (most recent call last):\n" % number for number in range(60 * n)
    ),
    "frames": lambda n: b"Traceback (most recent call last):\n" + b'  File "a", line 1, in f\n' * 30 * n,
    "marks": lambda n: b"Traceback (most recent call last):\n" + (b"^" * 200 + b"x\n") * 30 * n,
    "failures": lambda n: b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB.\n" * 30 * n,
    "carriage returns": lambda n: b"error\r" * 30 * n + b"\n",
    "objects in a line": lambda n: HEAD + b'error {"a": ' * 20 * n + b"\n",
}


def steps(log: bytes) -> int:
    """Calls of functions, Python's and C's, that reading a log makes."""
    count = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        read(log)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("name", GROWING)
def test_twice_the_input_takes_twice_the_steps(name: str) -> None:
    log = GROWING[name]
    read(log(1))  # compiles what is compiled once
    one, two, four = (steps(log(n)) for n in (8, 16, 32))
    assert two - one > 0 or name in ("brackets", "objects in a line")
    assert four - two <= 2.2 * (two - one) + 100


def expressions() -> Iterator[tuple[str, str, int]]:
    """(where, expression, flags) of every pattern that reading a log may use."""
    for module in pkgutil.walk_packages(logs.__path__, f"{logs.__name__}."):
        name = module.name.removeprefix(f"{logs.__name__}.")
        for variable, value in vars(importlib.import_module(module.name)).items():
            yield from _in(value, f"{name}.{variable}")
    for reader in registry.READERS:
        for rule in reader.rules:
            yield f"{reader.name}: {rule.literal}", rule.expression, 0


def _in(value: object, where: str) -> Iterator[tuple[str, str, int]]:
    if isinstance(value, re.Pattern):
        text = value.pattern if isinstance(value.pattern, str) else value.pattern.decode()
        yield where, text, value.flags & ~re.UNICODE
    elif isinstance(value, Pattern):
        yield where, value._expression, value._flags
    elif isinstance(value, HeaderPattern):
        yield from _in(value.pattern, "headers")
        yield from _in(value.anchor, "headers")
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _in(item, where)
    elif isinstance(value, dict):
        yield from _in(list(value.values()), where)


def repeats_within_repeats(tree: Any, inside: bool = False) -> bool:
    return any(_repeats(operation, argument, inside) for operation, argument in tree)


def _repeats(operation: object, argument: Any, inside: bool) -> bool:
    if operation in (sre.MAX_REPEAT, sre.MIN_REPEAT):
        _, most, body = argument
        return (most > MANY and inside) or repeats_within_repeats(body, inside or most > MANY)
    if operation is sre.SUBPATTERN:
        return repeats_within_repeats(argument[3], inside)
    if operation is sre.BRANCH:
        return any(repeats_within_repeats(branch, inside) for branch in argument[1])
    return operation in (sre.ASSERT, sre.ASSERT_NOT) and repeats_within_repeats(argument[1], inside)


def test_the_check_knows_a_bomb() -> None:
    assert repeats_within_repeats(_parser.parse(r"^\s*(?:[\^~]+\s*)+$"))
    assert not repeats_within_repeats(_parser.parse(r"^\s*[\^~][\^~\s]*$"))


def test_no_pattern_repeats_what_repeats() -> None:
    """Such a pattern can take time that doubles with each character. Make it flat, or list it with what delimits it."""
    found = {where for where, text, flags in expressions() if repeats_within_repeats(_parser.parse(text, flags))}
    assert found - DELIMITED == set()
