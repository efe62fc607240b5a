"""One connection for all inputs of a target: to make one takes fifty times as long as to read a small file into it."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from unittest.mock import patch

import duckdb

from oomctl.schemas import ddl, storage
from oomctl.schemas.events import KINDS

_EMPTY = "".join(f"DELETE FROM {ddl.stored(kind)};" for kind in KINDS.values())
_connect = storage.connect


@contextmanager
def table() -> Iterator[duckdb.DuckDBPyConnection]:
    """An empty event table, which is also what `storage.connect` gives meanwhile."""
    connection = _kept()
    with patch.object(storage, "connect", lambda: connection):
        yield connection
    connection.execute(_EMPTY)


@cache
def _kept() -> duckdb.DuckDBPyConnection:
    return _connect()
