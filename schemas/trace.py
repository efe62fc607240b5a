"""A request trace in columns: what its readers hand on, and what the capacity analyzers take.

A production trace has tens of millions of block hashes. They stay in one array of integers, never a row or an object each.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

Ids: TypeAlias = npt.NDArray[np.int32]
Index: TypeAlias = npt.NDArray[np.int64]

STATUSES = ("ok", "failed", "cancelled", "rejected")

COLUMNS: dict[str, pl.DataType] = {
    "arrival_s": pl.Float64(),
    "prompt_tokens": pl.Int64(),
    "output_tokens": pl.Int64(),
    "max_output_tokens": pl.Int64(),
    "cached_tokens": pl.Int64(),
    "status": pl.String(),
    "weight": pl.Float64(),
    "request": pl.String(),
    "session": pl.String(),
    "turn": pl.Int32(),
    "agent": pl.String(),
    "cohort": pl.String(),
    "tenant": pl.String(),
    "model": pl.String(),
    "adapter": pl.String(),
    "pause": pl.String(),
    "pause_s": pl.Float64(),
    "service_s": pl.Float64(),
    "system_tokens": pl.Int64(),
    "tool_schema_tokens": pl.Int64(),
    "history_tokens": pl.Int64(),
    "retrieved_tokens": pl.Int64(),
}
"""Columns of `Trace.requests`; all but arrival_s, prompt_tokens and status may be null, which means "not told".

arrival_s: seconds from the start of the trace, or of the session where `Trace.clock` is "session".
output_tokens: as generated; max_output_tokens: as allowed; cached_tokens: of the prompt, as the engine reported them.
status: one of STATUSES. weight: how many requests this one stands for, where a recorder sampled; null: one.
session, turn: conversation, and the place in it from 0. agent: which subagent of the session asked; null: none.
cohort: as the source labels it.
pause: what came before this turn: a wait for "tool", "user" or a sub"agent"; pause_s: how long, since the last answer.
service_s: from arrival to the last token, as observed.
*_tokens of system, tool schema, history, retrieved: parts of the prompt.
"""


@dataclass(frozen=True, slots=True)
class Finding:
    """A trap in the data that would make a figure wrong.

    Attributes:
        code: Stable name, such as "quantised_times".
        count: How many requests, pairs or sessions it concerns, as the text says.
        text: One sentence: what was found, and what is done about it.
    """

    code: str
    count: int
    text: str


@dataclass(frozen=True, slots=True, eq=False)
class Prefixes:
    """The blocks of all prompts, as ids: two requests share a prefix of k blocks where their first k ids are equal.

    Attributes:
        ids: int32, shape (blocks of all prompts,): unique over the whole trace, whatever the file's scope; 0 <= id < limit.
        offsets: int64, shape (requests + 1,): request i has ids[offsets[i] : offsets[i + 1]].
        limit: One more than the largest id: the size of an array that is indexed by id.
        block_tokens: Tokens of a whole block.
        rounding: "ceil" where the last id may stand for a block partly filled, "floor" where only whole blocks have one.
    """

    ids: Ids
    offsets: Index
    limit: int
    block_tokens: int
    rounding: Literal["ceil", "floor"]

    def of(self, request: int) -> Ids:
        """The ids of one request, in the order of its prompt: a view."""
        return self.ids[self.offsets[request] : self.offsets[request + 1]]

    def __iter__(self) -> Iterator[Ids]:
        for start, end in pairwise(self.offsets.tolist()):
            yield self.ids[start:end]

    @property
    def counts(self) -> Index:
        """Blocks of each request: int64, shape (requests,)."""
        return np.diff(self.offsets)

    def take(self, rows: Index) -> "Prefixes":
        """Of some requests, in the order asked for; ids keep their meaning."""
        counts = self.counts[rows]
        offsets = np.concatenate(([0], np.cumsum(counts)))
        ids = np.empty(int(offsets[-1]), dtype=self.ids.dtype)
        for place, row in enumerate(rows.tolist()):
            ids[offsets[place] : offsets[place + 1]] = self.of(row)
        return replace(self, ids=ids, offsets=offsets)


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Requests as they came to a service.

    Attributes:
        name: What the trace is called.
        format: Which reader took it: mooncake, azure, burstgpt, csv, claude_code, log, events.
        requests: One row a request, with the columns of COLUMNS. Rows are in the order of arrival where `clock` is "trace";
            else session by session, each in its own order. `prefixes` has the same order.
        clock: Whether all arrival_s count from one start, or each session's from its own: then sessions have no order among
            each other, and no rate of arrivals can be told.
        prefixes: Block ids of the prompts, or None where the trace has none.
        findings: Traps of the data, each with its count.
        start: When it begins, as the source has it, or None.
    """

    name: str
    format: str
    requests: pl.DataFrame
    clock: Literal["trace", "session"] = "trace"
    prefixes: Prefixes | None = None
    findings: tuple[Finding, ...] = ()
    start: str | None = None

    def __len__(self) -> int:
        return self.requests.height

    def take(self, rows: Index) -> "Trace":
        """Some requests, in the order asked for, with all that belongs to them.

        Args:
            rows: int64, shape (wanted requests,): row numbers.
        """
        prefixes = None if self.prefixes is None else self.prefixes.take(rows)
        return replace(self, requests=self.requests[rows], prefixes=prefixes)

    def sorted(self, *keys: pl.Expr) -> "Trace":
        """The same requests in the order of some keys; those that are equal in all keep theirs."""
        order = self.requests.select(pl.arg_sort_by(keys, maintain_order=True).cast(pl.Int64)).to_series().to_numpy()
        return self if (np.diff(order) == 1).all() else self.take(order)

    def where(self, condition: pl.Expr) -> "Trace":
        """The requests for which a condition over COLUMNS holds."""
        return self.take(self.requests.select(pl.arg_where(condition)).to_series().cast(pl.Int64).to_numpy())


def request_table(columns: dict[str, object]) -> pl.DataFrame:
    """A table of requests with every column of COLUMNS, those not given null.

    Args:
        columns: Name to values: a list, a numpy array or a polars series of the same length each.
    """
    given = pl.DataFrame(columns, schema_overrides={name: kind for name, kind in COLUMNS.items() if name in columns})
    return given.select(
        pl.col(name).cast(kind) if name in columns else pl.lit(None, dtype=kind).alias(name)
        for name, kind in COLUMNS.items()
    )
