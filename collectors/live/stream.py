"""Rows of one stream, numbered on from where an earlier one ended."""

from collections.abc import Mapping
from typing import Any

from oomctl.schemas.rows import Row, make_row


class Stream:
    """Makes the rows of a source.

    Args:
        name: Of the stream.
        source: As of the event table.
        common: Its other common columns: node, worker, incarnation.
        first_seq: Number of the last row that an earlier source wrote.

    Attributes:
        seq: Number of the last row.
    """

    def __init__(self, name: str, source: str, common: Mapping[str, Any], first_seq: int = 0) -> None:
        self.seq = first_seq
        own = {"stream": name, "source": source, "ts_quality": "exact", "quality": "measured"}
        self._common = {**common, **own}

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
