"""The engines whose logs are read. A new engine is one module and one line here."""

from collections.abc import Iterable, Iterator

from oomctl.collectors.artifacts.logs import pytorch, sglang, vllm
from oomctl.collectors.artifacts.logs.fact import EngineReader, Fact, Rule
from oomctl.collectors.artifacts.logs.headers import HeaderPattern
from oomctl.collectors.artifacts.logs.record import Record

READERS: tuple[EngineReader, ...] = (vllm, sglang, pytorch)
"""In the order in which they are asked about an exception: engines before the framework."""

HEADERS: tuple[HeaderPattern, ...] = (vllm.HEADER, sglang.HEADER, pytorch.HEADER)
"""In the order in which they are looked for in a line."""

STARTS: tuple[bytes, ...] = (b"LLM engine (v", b"server_args=")
"""Texts that announce a start: lines that only a start prints are looked for after them."""

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


def literals(engines: Iterable[str] | None) -> tuple[bytes, ...]:
    """What to look for in a chunk: everything where `engines` is None, else what those print while they serve."""
    found: dict[bytes, None] = {}
    for reader in READERS:
        if engines is None or reader.name in engines or reader is pytorch:
            found.update(dict.fromkeys(reader.triggers.serving))
        if engines is None:
            found.update(dict.fromkeys(reader.triggers.startup))
    return tuple(found)
