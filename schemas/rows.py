"""Rows as collectors make them: plain dictionaries, checked where they are made.

A row is `{"stream": ..., "seq": ..., "kind": "oom", "oom": {...}, ...}` with `ts` in microseconds since 1970 (UTC).
"""

from typing import Any

from oomctl.schemas.events import COMMON_NAMES, FIELD_NAMES

Row = dict[str, Any]


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
