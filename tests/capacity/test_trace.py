"""A trace in columns keeps what belongs together when requests are taken out of it."""

import numpy as np
import polars as pl

from oomctl.schemas.trace import COLUMNS, Prefixes, Trace, request_table

PREFIXES = Prefixes(np.array([0, 1, 2, 0, 3, 0, 1, 4, 5], dtype=np.int32), np.array([0, 3, 5, 5, 9]), 6, 16, "floor")
TRACE = Trace(
    "made",
    "mooncake",
    request_table({"arrival_s": [0, 1, 2, 3], "prompt_tokens": [50, 40, 3, 70], "status": ["ok"] * 4}),
    prefixes=PREFIXES,
)


def test_what_is_not_told_is_null() -> None:
    assert TRACE.requests.schema == pl.Schema(COLUMNS)
    assert TRACE.requests["tenant"].null_count() == len(TRACE) == 4


def test_taken_requests_keep_their_blocks() -> None:
    taken = TRACE.take(np.array([3, 2, 0]))
    assert taken.requests["prompt_tokens"].to_list() == [70, 3, 50]
    assert taken.prefixes is not None
    assert [ids.tolist() for ids in taken.prefixes] == [[0, 1, 4, 5], [], [0, 1, 2]]
    assert taken.prefixes.of(2).tolist() == [0, 1, 2]


def test_where() -> None:
    found = TRACE.where(pl.col("prompt_tokens") > 45)
    assert found.requests["arrival_s"].to_list() == [0.0, 3.0]
    assert found.prefixes is not None
    assert found.prefixes.counts.tolist() == [3, 4]
