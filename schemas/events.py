"""The event table, declared once: everything else about it (DDL, views, JSON Schema, checks) derives from here."""

from oomctl.schemas.common import COMMON
from oomctl.schemas.declare import Field, Kind
from oomctl.schemas.kinds_failure import FAILURE_KINDS
from oomctl.schemas.kinds_memory import MEMORY_KINDS
from oomctl.schemas.kinds_serving import SERVING_KINDS

KINDS: dict[str, Kind] = {kind.name: kind for kind in (*SERVING_KINDS, *MEMORY_KINDS, *FAILURE_KINDS)}

SORT_KEY = ("kind", "worker", "rank", "stream", "seq")
"""Files are sorted so, so that row groups prune."""
KIND_ORDER = tuple(column for column in SORT_KEY if column != "kind")
"""The same within a kind."""

COMMON_NAMES = frozenset(field.name for field in COMMON)
FIELD_NAMES: dict[str, frozenset[str]] = {
    name: frozenset(field.name for field in kind.fields) for name, kind in KINDS.items()
}


def view_columns(kind: Kind) -> list[tuple[str, Field]]:
    """The columns of a kind's plain view beyond the common ones.

    Returns:
        (column name, field) pairs; a field that is named like a common column gets the kind's name before it,
        so that `stack.line` becomes `stack_line`.
    """
    return [(f"{kind.name}_{field.name}" if field.name in COMMON_NAMES else field.name, field) for field in kind.fields]
