"""The engines whose logs are read. A new engine is one module and one line here."""

import re
from collections.abc import Iterable, Iterator

from oomctl.collectors.artifacts.logs import llamacpp, lmdeploy, pytorch, sglang, tgi, triton, trtllm, vllm
from oomctl.collectors.artifacts.logs.fact import EngineReader, Fact, Rule
from oomctl.collectors.artifacts.logs.headers import HeaderPattern
from oomctl.collectors.artifacts.logs.pattern import Pattern
from oomctl.collectors.artifacts.logs.record import Record
from oomctl.collectors.artifacts.logs.redact import redact
from oomctl.collectors.artifacts.logs.shapes import blot

READERS: tuple[EngineReader, ...] = (vllm, sglang, trtllm, tgi, lmdeploy, llamacpp, triton, pytorch)
"""In the order in which they are asked about an exception: engines before the framework."""

HEADERS: tuple[HeaderPattern, ...] = (
    vllm.HEADER,
    sglang.HEADER,
    *triton.HEADERS,
    *trtllm.HEADERS,
    *tgi.HEADERS,
    *lmdeploy.HEADERS,
    *llamacpp.HEADERS,
    pytorch.HEADER,
)
"""In the order in which they are looked for in a line."""

ENGINES = frozenset(reader.name for reader in READERS) - {pytorch.name, triton.name}
"""Whose lines tell which engine it is; those of the framework, and of a server that runs any engine, do not."""

_SOURCES = Pattern(
    "(?:^|[/ ])(?:" + "|".join(f"(?P<{reader.name}>{reader.sources})" for reader in READERS if reader.sources) + ")"
)

_REPEAT = re.compile(r"\{\d*,?\d*\}")
_LITERAL_DIGIT = re.compile(r"[0-9]")
_QUOTE = re.compile(r"['\"]")
_RULES: tuple[tuple[bytes, str, Rule], ...] = tuple(
    (blot(rule.literal.encode()), reader.name, rule) for reader in READERS for rule in reader.rules
)
MAX_KNOWN = 10_000
MAX_KNOWN_BYTES = 2000
_known: dict[bytes, tuple[tuple[str, Rule], ...]] = {}
"""The rules that lines of a shape may match; a dump of many requests is a shape of its own, and not kept."""


def facts(record: Record) -> Iterator[tuple[str, Fact]]:
    """(engine, fact) of all that a line tells that is no part of a traceback."""
    text = record.text
    for engine, rule in _candidates(text):
        match = rule.pattern.search(text) if rule.literal in text else None
        if match is not None and _QUOTE.search(text, 0, match.start()) is not None:
            # It may stand in a prompt that the line echoes.
            match = rule.pattern.search(redact(text))
        if match is not None:
            for fact in rule.handler(match, record):
                yield engine, fact


def _candidates(text: str) -> tuple[tuple[str, Rule], ...]:
    shape = blot(text.encode("utf-8", "replace"))
    found = _known.get(shape)
    if found is None:
        found = tuple((engine, rule) for literal, engine, rule in _RULES if literal in shape)
        if len(shape) <= MAX_KNOWN_BYTES:
            if len(_known) >= MAX_KNOWN:
                _known.clear()
            _known[shape] = found
    return found


def by_digits(text: str) -> bool:
    """Whether a rule that a line may match looks for certain digits."""
    rules = (rule for _, rule in _candidates(text))
    return any(_LITERAL_DIGIT.search(_REPEAT.sub("", f"{rule.literal} {rule.expression}")) for rule in rules)


def engine_of(files: Iterable[str]) -> str | None:
    """Whose source files a stack runs through: the first's, as engines borrow from one another, and are not called back.

    Args:
        files: Paths or namespaces of its frames, the outermost first.
    """
    for file in files:
        found = _SOURCES.search(file.replace("\\", "/"))
        if found is not None:
            return found.lastgroup
    return None


def literals() -> frozenset[str]:
    """The texts of which a line holds one if any rule wants it."""
    return frozenset(rule.literal for _, _, rule in _RULES)
