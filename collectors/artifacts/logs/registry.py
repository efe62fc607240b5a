"""The engines whose logs are read. A new engine is one module and one line here."""

from collections.abc import Iterator

from oomctl.collectors.artifacts.logs import pytorch, sglang, vllm
from oomctl.collectors.artifacts.logs.fact import EngineReader, Fact, Rule
from oomctl.collectors.artifacts.logs.headers import HeaderPattern
from oomctl.collectors.artifacts.logs.record import Record

READERS: tuple[EngineReader, ...] = (vllm, sglang, pytorch)
"""In the order in which they are asked about an exception: engines before the framework."""

HEADERS: tuple[HeaderPattern, ...] = (vllm.HEADER, sglang.HEADER, pytorch.HEADER)
"""In the order in which they are looked for in a line."""

ENGINES = frozenset(reader.name for reader in READERS) - {pytorch.name}
"""Whose lines tell which engine it is; those of the framework do not."""

_RULES: tuple[tuple[str, str, Rule], ...] = tuple(
    (rule.literal, reader.name, rule) for reader in READERS for rule in reader.rules
)


def facts(record: Record) -> Iterator[tuple[str, Fact]]:
    """(engine, fact) of all that a line tells that is no part of a traceback."""
    text = record.text
    for literal, engine, rule in _RULES:
        if literal in text:
            match = rule.pattern.search(text)
            if match is not None:
                for fact in rule.handler(match, record):
                    yield engine, fact


def literals() -> frozenset[str]:
    """The texts of which a line holds one if any rule wants it."""
    return frozenset(literal for literal, _, _ in _RULES)
