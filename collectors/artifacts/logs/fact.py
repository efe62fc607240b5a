"""What a reader says of a line, before it becomes a row; and how readers list their rules."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from oomctl.collectors.artifacts.logs.record import Record
from oomctl.collectors.artifacts.logs.units import GIB, Size, size

BEYOND = 1 << 63


@dataclass(slots=True)
class Fact:
    """A row to be: its kind, its fields, and common columns that the line itself tells (rank, device_id, quality).

    An integer that the event table cannot hold is no figure: it is left out.
    """

    kind: str
    fields: dict[str, Any]
    common: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for told in (self.fields, self.common):
            for name in [name for name, value in told.items() if type(value) is int and not -BEYOND < value < BEYOND]:
                del told[name]


Handler = Callable[[re.Match[str], Record], Iterable[Fact]]


@dataclass
class Rule:
    """A line that tells something.

    Attributes:
        literal: A text that every such line holds; looked for first, because it is cheap.
        expression: Searched for in the text of the line; compiled when first needed, as most never are.
        handler: Makes the facts.
    """

    literal: str
    expression: str
    handler: Handler

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The compiled expression."""
        return re.compile(self.expression)


class Rules:
    """A reader's rules, in the order of their declaration."""

    def __init__(self) -> None:
        self._rules: list[Rule] = []

    def __iter__(self) -> Iterator[Rule]:
        return iter(self._rules)

    def include(self, others: "Rules") -> None:
        """Take over the rules of another module of the same engine."""
        self._rules += others._rules

    def on(self, literal: str, pattern: str | None = None) -> Callable[[Handler], Handler]:
        """Declare the handler of lines that hold `literal` and match `pattern` (by default the literal itself)."""

        def declare(handler: Handler) -> Handler:
            self._rules.append(Rule(literal, pattern or re.escape(literal), handler))
            return handler

        return declare


class EngineReader(Protocol):
    """What registry.py asks of an engine's module; each is one file beside this one.

    Attributes:
        name: Of the engine.
        sources: Expression for a part of the path of its own source files; "" where these do not tell that it ran.
        rules: What its lines tell.
    """

    name: str
    sources: str
    rules: Rules

    def exception(self, error_type: str, message: str, functions: frozenset[str]) -> Fact | None:
        """The oom, refusal or fault that an exception of this engine is; None if it is none that only this engine knows."""


def gib(number: str) -> Size | None:
    """A size printed in GiB (or in what the engine calls GB and divides by 2**30)."""
    return size(number, "GiB")


def memory(
    component: str, amount: Size | None, *, lifetime: str = "worker", owner: str | None = None, shape: str | None = None
) -> Iterator[Fact]:
    """A memory row, or nothing where the size was not to be read."""
    if amount is not None:
        fields = {
            "component": component,
            "lifetime": lifetime,
            "bytes": amount.bytes,
            "resolution_bytes": amount.resolution,
        }
        if owner is not None:
            fields["owner"] = owner
        if shape is not None:
            fields["shape"] = shape
        yield Fact("memory", fields)


def phase(name: str, detail: str | None = None) -> Fact:
    """A lifecycle row."""
    return Fact("lifecycle", {"phase": name} if detail is None else {"phase": name, "detail": detail[:500]})


def manifest(section: str, key: str, value: str) -> Fact:
    """A manifest row."""
    return Fact("manifest", {"section": section, "key": key, "value": value[:1000]})


def integer(number: str) -> int:
    """An integer as printed, with or without thousands separators."""
    return int(number.replace(",", "")[:18])


__all__ = [
    "BEYOND", "GIB", "EngineReader", "Fact", "Rule", "Rules", "gib", "integer", "manifest", "memory", "phase",
]  # fmt: skip
