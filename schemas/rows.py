"""Rows as collectors make them: plain dictionaries, checked where they are made, and again where strangers wrote them.

A row is `{"stream": ..., "seq": ..., "kind": "oom", "oom": {...}, ...}` with `ts` in microseconds since 1970 (UTC).
"""

from datetime import datetime
from typing import Any

from oomctl.schemas.common import COMMON
from oomctl.schemas.declare import Field, Type
from oomctl.schemas.events import COMMON_NAMES, FIELD_NAMES, KINDS

Row = dict[str, Any]

NEEDED = ("stream", "seq", "kind")
COMMON_FIELDS = {field.name: field for field in COMMON}
FIELDS = {kind.name: {field.name: field for field in kind.fields} for kind in KINDS.values()}
_EXACT: dict[Type, type] = {"float": float, "text": str, "bool": bool}
"""A value of such a type fits, whatever it is; of others more is to be asked."""
_COMMON_EXACT = {name: _EXACT.get(field.type) for name, field in COMMON_FIELDS.items()}
_FIELDS_EXACT = {kind: {name: _EXACT.get(field.type) for name, field in own.items()} for kind, own in FIELDS.items()}
LAST_US = 253_402_300_799_999_999
"""The end of the year 9999; before the year 1 ends nothing was recorded either."""
_TYPES: dict[Type, tuple[type, ...]] = {"int": (int,), "float": (int, float), "text": (str,), "bool": (bool,)}


def make_row(kind: str, fields: dict[str, Any], common: dict[str, Any]) -> Row:
    """One row of the event table.

    Args:
        kind: Its kind.
        fields: The kind's own fields; those left out are NULL.
        common: The common columns; those left out are NULL.

    Raises:
        KeyError: If a name is not declared. Loading by name would drop it in silence.
    """
    if not (FIELD_NAMES[kind].issuperset(fields) and COMMON_NAMES.issuperset(common)):
        unknown = (fields.keys() - FIELD_NAMES[kind]) | (common.keys() - COMMON_NAMES)
        raise KeyError(f"{kind}: not declared in oomctl.schemas: {', '.join(sorted(unknown))}")
    return {**common, "kind": kind, kind: fields}


def row_of(record: Any) -> Row | None:
    """What somebody wrote as a row, or None where the event table cannot hold it: a name, a type or a size that is none.

    Args:
        record: Decoded from JSON or msgpack.
    """
    kind = record.get("kind") if isinstance(record, dict) else None
    if not isinstance(kind, str) or kind not in KINDS or not isinstance(record.get(kind), dict):
        return None
    common = {key: value for key, value in record.items() if key != kind and value is not None}
    fields = {key: value for key, value in record[kind].items() if value is not None}
    if any(needed not in common for needed in NEEDED):
        return None
    if not _all_fit(COMMON_FIELDS, _COMMON_EXACT, common, int):
        return None
    if not _all_fit(FIELDS[kind], _FIELDS_EXACT[kind], fields, str):
        return None
    return {**common, kind: fields}


def _all_fit(
    declared: dict[str, Field], exact: dict[str, type | None], told: dict[str, Any], moment: type[int] | type[str]
) -> bool:
    """Whether all names are declared, and their values of their types."""
    for key, value in told.items():
        if key not in declared or (type(value) is not exact[key] and not _fits(declared[key], value, moment)):
            return False
    return True


def _fits(field: Field, value: Any, moment: type[int] | type[str]) -> bool:
    """Whether a decoded value is of a field's type; `moment` is how a time is written there."""
    if isinstance(value, bool) != (field.type == "bool"):
        return False
    if field.type == "timestamp":
        return isinstance(value, moment) and (abs(value) <= LAST_US if isinstance(value, int) else _is_time(value))
    return isinstance(value, _TYPES[field.type]) and (not isinstance(value, int) or abs(value) < 2**63)


def _is_time(value: Any) -> bool:
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True
