"""What step 2 tells of graph captures."""

import pytest

from oomctl.experiment.steps.memory import CAPTURES
from oomctl.schemas import storage
from oomctl.schemas.rows import make_row


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ([("agent", "eager")], [0]),
        ([("agent", "FULL"), ("agent", "PIECEWISE")], [2]),
        # A log tells their sum in one line.
        ([("agent", None), ("agent", None), ("log", None)], [1, 2]),
        ([], []),
    ],
)
def test_an_eager_engine_captured_none(told: list[tuple[str, str | None]], expected: list[int]) -> None:
    connection = storage.connect()
    try:
        rows = [
            make_row("graph", {"mode": mode}, {"stream": source, "seq": seq, "source": source, "ts": 1})
            for seq, (source, mode) in enumerate(told)
        ]
        storage.load_rows(connection, rows)
        assert sorted(count for (count,) in connection.execute(CAPTURES).fetchall()) == expected
    finally:
        connection.close()
