"""The SQL of oomctl: one question per file, its header saying what it returns.

views/ holds derived views, evidence/ what triage asks, postmortem/ what people ask, checklist/ one item of the deployment
checklist per file, capacity/ what a request trace is made of. Each file is plain DuckDB over the
event table of `oomctl schema events --sql`, and takes its parameters by name ($incident_stream).

A postmortem query also says in its header what must have been recorded for it (`needs`), and what its parameters are where
they are not given: nobody has to know any.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Literal

from oomctl.queries.needs import Need

if TYPE_CHECKING:
    import duckdb

Folder = Literal["views", "evidence", "postmortem", "checklist", "capacity"]

_DEFAULTED = re.compile(r"(?P<name>\w+) = (?P<default>\S+): (?P<meaning>.+)")
_PARAMETER = re.compile(r"\$([a-z_]\w*)")
_ORDERED = re.compile(r"(?P<asked>.*\nORDER BY (?P<order>.*?)(?:\nLIMIT \d+)?);?\s*", re.DOTALL)
"""A query whose own ORDER BY, which is not indented, is its last one."""
_CREATE = re.compile(r"^CREATE (VIEW|MACRO) ", re.MULTILINE)


@dataclass(frozen=True)
class Parameter:
    """A parameter that need not be given.

    Attributes:
        name: As in the SQL, behind the $.
        default: What it is then, as text; None for NULL.
        meaning: In words.
    """

    name: str
    default: str | None
    meaning: str


@dataclass(frozen=True)
class Query:
    """A query file.

    Attributes:
        name: File name without its ending.
        title: First line of its header.
        params: Names of its parameters, in the header's order.
        columns: (name, what it means) of each column that it returns.
        sql: The whole text.
        parameters: Those of its parameters that have a default.
        needs: What must have been recorded.
        portable: Whether it keeps to SQL that other engines read too.
    """

    name: str
    title: str
    params: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]
    sql: str
    parameters: tuple[Parameter, ...] = ()
    needs: tuple[Need, ...] = ()
    portable: bool = False

    def bound(self, given: Mapping[str, str] | None = None) -> dict[str, str | None]:
        """Its parameters: as given, else their defaults."""
        return {each.name: each.default for each in self.parameters} | dict(given or {})

    def of_many(self) -> str:
        """The same question about several at once: it takes a list for each parameter, all of one length.

        A query costs milliseconds before it reads a row; one about fifty costs hardly more. Each row says in a last column,
        `asked`, for which place in the lists it is an answer, from 1; answers for one place stand in the query's own order.

        Raises:
            ValueError: If it takes no parameter, or does not order its rows by columns that it returns.
        """
        whole = _ORDERED.fullmatch(self.sql)
        if whole is None or not self.params:
            raise ValueError(f"{self.name}: no parameter, or no ORDER BY at its end")
        given = ", ".join(f'unnest(${name}) AS "${name}"' for name in self.params)
        answer, order = (_PARAMETER.sub(r'given."$\1"', part) for part in whole.group("asked", "order"))
        return (
            f"SELECT answer.*, place AS asked\n"
            f"FROM (SELECT {given}, generate_subscripts(${self.params[0]}, 1) AS place) AS given,\n"
            f"LATERAL (\n{answer}\n) AS answer\n"
            f"ORDER BY place, {order}"
        )


def parse(name: str, sql: str) -> Query:
    """Read a query's header: `-- title`, then `-- params: a, b` and one `-- column: meaning` per column.

    A postmortem query's has `-- needs kv_pool.free_blocks or step: COLLECTOR`, `-- param NAME = DEFAULT: meaning` (NULL for
    none) and, where it is, `-- portable`.

    Raises:
        ValueError: If the header lacks its title or a column's meaning, or a line of it is none of these.
    """
    lines = []
    for line in sql.splitlines():
        if not line.startswith("--"):
            break
        lines.append(line[2:].strip())
    if not lines or not lines[0]:
        raise ValueError(f"{name}: no title in its first line")
    params: tuple[str, ...] = ()
    columns = []
    parameters = []
    needs = []
    for line in lines[1:]:
        if line.startswith("params:"):
            params = tuple(word.strip() for word in line.removeprefix("params:").split(",") if word.strip())
        elif line.startswith("param "):
            told = _DEFAULTED.fullmatch(line.removeprefix("param "))
            if told is None:
                raise ValueError(f"{name}: {line!r} is not `param NAME = DEFAULT: meaning`")
            default = None if told["default"] == "NULL" else told["default"]
            parameters.append(Parameter(told["name"], default, told["meaning"]))
        elif line.startswith("needs "):
            try:
                needs.append(Need.parse(line.removeprefix("needs ")))
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
        elif line.startswith("column "):
            column, _, meaning = line.removeprefix("column ").partition(": ")
            if not meaning:
                raise ValueError(f"{name}: column {column!r} has no meaning")
            columns.append((column, meaning))
    params += tuple(each.name for each in parameters)
    portable = "portable" in lines[1:]
    return Query(name, lines[0], params, tuple(columns), sql, tuple(parameters), tuple(needs), portable)


@cache
def load(folder: Folder, name: str) -> Query:
    """One query by name.

    Raises:
        KeyError: If there is none of that name.
    """
    path = files(__package__) / folder / f"{name}.sql"
    if not name.replace("_", "").isalnum() or not path.is_file():
        raise KeyError(name)
    return parse(name, path.read_text(encoding="utf-8"))


@cache
def names(folder: Folder) -> tuple[str, ...]:
    """The names of all queries in a folder, sorted."""
    found = (entry.name for entry in (files(__package__) / folder).iterdir())
    return tuple(sorted(name.removesuffix(".sql") for name in found if name.endswith(".sql")))


def install(connection: "duckdb.DuckDBPyConnection") -> None:
    """Create the derived views on a connection that holds the event table; those that exist already stay."""
    for name in names("views"):
        connection.execute(_CREATE.sub(r"\g<0>IF NOT EXISTS ", load("views", name).sql, count=1))
