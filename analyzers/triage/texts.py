"""Fills in the text of cited lines, once for all statements of a verdict."""

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from oomctl.analyzers.triage.evidence import ask
from oomctl.schemas.verdict import Citation, Incident

if TYPE_CHECKING:
    import duckdb


def fill(connection: "duckdb.DuckDBPyConnection", incidents: list[Incident]) -> list[Incident]:
    """The incidents with file and text in every citation whose line was kept."""
    wanted: dict[str, set[int]] = defaultdict(set)
    for incident in incidents:
        for citation in _citations(incident):
            if citation.line is not None:
                wanted[citation.stream].add(citation.line)
    known: dict[tuple[str, int], tuple[str, str]] = {}
    for stream, lines in wanted.items():
        for row in ask(connection, "lines", {"stream": stream, "lines": sorted(lines)}):
            known[stream, row["line"]] = (row["log_file"], row["text"])
    return [_replaced(incident, known) for incident in incidents]


def _citations(value: Any) -> Iterator[Citation]:
    if isinstance(value, Citation):
        yield value
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from _citations(getattr(value, name))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _citations(item)


def _replaced(value: Any, known: dict[tuple[str, int], tuple[str, str]]) -> Any:
    if isinstance(value, Citation):
        found = known.get((value.stream, value.line)) if value.line is not None else None
        return value if found is None else msgspec.structs.replace(value, file=found[0], text=found[1])
    if isinstance(value, msgspec.Struct):
        changed = {name: _replaced(getattr(value, name), known) for name in value.__struct_fields__}
        return msgspec.structs.replace(value, **changed)
    if isinstance(value, list):
        return [_replaced(item, known) for item in value]
    if isinstance(value, tuple):
        return tuple(_replaced(item, known) for item in value)
    return value
