"""Live sources of one worker as one story: its core, its ranks and its recorder each write a stream of their own.

A failure of a rank is explained by steps that the core wrote. So triage reads such rows from a second event table, in which
the worker is the stream and the place in its story the seq (queries/views/story.sql); a step and the pool figures of that
step share a line, as they do in a log. What was found cites the rows as they were recorded.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from oomctl import queries
from oomctl.analyzers.triage.evidence import EvidenceRow
from oomctl.analyzers.triage.texts import citations, mapped
from oomctl.schemas import ddl
from oomctl.schemas.events import KINDS
from oomctl.schemas.verdict import Citation, Incident

if TYPE_CHECKING:
    import duckdb

_NAME = "stories"
_ORIGINS = f"SELECT story, place, stream, seq FROM {_NAME}.placed WHERE (story, place) IN (SELECT unnest($1), unnest($2))"


class Stories:
    """The second event table.

    Args:
        connection: Holds the first one, with the derived views, under the name that is in use.
    """

    def __init__(self, connection: "duckdb.DuckDBPyConnection") -> None:
        self._connection = connection
        (self._first,) = connection.execute("SELECT current_database()").fetchone() or ("",)
        self.streams = {row[0] for row in connection.execute("SELECT DISTINCT stream FROM story").fetchall()}

    @contextmanager
    def told(self) -> Iterator[None]:
        """While it is open, the connection's event table is the one of stories."""
        execute = self._connection.execute
        execute(f"ATTACH ':memory:' AS {_NAME} (COMPRESS)")
        try:
            execute(f"CREATE TABLE {_NAME}.placed AS SELECT * FROM story")
            execute(f"USE {_NAME}")
            execute(ddl.store())
            for kind in KINDS.values():
                execute(
                    f"INSERT INTO {ddl.stored(kind)} SELECT source.* REPLACE ("
                    f"placed.story AS stream, placed.place AS seq, placed.step_place AS line) "
                    f"FROM {self._first}.{ddl.stored(kind)} AS source INNER JOIN placed USING (stream, seq)"
                )
            queries.install(self._connection)
            yield
        finally:
            execute(f"USE {self._first}")
            execute(f"DETACH {_NAME}")

    def name(self, members: list[EvidenceRow]) -> None:
        """Give the root of an incident the (stream, seq) by which it was recorded: its identity is made of that."""
        root = members[0]
        root["origin"] = self._origins({(root["stream"], root["seq"])}).get((root["stream"], root["seq"]))

    def recorded(self, members: list[EvidenceRow]) -> list[EvidenceRow]:
        """Members of an incident as they were recorded, for a case that is not made of stories."""
        known = self._origins({(member["stream"], member["seq"]) for member in members})
        found = []
        for member in members:
            stream, seq = known[member["stream"], member["seq"]]
            found.append({**member, "stream": stream, "seq": seq, "line": None})
        return found

    def as_recorded(self, incidents: list[Incident]) -> list[Incident]:
        """The incidents, citing rows as they were recorded; a log's rows are cited as such already."""
        cited = {(citation.stream, citation.seq) for incident in incidents for citation in citations(incident)}
        known = self._origins(cited)

        def replaced(citation: Citation) -> Citation:
            place = known.get((citation.stream, citation.seq))
            return citation if place is None else Citation(stream=place[0], seq=place[1], query=citation.query)

        return [mapped(incident, replaced) for incident in incidents]

    def _origins(self, places: set[tuple[str, int]]) -> dict[tuple[str, int], tuple[str, int]]:
        asked: list[Any] = [[story for story, _ in places], [place for _, place in places]]
        rows = self._connection.execute(_ORIGINS, asked).fetchall()
        return {(story, place): (stream, seq) for story, place, stream, seq in rows}
