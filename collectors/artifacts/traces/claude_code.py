"""Sessions of a coding agent, one JSON object each, with subagents inside: the form of kv-cache-tester's traces.

Source: https://github.com/callanjfox/kv-cache-tester. `t` counts in seconds from a session's start (a subagent's from its
own), `think_time` from the answer before, `api_time` to the last token. Hash ids repeat in every session.
"""

import hashlib
from collections.abc import Iterator
from typing import Annotated, BinaryIO

import msgspec
import polars as pl

from oomctl.collectors.artifacts.traces.blocks import BlockIds, odd_blocks, parse_hashes
from oomctl.collectors.artifacts.traces.outcomes import UNREADABLE, Seconds, Tokens, unread
from oomctl.schemas.errors import OomctlError
from oomctl.schemas.trace import Finding, Trace, request_table

MAX_SESSION_BYTES = 1 << 30
SUBAGENT = "subagent"
TOOL_CALL = "tool_use"
TOOL_RESULT = "tool_result"
MOSTLY = 0.9
MAX_DEPTH = 8


class _Request(msgspec.Struct):
    t: Seconds = 0.0
    type: str = ""
    prompt: Tokens | None = msgspec.field(default=None, name="in")
    out: Tokens | None = None
    hash_ids: msgspec.Raw = msgspec.Raw()
    model: str | None = None
    input_types: list[str] | None = None
    stop: str | None = None
    api_time: Seconds | None = None
    think_time: Seconds | None = None
    agent_id: str | None = None
    requests: msgspec.Raw = msgspec.Raw()
    system_tokens: Tokens | None = None
    tool_tokens: Tokens | None = None


class _Session(msgspec.Struct):
    requests: msgspec.Raw
    id: str | int | None = None
    block_size: Annotated[int, msgspec.Meta(ge=1, le=2**20)] | None = None
    hash_id_scope: str = "global"
    system_tokens: Tokens | None = None
    tool_tokens: Tokens | None = None


class _Chain(msgspec.Struct):
    """Whose requests follow each other: a session's own, or a subagent's."""

    session: str
    agent: str | None
    start_s: float
    system_tokens: int | None
    tool_tokens: int | None


_Row = tuple[float, msgspec.Raw, tuple[object, ...]]
"""Arrival, block hashes, and the values of _COLUMNS."""


class ClaudeCodeReader:
    """Reads session objects: one a file, or one a line."""

    def __init__(self) -> None:
        self._rows: list[tuple[object, ...]] = []
        self._blocks = BlockIds()
        self._block_tokens: int | None = None
        self._copies: dict[bytes, int] = {}
        self._duplicates = [0, 0]
        self._local = 0
        self._unread = 0
        self._requests = msgspec.json.Decoder(list[_Request])

    @staticmethod
    def claims(head: bytes) -> bool:
        """A JSON object that has a list of requests, after a few words of its own."""
        return head.lstrip().startswith(b"{") and b'"requests"' in head and b'"hash_id' in head

    def add(self, stream: BinaryIO, name: str) -> None:
        """Read a file; sessions that were read before, under whatever name, are counted and left out."""
        taken = len(self._rows) + self._duplicates[0]
        data = stream.read(MAX_SESSION_BYTES)
        sessions = msgspec.json.Decoder(_Session)
        try:
            found = [sessions.decode(data)]
        except UNREADABLE:
            found = []
            for line in data.splitlines():
                try:
                    found.append(sessions.decode(line))
                except UNREADABLE:
                    self._unread += bool(line.strip())
        for session in found:
            self._session(session, name)
        if len(self._rows) + self._duplicates[0] == taken:
            raise OomctlError(f"no session that can be read ({name})", "give a session's JSON object, one a file or a line")

    def finish(self, name: str) -> Trace:
        """The trace of all files that were added: session by session, each on its own clock."""
        table = request_table(dict(zip(_COLUMNS, zip(*self._rows, strict=True), strict=True)))
        prefixes, odd = self._blocks.finish(table["prompt_tokens"].to_numpy(), self._block_tokens)
        findings = (*self._findings(table), *odd_blocks(odd), *unread(self._unread, "sessions"))
        return Trace(name, "claude_code", table, "session", prefixes, findings)

    def _session(self, session: _Session, name: str) -> None:
        raw = bytes(session.requests)
        digest = hashlib.blake2b(raw, digest_size=16).digest()
        try:
            requests = self._requests.decode(raw)
        except UNREADABLE:
            self._unread += 1
            return
        if digest in self._copies:
            self._duplicates[0] += 1
            self._duplicates[1] += self._copies[digest]
            return
        self._block_tokens = self._block_tokens or session.block_size
        if session.hash_id_scope == "local":
            self._local += 1
            self._blocks.new_scope()
        label = name.rsplit("/", 1)[-1] if session.id is None else str(session.id)
        rows = sorted(
            self._chain(requests, _Chain(label, None, 0.0, session.system_tokens, session.tool_tokens)),
            key=lambda row: row[0],
        )
        for _, hashes, values in rows:
            self._blocks.add(parse_hashes(bytes(hashes)))
            self._rows.append(values)
        self._copies[digest] = len(rows)

    def _chain(self, requests: list[_Request], chain: _Chain, depth: int = 0) -> Iterator[_Row]:
        """A chain's requests and, where a subagent was started, the subagent's."""
        turn = 0
        before: _Request | None = None
        for request in requests:
            if bytes(request.requests):
                try:
                    inner = self._requests.decode(request.requests) if depth < MAX_DEPTH else []
                except UNREADABLE:
                    inner = []
                self._unread += not inner
                agent = request.agent_id or SUBAGENT
                start_s = chain.start_s + request.t
                inner_chain = _Chain(chain.session, agent, start_s, request.system_tokens, request.tool_tokens)
                yield from self._chain(inner, inner_chain, depth + 1)
                before = request
            elif request.prompt is not None:
                arrival_s = chain.start_s + request.t
                yield arrival_s, request.hash_ids, _values(request, chain, turn, arrival_s, _pause(request, before))
                before = request
                turn += 1

    def _findings(self, table: pl.DataFrame) -> Iterator[Finding]:
        sessions, requests = self._duplicates
        if sessions:
            what = f"{sessions:,} sessions are copies of others, and are left out with their {requests:,} requests"
            yield Finding("duplicate_sessions", sessions, f"{what}.")
        if self._local:
            text = (
                f"{self._local:,} sessions number their blocks each from its own start: what sessions share, such as tools "
                "and system prompt, cannot be seen, so the hits of first requests are understated."
            )
            yield Finding("local_hashes", self._local, text)
        pauses = table["pause_s"].drop_nulls()
        whole = int((pauses == pauses.round()).sum())
        if whole and whole > MOSTLY * len(pauses):
            text = (
                f"{whole:,} pauses are whole seconds: shorter ones are not told apart, and a pause for a tool includes "
                "the time until a user approved it."
            )
            yield Finding("coarse_pauses", whole, text)
        agents = int(table["agent"].is_not_null().sum())
        if agents:
            yield Finding(
                "subagents", agents, f"{agents:,} requests are those of subagents inside a session: a cohort of their own."
            )


_COLUMNS = (
    "session", "agent", "turn", "arrival_s", "prompt_tokens", "output_tokens", "model", "pause", "pause_s", "service_s",
    "system_tokens", "tool_schema_tokens", "status",
)  # fmt: skip


def _pause(request: _Request, before: _Request | None) -> str | None:
    """What the turn waited for; null where a tool's result comes although no call of a tool ended the answer before."""
    if before is None:
        return None
    if bytes(before.requests):
        return "agent"
    if TOOL_RESULT not in (request.input_types or ()):
        return "user"
    return "tool" if before.stop == TOOL_CALL else None


def _values(request: _Request, chain: _Chain, turn: int, arrival_s: float, pause: str | None) -> tuple[object, ...]:
    return (
        chain.session, chain.agent, turn, arrival_s, request.prompt, request.out, request.model, pause,
        request.think_time if turn else None, request.api_time, chain.system_tokens, chain.tool_tokens, "ok",
    )  # fmt: skip
