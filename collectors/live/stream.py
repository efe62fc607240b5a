"""Rows of one stream, numbered on from where an earlier one of the same name ended."""

from collections.abc import Mapping
from typing import Any

from oomctl.schemas.rows import Row, make_row


class Stream:
    """Makes the rows of a source.

    Args:
        name: Of the source.
        source: As of the event table.
        common: Its other common columns: node, worker, incarnation; `stream` is what stands before the name.

    Attributes:
        name: Of the stream.
        seq: Number of the last row.
        mark: How far its source was read, where the source itself numbers what it gives; the next recorder goes on there.
    """

    def __init__(self, name: str, source: str, common: Mapping[str, Any]) -> None:
        place = common.get("stream")
        self.name = f"{place}/{name}" if place else name
        self.seq = 0
        self.mark: int | None = None
        own = {"stream": self.name, "source": source, "ts_quality": "exact", "quality": "measured"}
        self._common = {**common, **own}

    def resume(self, at: Any) -> None:
        """Go on behind what an earlier recorder wrote, if it was this stream."""
        if isinstance(at, list) and at[:1] == [self.name]:
            self.seq = int(at[1])
            self.mark = int(at[2]) if len(at) > 2 else None

    def at(self) -> list[Any]:
        """For the recorder's state: (name, number of the last row, and the mark where there is one)."""
        return [self.name, self.seq] if self.mark is None else [self.name, self.seq, self.mark]

    def row(self, ts: int, kind: str, fields: dict[str, Any], common: Mapping[str, Any] | None = None) -> Row:
        """The next row.

        Args:
            ts: Microseconds since 1970.
            kind: Its kind.
            fields: The kind's own.
            common: Common columns that differ from the stream's.
        """
        self.seq += 1
        return make_row(kind, fields, {**self._common, "ts": ts, "seq": self.seq, **(common or {})})
