"""Mooncake's traces, a JSON object a line: timestamp in ms, input_length, output_length, hash_ids.

Sources: https://github.com/kvcache-ai/Mooncake (FAST25-release); https://github.com/alibaba-edu/qwen-bailian-usagetraces-anon,
which names chats and their parents, and tells seconds. Others publish in the same form with a session or a tenant.
"""

from typing import Annotated, BinaryIO

import msgspec
import polars as pl

from oomctl.collectors.artifacts.traces.blocks import BlockIds, odd_blocks, parse_hashes
from oomctl.collectors.artifacts.traces.outcomes import UNREADABLE, Tokens, numbered, statuses, unread
from oomctl.schemas.errors import OomctlError
from oomctl.schemas.trace import Finding, Trace, request_table

Text = str | int | None


class _Line(msgspec.Struct):
    input_length: Tokens
    output_length: Tokens | None = None
    timestamp: Annotated[float, msgspec.Meta(ge=-1e15, le=1e15)] | None = None
    hash_ids: msgspec.Raw = msgspec.Raw()
    session_id: Text = None
    chat_id: Text = None
    parent_chat_id: Text = None
    type: Text = None
    tenant: Text = None
    user_id: Text = None
    model: Text = None
    block_size: Annotated[int, msgspec.Meta(ge=1, le=2**20)] | None = None


class MooncakeReader:
    """Reads JSON lines with an input_length."""

    def __init__(self) -> None:
        self._lines: list[tuple[float, int, int | None, str | None, str | None, str | None, str | None]] = []
        self._timed = False
        self._blocks = BlockIds()
        self._block_tokens: int | None = None
        self._unread = 0
        self._session_of: dict[str | int, str | int] = {}

    @staticmethod
    def claims(head: bytes) -> bool:
        """A JSON object with an input_length in its first line."""
        first = head.lstrip().split(b"\n", 1)[0]
        return first.startswith(b"{") and b'"input_length"' in first

    def add(self, stream: BinaryIO, name: str) -> None:
        """Read a file, line by line; lines that are no request are counted."""
        decoder = msgspec.json.Decoder(_Line)
        taken = len(self._lines)
        for text in stream:
            if text.isspace():
                continue
            try:
                line = decoder.decode(text)
            except UNREADABLE:
                self._unread += 1
                continue
            self._block_tokens = self._block_tokens or line.block_size
            self._blocks.add(parse_hashes(bytes(line.hash_ids)))
            self._timed |= line.timestamp is not None
            tenant = line.tenant if line.tenant is not None else line.user_id
            self._lines.append(
                (
                    (line.timestamp or 0.0) / (1 if line.chat_id is not None else 1000),
                    line.input_length,
                    line.output_length,
                    _text(self._session(line)),
                    _text(tenant),
                    _text(line.model),
                    _text(line.type),
                )
            )
        if len(self._lines) == taken:
            raise OomctlError(f"no line that is a request ({name})", "give a trace with input_length and output_length")

    def finish(self, name: str) -> Trace:
        """The trace of all files that were added."""
        names = ("arrival_s", "prompt_tokens", "output_tokens", "session", "tenant", "model", "cohort")
        table = request_table(dict(zip(names, zip(*self._lines, strict=True), strict=True)))
        prefixes, odd = self._blocks.finish(table["prompt_tokens"].to_numpy(), self._block_tokens)
        status, failures = statuses(table["output_tokens"])
        table = table.with_columns(status, pl.col("arrival_s") - pl.col("arrival_s").min())
        untimed = (
            () if self._timed else (Finding("no_times", len(table), "No request has a time: only its order is told."),)
        )
        findings = (*untimed, *failures, *odd_blocks(odd), *unread(self._unread, "lines"))
        trace = Trace(name, "mooncake", table, "trace" if self._timed else "session", prefixes, findings)
        return numbered(trace.sorted(pl.col("arrival_s")))

    def _session(self, line: _Line) -> Text:
        """As named, else the first of a chain of chats, each of which names the one before."""
        if line.session_id is not None or line.chat_id is None:
            return line.session_id
        parent = line.parent_chat_id
        root = self._session_of.get(parent, parent) if parent not in (None, -1, "-1", "") else line.chat_id
        assert root is not None
        self._session_of[line.chat_id] = root
        return root


def _text(value: Text) -> str | None:
    return None if value is None else str(value)
