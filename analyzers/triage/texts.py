"""Fills in the text of cited lines, once for all statements of a verdict."""

from collections import defaultdict
from collections.abc import Callable, Iterator
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
        for citation in citations(incident):
            if citation.line is not None:
                wanted[citation.stream].add(citation.line)
    known: dict[tuple[str, int], tuple[str, int, str]] = {}
    for stream, lines in wanted.items():
        for row in ask(connection, "lines", {"stream": stream, "lines": sorted(lines)}):
            known[stream, row["line"]] = (row["log_file"], row["file_line"] or row["line"], row["text"])

    def replaced(citation: Citation) -> Citation:
        found = known.get((citation.stream, citation.line)) if citation.line is not None else None
        if found is None:
            return citation
        return msgspec.structs.replace(citation, file=found[0], line=found[1], text=found[2])

    return [mapped(incident, replaced) for incident in incidents]


def citations(value: Any) -> Iterator[Citation]:
    """Every citation anywhere in a verdict."""
    if isinstance(value, Citation):
        yield value
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from citations(getattr(value, name))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from citations(item)


def mapped(value: Any, replaced: Callable[[Citation], Citation]) -> Any:
    """A verdict, or a part of one, with another citation in the place of each."""
    if isinstance(value, Citation):
        return replaced(value)
    if isinstance(value, msgspec.Struct):
        changed = {name: mapped(getattr(value, name), replaced) for name in value.__struct_fields__}
        return msgspec.structs.replace(value, **changed)
    if isinstance(value, list):
        return [mapped(item, replaced) for item in value]
    if isinstance(value, tuple):
        return tuple(mapped(item, replaced) for item in value)
    return value
