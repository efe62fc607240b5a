"""The event table as text, written and read back: JSON lines, one row a line, and CSV with a column per field.

Every row names its schema, first of all, so that a part of a file, or two put together, are still known for what they are,
and no log in JSON is taken for one. NULL is left out, in CSV an empty cell; an empty text is `""`.
"""

import csv
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TextIO

import msgspec

from oomctl.schemas import ddl, storage
from oomctl.schemas.declare import DUCKDB_TYPES
from oomctl.schemas.errors import OomctlError
from oomctl.schemas.events import KINDS
from oomctl.schemas.rows import COMMON_FIELDS, FIELDS, Row, row_of
from oomctl.schemas.version import SCHEMA_VERSION, check_version
from oomctl.schemas.whole import beside

if TYPE_CHECKING:
    import duckdb

SCHEMA = f"oomctl.events/{SCHEMA_VERSION}"
HEAD_BYTES = 512
"""So much of a file's beginning tells what it is."""
_BATCH = 4096
_NAMED = re.compile(r"oomctl\.events/(\d{1,9})")
_JSONL = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"schema"\s*:\s*"oomctl\.events/')
_CSV = re.compile(rb'(?:\xef\xbb\xbf)?"?schema"?,"?ts"?,')


def is_jsonl(head: bytes) -> bool:
    """Whether a file that begins so was written by `write_jsonl`."""
    return _JSONL.match(head) is not None


def is_csv(head: bytes) -> bool:
    """Whether a file that begins so was written by `write_csv`."""
    return _CSV.match(head) is not None


def rows(connection: "duckdb.DuckDBPyConnection") -> Iterator[Row]:
    """The rows of the event table, as `storage.load_rows` takes them: only what is not NULL, `ts` in microseconds."""
    cursor = connection.execute("SELECT * REPLACE (epoch_us(ts) AS ts) FROM events ORDER BY stream, seq, kind")
    names = [column[0] for column in cursor.description or ()]
    kind = names.index("kind")
    while batch := cursor.fetchmany(_BATCH):
        for values in batch:
            yield {
                name: {key: item for key, item in value.items() if item is not None} if isinstance(value, dict) else value
                for name, value in zip(names, values, strict=True)
                if value is not None and (name not in KINDS or name == values[kind])
            }


def write_jsonl(connection: "duckdb.DuckDBPyConnection", path: Path) -> None:
    """Write one JSON object per row, `ts` in microseconds since 1970 UTC, to a file that only its owner may read."""
    encode = msgspec.json.Encoder().encode
    with beside(path) as scratch, scratch.open("wb") as file:
        for row in rows(connection):
            file.write(encode({"schema": SCHEMA, **row}) + b"\n")


def write_csv(connection: "duckdb.DuckDBPyConnection", path: Path) -> None:
    """Write a line per row, times in UTC, to a file that only its owner may read.

    Columns are `schema`, the common ones, and `KIND.FIELD` for every field that some row has.
    """
    fields = [(kind, field) for kind, own in FIELDS.items() for field in own.values()]
    counts = ", ".join(f'count("{kind}"."{field.name}")' for kind, field in fields)
    filled = connection.execute(f"SELECT {counts} FROM {ddl.TABLE}").fetchall()[0]
    used = [(kind, field) for (kind, field), count in zip(fields, filled, strict=True) if count]
    columns = [f"'{SCHEMA}' AS schema", *(f'"{name}"' for name in COMMON_FIELDS)]
    columns += [f'"{kind}"."{field.name}" AS "{kind}.{field.name}"' for kind, field in used]
    texts = [f'"{name}"' for name, field in COMMON_FIELDS.items() if field.type == "text"]
    texts += [f'"{kind}.{field.name}"' for kind, field in used if field.type == "text"]
    selected = f"SELECT {', '.join(columns)} FROM {ddl.TABLE} ORDER BY stream, seq, kind"
    with beside(path) as scratch:
        connection.execute(
            f"COPY ({selected}) TO '{storage.quoted(str(scratch))}' (FORMAT csv, HEADER, FORCE_QUOTE ({', '.join(texts)}))"
        )


def read_jsonl(file: BinaryIO, name: str, skipped: Callable[[int], None]) -> Iterator[Row]:
    """The rows of a file that `write_jsonl` wrote.

    Args:
        file: Its bytes.
        name: What to call it in errors.
        skipped: Called with the number of each line that is no row: cut off, edited, or of a kind or field not declared.

    Raises:
        OomctlError: If a row is of a newer version.
    """
    decode = msgspec.json.Decoder().decode
    number = 0
    while line := file.readline(storage.MAX_ROW_BYTES):
        number += 1
        if not line.endswith(b"\n") and len(line) == storage.MAX_ROW_BYTES:
            while (rest := file.readline(storage.MAX_ROW_BYTES)) and not rest.endswith(b"\n"):
                pass
            skipped(number)
            continue
        if not (line := line.removeprefix(b"\xef\xbb\xbf").strip()):
            continue
        try:
            record = decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            record = None
        row = row_of(record) if isinstance(record, dict) and _ours(record.pop("schema", None), name) else None
        if row is None:
            skipped(number)
        else:
            yield row


def load_csv(connection: "duckdb.DuckDBPyConnection", path: Path, name: str) -> int:
    """Append a file that `write_csv` wrote to the event table.

    Args:
        connection: From `storage.connect`.
        path: Where it lies.
        name: What to call it in errors.

    Returns:
        How many rows were added.

    Raises:
        OomctlError: If it is damaged, of a newer version, or holds what no event table does; no row is added then.
    """
    import duckdb

    source, parameters = csv_source(path, name)
    try:
        for (named,) in connection.execute(f"SELECT DISTINCT schema FROM {source}", parameters).fetchall():
            if not _ours(named, name):
                raise OomctlError(f"not an event table of oomctl: a row without its schema ({name})", "export it again")
        cast = {name: f'CAST("{name}" AS {DUCKDB_TYPES[field.type]})' for name, field in COMMON_FIELDS.items()}
        cast["ts"] = ddl.known_time(cast["ts"])
        common = [f'{sql} AS "{name}"' for name, sql in cast.items()]
        present = set(_header(path))
        own = [f'{_struct(kind, present)} AS "{kind}"' for kind in FIELDS]
        typed = f"(SELECT {', '.join(common + own)} FROM {source})"
        if not (rows := storage.load_relation(connection, typed, parameters)):
            raise OomctlError(f"a recording without a row ({name})", "export it again, or give the log itself")
        return rows
    except duckdb.Error as error:
        raise _damaged(name, str(error)) from error


def csv_source(path: Path, name: str) -> tuple[str, list[str]]:
    """What stands behind FROM to read a file that `write_csv` wrote, every cell a text, and its parameters.

    Raises:
        OomctlError: If its header is none of ours.
    """
    header = _header(path)
    known = {"schema", *COMMON_FIELDS, *(f"{kind}.{field}" for kind, own in FIELDS.items() for field in own)}
    wrong = [f"unknown column {column[:80]!r}" for column in header if column not in known]
    wrong += [f"no column {column!r}" for column in COMMON_FIELDS if column not in header]
    if wrong or len(set(header)) < len(header):
        raise OomctlError(
            f"not an event table of oomctl: {wrong[0] if wrong else 'a column twice'} ({name})",
            "give a file that `oomctl export` wrote",
        )
    columns = ", ".join(f"'{column}': 'VARCHAR'" for column in header)
    source = (
        f"read_csv(?, auto_detect = false, header = true, delim = ',', quote = '\"', escape = '\"', nullstr = '', "
        f"allow_quoted_nulls = false, max_line_size = {storage.MAX_ROW_BYTES}, parallel = false, columns = {{{columns}}})"
    )
    return source, [str(path)]


def _header(path: Path) -> list[str]:
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        return next(csv.reader(_one(file)), [])


def _one(file: TextIO) -> Iterable[str]:
    yield file.readline(storage.MAX_ROW_BYTES)


def _struct(kind: str, present: set[str]) -> str:
    members = []
    for field in FIELDS[kind].values():
        type_ = DUCKDB_TYPES[field.type]
        value = f'CAST("{kind}.{field.name}" AS {type_})' if f"{kind}.{field.name}" in present else f"CAST(NULL AS {type_})"
        members.append(f'"{field.name}" := {value}')
    return f"CASE WHEN kind = '{kind}' THEN struct_pack({', '.join(members)}) END"


def _ours(named: object, name: str) -> bool:
    """Whether a schema's name is that of an event table; one of a newer version is an error."""
    version = _NAMED.fullmatch(named) if isinstance(named, str) else None
    if version is not None:
        check_version(version[1], name)
    return version is not None


def _damaged(name: str, reason: str) -> OomctlError:
    return OomctlError(f"cannot read as CSV ({name}): {reason.splitlines()[0][:200]}", "export it again")
