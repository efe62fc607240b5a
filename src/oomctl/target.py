"""The event table that inputs are loaded into, and which streams it holds already."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, cast

from oomctl.inputs import Report
from oomctl.progress import Watch
from oomctl.schemas.errors import OomctlError
from oomctl.schemas.rows import Row
from oomctl.schemas.storage import Cut

if TYPE_CHECKING:
    import duckdb

_STREAMS = "SELECT DISTINCT stream FROM events"
_ENGINES = "SELECT DISTINCT value FROM manifest WHERE section = 'engine' AND key = 'name' AND stream IN (SELECT unnest(?))"


class Target:
    """(stream, seq) names a row: two inputs with a stream of the same name would mix, and every count double.

    The names are kept here, and not asked of the table, because an archive may hold thousands of inputs.

    Args:
        connection: From `storage.connect`.
        cut: What of a recording is loaded, where who asks does not need all of it.

    Attributes:
        connection: As given.
        cut: As given.
        streams: Those whose rows were loaded.
        watch: Called with each file that is read now.
    """

    def __init__(self, connection: "duckdb.DuckDBPyConnection", cut: Cut | None = None) -> None:
        self.connection = connection
        self.cut = cut
        self.streams: set[str] = set()
        self.watch: Watch = lambda name, file: None

    def refuse_known(self, streams: set[str], name: str) -> None:
        """Before an input is loaded.

        Raises:
            OomctlError: If one of its streams was loaded from another.
        """
        if twice := self.streams & streams:
            raise OomctlError(
                f"stream {min(twice)} was already read from another input ({name})", "read the two one at a time"
            )

    def fresh(self, rows: Iterable[Row], twice: set[str]) -> Iterator[Row]:
        """The rows of an input that is read as it comes, but those of streams that were loaded from another.

        Args:
            rows: As they come.
            twice: Takes the names of those streams.
        """
        for row in rows:
            if row["stream"] in self.streams:
                twice.add(row["stream"])
            else:
                yield row

    def tell_known(self, twice: set[str], name: str, report: Report) -> None:
        """After an input of which `fresh` left some streams out."""
        for stream in sorted(twice):
            report(
                OomctlError(f"stream {stream} was already read from another input ({name})", "read the two one at a time")
            )

    def loaded(self) -> set[str]:
        """The streams that came since it was asked last."""
        found = {cast(str, row[0]) for row in self.connection.execute(_STREAMS).fetchall()} - self.streams
        self.streams |= found
        return found

    def engines(self, streams: set[str]) -> tuple[str, ...]:
        """Whose streams they are, in order of name."""
        return tuple(sorted(str(row[0]) for row in self.connection.execute(_ENGINES, [sorted(streams)]).fetchall()))
