"""What every reader of traces says of requests that came to nothing, and of lines that are none."""

from dataclasses import replace
from typing import Annotated

import msgspec
import polars as pl

from oomctl.schemas.trace import Finding, Trace

Tokens = Annotated[int, msgspec.Meta(ge=0, le=2**48)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e12)]
"""Of a JSON trace: what is beyond has no place in a table of 64-bit figures, and is no token or time."""
UNREADABLE = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)
"""What a decoder raises at JSON that is damaged, of another form, or nested without end."""


def statuses(output_tokens: pl.Series) -> tuple[pl.Series, list[Finding]]:
    """The status of each request, and what is to be said of failed ones.

    Published traces have no column for failures: an answer of 0 tokens is one.

    Args:
        output_tokens: One a request, null where not told.
    """
    failed = (output_tokens == 0).fill_null(False)
    table = pl.DataFrame({"failed": failed}).select(
        pl.when("failed").then(pl.lit("failed")).otherwise(pl.lit("ok")).alias("status")
    )
    count = int(failed.sum())
    text = f"{count:,} answers have 0 tokens: they failed, and are left out of quantiles."
    return table["status"], [Finding("failed_requests", count, text)] if count else []


def numbered(trace: Trace) -> Trace:
    """The same trace with each turn's place in its session, in the order of its rows."""
    place = pl.when(pl.col("session").is_not_null()).then(pl.int_range(pl.len(), dtype=pl.Int32).over("session"))
    return replace(trace, requests=trace.requests.with_columns(turn=place))


def unread(count: int, what: str) -> list[Finding]:
    """What is to be said of parts of a file that are no request.

    Args:
        count: How many.
        what: What they are, such as "lines".
    """
    return [Finding("unread", count, f"{count:,} {what} could not be read, and are left out.")] if count else []
