"""Whatever a verdict cites was returned by the evidence query that the citation names."""

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from oomctl import queries
from oomctl.analyzers.triage.case import Case
from oomctl.analyzers.triage.evidence import Answers, ask
from oomctl.analyzers.triage.groups import incidents
from oomctl.analyzers.triage.verdict import incident
from oomctl.schemas.verdict import Citation
from tests.scenarios import catalogue
from tests.scenarios.connected import connected

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

CASES = [(scenario.name, engine, ranks) for scenario in catalogue() for engine in scenario.engines for ranks in (1, 2)]


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


def returned(connection: "DuckDBPyConnection", members: list[dict[str, Any]], name: str) -> set[tuple[str, int]]:
    """(stream, seq) of the rows that an evidence query returns: about the root, frames and figures about each member."""
    asked = members if name in ("frames", "figures") else members[:1]
    return {(row["stream"], row["seq"]) for member in asked for row in ask(connection, name, member)}


@pytest.mark.parametrize(("scenario", "engine", "ranks"), CASES)
def test_every_cited_row_is_returned_by_the_named_query(scenario: str, engine: str, ranks: int) -> None:
    connection = connected(scenario, seed=2, ranks=ranks, engine=engine)
    for members in incidents(connection):
        rows = cache(lambda name, members=members: returned(connection, members, name))
        found = incident(Case(Answers(connection), members[0], members))
        cited = list(citations(found))
        assert cited
        for citation in cited:
            assert (citation.stream, citation.seq) in rows(citation.query), citation
        for statement in (*found.evidence, *found.against):
            assert statement.cites, f"{statement.says}: nothing is cited"


def test_the_query_that_a_citation_names_exists() -> None:
    connection = connected("prefill_long_prompt")
    members = incidents(connection)[0]
    named = {citation.query for citation in citations(incident(Case(Answers(connection), members[0], members)))}
    assert {"failures", "batch"} <= named <= set(queries.names("evidence"))
