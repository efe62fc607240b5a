"""An event table to hand on: what names people, hosts, models and requests is replaced by pseudonyms, row by row."""

import re
from typing import TYPE_CHECKING, Any

from oomctl import queries
from oomctl.redaction.envelopes import Envelopes
from oomctl.redaction.frames import Frames
from oomctl.redaction.names import Pseudonyms
from oomctl.schemas import storage
from oomctl.schemas.events import KINDS
from oomctl.schemas.rows import Row
from oomctl.schemas.text_forms import rows

if TYPE_CHECKING:
    import duckdb

_NAMES = {
    ("request", "request_id"): "request", ("request", "parent_id"): "request", ("request", "session_id"): "session",
    ("request", "tenant"): "tenant", ("request", "cohort"): "cohort", ("request", "adapter"): "adapter",
    ("request", "prefix_id"): "prefix", ("kv_block", "request_id"): "request", ("transfer", "peer"): "host",
    ("adapter", "name"): "adapter",
}  # fmt: skip
"""Fields that hold nothing but a name."""
_MODELS = re.compile(r"(?i).*(?:model|tokenizer|lora).*(?<!_len)(?<!_size)(?<!_rank)|download_dir|hf_overrides")
"""Manifest keys whose value names a model."""
_TEXTS = {
    name: tuple(field.name for field in kind.fields if field.type == "text" and not field.values)
    for name, kind in KINDS.items()
}
_KEPT = ("stack_id", "block_hash", "parent_hash", "address", "segment_address", "snapshot_id")
"""Texts that name nobody."""
_MARKERS = "SELECT DISTINCT function_pattern, file_pattern FROM phase_marker ORDER BY ALL"
_ROLES = "SELECT name_pattern FROM executable ORDER BY priority"


def redacted(connection: "duckdb.DuckDBPyConnection") -> "duckdb.DuckDBPyConnection":
    """A new event table with pseudonyms; every number, phase and frame is as it was.

    Returns:
        A connection; the caller closes it.
    """
    names = Pseudonyms()
    for kind in ("stream", "worker", "incarnation", "node"):
        found = connection.execute(f"SELECT DISTINCT {kind} FROM events WHERE {kind} IS NOT NULL").fetchall()
        values = [str(value) for (value,) in found if kind != "incarnation" or not str(value).isdigit()]
        if kind == "worker":  # a log whose lines name no worker is its own
            values = [value for value in values if names.known("log", value) is None]
        names.ordered({"stream": "log", "node": "host"}.get(kind, kind), values)
    envelopes: dict[str, Envelopes] = {}
    for row in rows(connection):
        _learn(names, row)
        if row["kind"] == "log" and "text" in row["log"]:
            for name in envelopes.setdefault(row["stream"], Envelopes()).names(row.get("line", 0), row["log"]["text"]):
                names.learn("host", name)
    target = storage.connect()
    replacing = _Replacing(names, connection)
    storage.load_rows(target, (replacing.row(row) for row in rows(connection)))
    return target


def _learn(names: Pseudonyms, row: Row) -> None:
    kind = row["kind"]
    fields = row.get(kind, {})
    for name in _TEXTS[kind]:
        if name not in fields:
            continue
        if (kind, name) in _NAMES:
            names.learn(_NAMES[kind, name], fields[name])
        else:
            names.learn_from(fields[name])
    if kind == "manifest" and _names_model(fields):
        names.learn("model", fields["value"])


class _Replacing:
    """Makes rows without names, in the order of the table.

    Args:
        names: Everything was learnt from the table.
        connection: With the event table.
    """

    def __init__(self, names: Pseudonyms, connection: "duckdb.DuckDBPyConnection") -> None:
        queries.install(connection)
        self._names = names
        markers = connection.execute(_MARKERS).fetchall()
        self._frames = Frames(markers, lambda name: names.of("function", name), names.path)
        self._roles = [re.compile(pattern) for (pattern,) in connection.execute(_ROLES).fetchall()]

    def row(self, row: Row) -> Row:
        """The row with pseudonyms; every number and phase is as it was."""
        names, kind = self._names, row["kind"]
        fields = {
            name: value if name in _KEPT or name not in _TEXTS[kind] else self._text(row, name, value)
            for name, value in row.get(kind, {}).items()
        }
        if kind == "stack":
            fields |= self._frame(row["stack"])
        common = {"stream": names.of("log", row["stream"])}
        if "worker" in row:
            common["worker"] = names.known("log", row["worker"]) or names.of("worker", row["worker"])
        if "incarnation" in row and not row["incarnation"].isdigit():
            common["incarnation"] = names.of("incarnation", row["incarnation"])
        if "node" in row:
            common["node"] = names.of("host", row["node"])
        if "rank_name" in row:
            common["rank_name"] = names.scrub(row["rank_name"])
        return {**row, **common, kind: fields}

    def _text(self, row: Row, name: str, value: str) -> str:
        """One field's text."""
        names, kind, fields = self._names, row["kind"], row[row["kind"]]
        if (kind, name) in _NAMES:
            return names.of(_NAMES[kind, name], value)
        if kind == "log" and name == "file" and (stream := names.known("log", value)) is not None:
            return stream
        if kind == "log" and name == "text":
            writer = tuple(row.get(key) for key in ("stream", "worker", "node", "rank_name"))
            text, source = self._frames.in_line(value, writer, row.get("line"))
            return names.scrub(text) + source
        if kind == "manifest" and (name != "value" or fields.get("section") == "engine"):
            return value
        if kind == "manifest" and _names_model(fields):
            return names.of("model", value)
        if (kind, name) in (("process", "name"), ("oom", "victim")):
            return self._process(value)
        return names.scrub(value)

    def _frame(self, frame: dict[str, Any]) -> dict[str, Any]:
        """Fields of a stack row that differ."""
        file, function = frame.get("file", ""), frame.get("function", "")
        changed: dict[str, Any] = {}
        if file:
            changed["file"] = self._frames.file(file, function)
        if function:
            changed["function"] = self._frames.function(function, file)
        if "code" in frame:
            code = self._frames.code(frame["code"], file)
            changed["code"] = self._names.scrub(frame["code"]) if code is None else code
        return changed

    def _process(self, name: str) -> str:
        """A process's name: of a private one only the word that tells its role."""
        hidden = self._names.scrub(name)
        roles = [pattern.search(name) for pattern in self._roles]
        if [role is not None for role in roles] == [pattern.search(hidden) is not None for pattern in self._roles]:
            return hidden
        told = next(role[0] for role in roles if role is not None)
        return f"{told}-{self._names.of('process', name)}"


def _names_model(fields: dict[str, Any]) -> bool:
    value = str(fields.get("value", ""))
    return (
        fields.get("section") in ("model", "argument")
        and _MODELS.fullmatch(str(fields.get("key"))) is not None
        and re.search(r"[A-Za-z]{2}", value) is not None
        and value.lower() not in ("auto", "slow", "true", "false", "none", "mistral")
    )
