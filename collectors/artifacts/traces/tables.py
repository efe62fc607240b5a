"""Request traces as CSV: Azure's and BurstGPT's, and others with such columns.

Sources: https://github.com/Azure/AzurePublicDataset (TIMESTAMP, ContextTokens, GeneratedTokens; stamps with 7 fractional
digits, no newline at the end), https://github.com/HPMLL/BurstGPT (Timestamp in seconds, Model, Request tokens, Response
tokens, Total tokens, Log Type; an answer of 0 tokens is a failure).
"""

import re
from io import BytesIO
from typing import BinaryIO

import polars as pl

from oomctl.collectors.artifacts.traces.outcomes import numbered, statuses, unread
from oomctl.schemas.errors import OomctlError
from oomctl.schemas.trace import COLUMNS, Trace, request_table

MAX_TABLE_BYTES = 4 << 30
NAMES = {
    "arrival": ("timestamp", "arrivaltime", "arrivedat", "arrivals", "arrivaltimestamp", "time"),
    "prompt_tokens": (
        "contexttokens", "requesttokens", "prompttokens", "inputtokens", "inputlength", "numprefilltokens", "promptlen",
    ),
    "output_tokens": (
        "generatedtokens", "responsetokens", "outputtokens", "completiontokens", "outputlength", "outputlen",
        "numdecodetokens",
    ),
    "session": ("sessionid", "conversationid"),
    "tenant": ("tenant", "tenantid", "userid"),
    "model": ("model", "modelname"),
    "service_s": ("elapsedtime",),
    "cohort": ("logtype", "cohort"),
}  # fmt: skip
"""What a column may be called, in small letters and digits."""
LAST_SECOND = 1e11
"""A larger number is one of milliseconds: as seconds since 1970 it would lie in the year 5138."""
MOST = 2**48
"""Tokens, or seconds, beyond which a figure is none."""
NEEDED = ("arrival", "prompt_tokens", "output_tokens")
_ZONE = r"(?:Z|UTC|[+-]\d\d:?\d\d)$"


class TableReader:
    """Reads CSV with a header that names an arrival, a prompt and an output."""

    def __init__(self) -> None:
        self._parts: list[pl.DataFrame] = []
        self._unread = 0
        self._format = "csv"

    @staticmethod
    def claims(head: bytes) -> bool:
        """A first line that names what is needed."""
        first = head.lstrip(b"\xef\xbb\xbf\r\n").split(b"\n", 1)[0].decode("utf-8", "replace")
        found = _columns(first.rstrip("\r").split(","))
        return all(name in found for name in NEEDED)

    def add(self, stream: BinaryIO, name: str) -> None:
        """Read a file; rows that are no request are counted."""
        try:
            raw = pl.read_csv(
                BytesIO(stream.read(MAX_TABLE_BYTES)), infer_schema=False, truncate_ragged_lines=True, encoding="utf8-lossy"
            )
        except pl.exceptions.PolarsError as error:
            reason = " ".join(str(error).split())[:120]
            raise OomctlError(f"damaged, or no CSV: {reason} ({name})", "copy the file again") from None
        columns = _columns(raw.columns)
        if missing := [needed for needed in NEEDED if needed not in columns]:  # quotes may hide what `claims` saw
            raise OomctlError(
                f"no column of {', '.join(missing)} ({name})", "give a trace with times, prompt and output tokens"
            )
        heads = {_plain(column) for column in raw.columns}
        self._format = "azure" if "contexttokens" in heads else "burstgpt" if "requesttokens" in heads else "csv"
        table = raw.select(pl.col(column).str.strip_chars().alias(wanted) for wanted, column in columns.items())
        numbers = [column for column in ("prompt_tokens", "output_tokens", "service_s") if column in columns]
        table = table.with_columns(
            _arrival().alias("arrival_ns"), *(pl.col(column).cast(pl.Float64, strict=False) for column in numbers)
        ).with_columns(pl.when(pl.col(column).is_between(0, MOST)).then(pl.col(column)) for column in numbers)
        told = pl.col("output_tokens").is_not_null() | (raw[columns["output_tokens"]].str.strip_chars().fill_null("") == "")
        read = table.filter(pl.col("arrival_ns").is_not_null() & pl.col("prompt_tokens").is_not_null() & told)
        self._unread += table.height - read.height
        if not read.height:
            raise OomctlError(f"no row that is a request ({name})", "give a trace with times, prompt and output tokens")
        self._parts.append(read)

    def finish(self, name: str) -> Trace:
        """The trace of all files that were added."""
        table = pl.concat(self._parts, how="diagonal").sort("arrival_ns", maintain_order=True)
        status, failures = statuses(table["output_tokens"])
        given: dict[str, object] = {column: table[column] for column in table.columns if column in COLUMNS}
        given["arrival_s"] = (table["arrival_ns"] - table["arrival_ns"][0]) / 1e9
        given["status"] = status
        findings = (*failures, *unread(self._unread, "rows"))
        return numbered(Trace(name, self._format, request_table(given), findings=findings, start=table["arrival"][0]))


def _columns(header: list[str]) -> dict[str, str]:
    """What is wanted, to the column that has it."""
    plain = {_plain(column): column for column in reversed(header)}
    found = {wanted: next((plain[name] for name in names if name in plain), None) for wanted, names in NAMES.items()}
    return {wanted: column for wanted, column in found.items() if column is not None}


def _plain(column: str) -> str:
    return re.sub(r"[^a-z0-9]", "", column.lower())


def _arrival() -> pl.Expr:
    """Nanoseconds, from a date with any number of fractional digits and any zone, or from a number of seconds or ms."""
    text = pl.col("arrival")
    number = text.cast(pl.Float64, strict=False)
    seconds = pl.when(number > LAST_SECOND).then(number / 1000).otherwise(number)
    plain = text.str.replace("T", " ", literal=True).str.replace(_ZONE, "").str.strip_chars()
    instant = plain.str.to_datetime("%Y-%m-%d %H:%M:%S%.f", time_unit="ns", strict=False).dt.epoch("ns")
    return pl.coalesce(instant, (seconds * 1e9).round().cast(pl.Int64, strict=False))
