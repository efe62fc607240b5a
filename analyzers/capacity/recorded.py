"""The requests of an event table as a trace: what an agent, a log or spans told of them."""

from typing import TYPE_CHECKING

import polars as pl

from oomctl import queries
from oomctl.schemas.errors import OomctlError
from oomctl.schemas.trace import Finding, Trace, request_table

if TYPE_CHECKING:
    import duckdb

TAKEN = (
    "prompt_tokens", "output_tokens", "max_output_tokens", "cached_tokens", "weight", "turn", "cohort", "tenant", "adapter"
)  # fmt: skip
STATUS_OF = {"finished": "ok", "cancelled": "cancelled", "rejected": "rejected"}


def recorded_trace(connection: "duckdb.DuckDBPyConnection", name: str) -> Trace:
    """The trace of an event table. Where several sources tell of requests, that one which tells of most of them.

    Args:
        connection: With the event table.
        name: What to call the trace.

    Raises:
        OomctlError: If no request has a prompt's length and a time.
    """
    told = _asked(connection, "requests")
    known = told.filter(pl.col("prompt_tokens").is_not_null() & pl.col("arrival_us").is_not_null())
    if not known.height:
        raise OomctlError(
            f"no request with a prompt's length and a time ({name})",
            "record one with `oomctl attach`, or give a trace: Mooncake, Azure, BurstGPT, sessions of Claude Code",
        )
    source = known.group_by("source").len().sort("len", "source", descending=[True, False])["source"][0]
    chosen = known.filter(pl.col("source") == source)
    findings = []
    if others := known.height - chosen.height:
        text = f"{others:,} requests that other sources tell of are left out: they may be those that {source} tells of."
        findings.append(Finding("other_sources", others, text))
    if unknown := told.filter(pl.col("source") == source).height - chosen.height:
        text = f"{unknown:,} requests without a prompt's length or a time are left out."
        findings.append(Finding("unread", unknown, text))
    if unended := int(chosen["ended"].is_null().sum()):
        text = f"{unended:,} requests have no end in the recording: their output is what was seen of it."
        findings.append(Finding("unended", unended, text))
    waits = _asked(connection, "tool_waits")
    turns = _turns(chosen)
    table = _table(turns, _tool_pauses(turns, waits))
    start = chosen.select(pl.from_epoch("arrival_us", "us").min().dt.to_string("iso"))["arrival_us"][0]
    return Trace(name, "events", table, findings=tuple(findings), start=start)


def _asked(connection: "duckdb.DuckDBPyConnection", name: str) -> pl.DataFrame:
    table = pl.from_arrow(connection.sql(queries.load("capacity", name).sql).to_arrow_table())
    assert isinstance(table, pl.DataFrame)
    return table


def _turns(chosen: pl.DataFrame) -> pl.DataFrame:
    """Requests in the order of arrival, each with its place in its session and the end of the turn before."""
    ordered = chosen.sort("arrival_us", maintain_order=True).with_row_index("row")
    in_session = pl.col("session_id").is_not_null()
    return ordered.with_columns(
        pl.when(in_session).then(pl.int_range(pl.len()).over("session_id")).alias("turn"),
        pl.when(in_session).then(pl.col("end_us").shift(1).over("session_id")).alias("before_us"),
    )


def _tool_pauses(turns: pl.DataFrame, waits: pl.DataFrame) -> pl.DataFrame:
    """For each row that came after tools: how long they took together, in microseconds."""
    later = turns.filter(pl.col("turn") > 0).select("row", "session_id", "arrival_us").sort("arrival_us")
    return (
        waits.sort("ended_us")
        .join_asof(
            later, left_on="ended_us", right_on="arrival_us", by="session_id", strategy="forward", check_sortedness=False
        )
        .drop_nulls("row")
        .group_by("row")
        .agg((pl.col("ended_us").max() - pl.col("started_us").min()).alias("tool_us"))
    )


def _table(turns: pl.DataFrame, tool_pauses: pl.DataFrame) -> pl.DataFrame:
    table = turns.join(tool_pauses, on="row", how="left", maintain_order="left")
    gap_us = pl.col("arrival_us") - pl.col("before_us")
    return request_table(
        {
            "arrival_s": (table["arrival_us"] - table["arrival_us"][0]) / 1e6,
            "status": table["ended"].replace_strict(STATUS_OF, default="ok"),
            "request": table["request_id"],
            "session": table["session_id"],
            "service_s": (table["end_us"] - table["arrival_us"]) / 1e6,
            "pause": table.select(
                pl.when(pl.col("tool_us").is_not_null()).then(pl.lit("tool")).when(gap_us >= 0).then(pl.lit("user"))
            ).to_series(),
            "pause_s": table.select(pl.coalesce("tool_us", pl.when(gap_us >= 0).then(gap_us)) / 1e6).to_series(),
        }
        | {column: table[column] for column in TAKEN}
    )
