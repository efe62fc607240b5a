"""An event table to hand on, with what names people, hosts, models and requests replaced by pseudonyms."""

import re
from typing import TYPE_CHECKING, Any

from oomctl.pseudonyms import Pseudonyms
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
_KEPT = ("stack_id", "function", "block_hash", "parent_hash", "address", "pool_id")
"""Texts that name nobody, or that triage decides by."""


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
    for row in rows(connection):
        _learn(names, row)
    target = storage.connect()
    storage.load_rows(target, (_replaced(names, row) for row in rows(connection)))
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


def _replaced(names: Pseudonyms, row: Row) -> Row:
    kind = row["kind"]
    fields: dict[str, Any] = dict(row.get(kind, {}))
    for name in _TEXTS[kind]:
        value = fields.get(name)
        if value is None or name in _KEPT:
            continue
        if (kind, name) in _NAMES:
            fields[name] = names.of(_NAMES[kind, name], value)
        elif kind == "log" and name == "file" and names.known("log", value) is not None:
            fields[name] = names.known("log", value)
        elif kind == "manifest" and (name != "value" or fields.get("section") == "engine"):
            continue
        elif kind == "manifest" and _names_model(fields):
            fields[name] = names.of("model", value)
        else:
            fields[name] = names.scrub(value)
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


def _names_model(fields: dict[str, Any]) -> bool:
    value = str(fields.get("value", ""))
    return (
        fields.get("section") in ("model", "argument")
        and _MODELS.fullmatch(str(fields.get("key"))) is not None
        and re.search(r"[A-Za-z]{2}", value) is not None
        and value.lower() not in ("auto", "slow", "true", "false", "none", "mistral")
    )
