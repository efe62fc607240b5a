"""A log that grows gives the rows that it gives when it is whole, however its bytes come."""

import io
import random
from typing import cast

import pytest

from oomctl.collectors.artifacts.logs import LogReading, read_log
from oomctl.schemas.rows import Row
from tests.scenarios import catalogue, render_log


class Growing(io.RawIOBase):
    """Gives a text in pieces, None between them, and its end only when told to."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[bytes] = []
        self.ended = False

    def read(self, size: int = -1) -> bytes | None:
        if self.pieces:
            return self.pieces.pop(0)
        return b"" if self.ended else None


def followed(data: bytes, cuts: list[int]) -> list[Row]:
    source = Growing()
    reading = LogReading(cast(io.BufferedReader, source), "a.log")
    rows = []
    for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        source.pieces.append(data[start:end])
        rows += list(reading.follow())
    source.ended = True
    rows += list(reading.follow())
    assert list(reading.follow()) == []
    assert reading.problem is None
    return rows


@pytest.mark.parametrize("name", [scenario.name for scenario in catalogue()])
def test_a_growing_log_gives_the_rows_of_the_whole_one(name: str) -> None:
    data = render_log(name, seed=5, ranks=2).encode()
    whole = list(read_log(io.BytesIO(data), "a.log").rows)
    draw = random.Random(name)
    for pieces in (3, 40):
        cuts = sorted(draw.sample(range(1, len(data)), min(pieces, len(data) - 1)))
        assert followed(data, cuts) == whole


def test_nothing_is_told_of_a_line_that_is_not_whole() -> None:
    source = Growing()
    reading = LogReading(cast(io.BufferedReader, source), "a.log")
    assert list(reading.follow()) == []
    source.pieces = [b"\n  \n"]
    assert list(reading.follow()) == []
    source.pieces = [b"WARNING 03-11 02:42:11 [core.py:1] half a"]
    assert list(reading.follow()) == []
    source.pieces = [b" line\n"]
    rows = list(reading.follow())
    assert [row["log"]["text"] for row in rows] == ["WARNING 03-11 02:42:11 [core.py:1] half a line"]
    assert rows[0]["line"] == 3
