"""JSON Schema of one row of the event table."""

from typing import Any

from oomctl.schemas.common import COMMON
from oomctl.schemas.declare import JSON_TYPES, Field
from oomctl.schemas.events import KINDS
from oomctl.schemas.version import SCHEMA_VERSION


def _field(field: Field) -> dict[str, Any]:
    schema: dict[str, Any] = {"description": field.doc, "type": [JSON_TYPES[field.type], "null"]}
    if field.type == "timestamp":
        schema["format"] = "date-time"
    if field.values:
        schema["enum"] = [*field.values, None]
    return schema


def events_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of a row: common columns, and one object per kind."""
    properties = {field.name: _field(field) for field in COMMON}
    properties["kind"]["enum"] = list(KINDS)
    properties["kind"]["type"] = "string"
    for name, kind in KINDS.items():
        properties[name] = {
            "description": kind.doc,
            "type": ["object", "null"],
            "properties": {field.name: _field(field) for field in kind.fields},
            "additionalProperties": False,
        }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"oomctl.events/{SCHEMA_VERSION}",
        "title": "A row of oomctl's event table",
        "type": "object",
        "properties": properties,
        "required": ["stream", "seq", "kind"],
        "additionalProperties": False,
    }
