"""The declared tables as pyarrow's schemas."""

from collections.abc import Iterable
from functools import cache
from typing import Any

from oomctl.schemas.common import COMMON
from oomctl.schemas.declare import Field
from oomctl.schemas.events import KINDS


@cache
def events_schema() -> Any:
    """The event table's: the common columns, and a struct for each kind."""
    import pyarrow as pa

    return pa.schema([*fields(COMMON), *(pa.field(name, pa.struct(fields(kind.fields))) for name, kind in KINDS.items())])


def fields(declared: Iterable[Field], zone: str | None = None) -> list[Any]:
    """Declared fields as pyarrow's.

    Args:
        declared: In their order.
        zone: Of timestamps; None where they name none.
    """
    import pyarrow as pa

    types = {
        "int": pa.int64(),
        "float": pa.float64(),
        "text": pa.string(),
        "bool": pa.bool_(),
        "timestamp": pa.timestamp("us", tz=zone),
    }
    return [pa.field(field.name, types[field.type]) for field in declared]
