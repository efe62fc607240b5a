"""What each target does with some bytes: the reader's own entry, then a look at every row that it makes.

An error that a reader documents is its answer, so it is caught here. Whatever else comes out is a finding.
"""

import io
import json
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import zstandard

from oomctl.analyzers.capacity.rules import assign, parse_rules
from oomctl.analyzers.capacity.traps import with_traps
from oomctl.collectors.agent.layout import CHECKSUM, CHECKSUMS, HEADER, HEADER_BYTES, SLOT_BYTES, VERSION
from oomctl.collectors.agent.reader import RingReader
from oomctl.collectors.agent.rows import common_columns, to_row
from oomctl.collectors.artifacts.logs import read_log
from oomctl.collectors.artifacts.torch_snapshot import load_snapshot
from oomctl.collectors.artifacts.traces import HEAD_BYTES, reader_of
from oomctl.collectors.artifacts.traces.request_logs import PEEK_BYTES, RequestLogReader
from oomctl.collectors.live.batch import Batch
from oomctl.collectors.live.http import Reply
from oomctl.collectors.live.kv_events.decode import BadEvents, decode
from oomctl.collectors.live.kv_events.index import Index
from oomctl.collectors.live.kv_events.polled import Polled
from oomctl.collectors.live.otlp.inbox import Inbox, Refused
from oomctl.collectors.live.prometheus.scraper import Scraper
from oomctl.collectors.recorder.live import FRAME, MAGIC, Frame, Header
from oomctl.collectors.recorder.live_reader import LiveReader
from oomctl.collectors.recorder.slots import KEPT, kept
from oomctl.config import file
from oomctl.pipeline import open_inputs
from oomctl.redaction.names import Pseudonyms
from oomctl.schemas import storage
from oomctl.schemas.errors import OomctlError
from oomctl.schemas.narrow import Rows
from oomctl.schemas.rows import Row, row_of
from oomctl.schemas.trace import Trace, request_table
from tests.fuzz.table import table
from tests.live.clock import Time

COMMON: dict[str, Any] = {"node": "n", "worker": "w"}
URL = "http://127.0.0.1:1/metrics"
_HEADER = Header(writer="fuzz", worker="w", node="n", number=1, ts=1, at={})
_REQUESTS = Trace(
    "made", "made", request_table({"arrival_s": [0.0, 1.0], "prompt_tokens": [9, 5000], "tenant": ["a", None]})
)


class NoRow(Exception):
    """A reader made a row that the event table cannot hold."""


def held(rows: Iterable[Row]) -> None:
    """Look at every row: of a declared kind, its values of their types and within their range, its texts Unicode."""
    for row in rows:
        filled = {name: value for name, value in row.items() if value is not None}
        if row_of(filled) is None:
            raise NoRow(repr(row)[:500])
        msgspec.json.encode(row)


def log(data: bytes) -> None:
    held(read_log(io.BytesIO(data), "a.log").rows)


def snapshot(data: bytes) -> None:
    with _file(data) as path, suppress(OomctlError):
        load_snapshot(str(path), "a.pickle")


def page(data: bytes) -> None:
    _scraped(Reply(200, data, False, "text/plain"))


def iterations(data: bytes) -> None:
    _scraped(Reply(200, data, False, "application/json"))


def otlp_protobuf(data: bytes) -> None:
    _otlp(data, "application/x-protobuf")


def otlp_json(data: bytes) -> None:
    _otlp(data, "application/json")


def kv_events(data: bytes) -> None:
    index = Index("tcp://127.0.0.1:1", COMMON, Time())
    with suppress(BadEvents):
        held(index.take(decode(data)))
        held(index.evicted())


def kv_events_json(data: bytes) -> None:
    """What `Polled.poll` guards against is an answer that is no list, and no more than that."""
    try:
        told = json.loads(data)
    except (ValueError, RecursionError):
        return
    if isinstance(told, list):
        held(_batch(lambda batch: Polled(URL, COMMON, Time())._take(Reply(200, data, False, ""), batch)))


def ring(data: bytes) -> None:
    """As it is, and with checksums that hold: what a hostile process would write."""
    for written in (data, _checked(data)):
        with _file(written) as path, suppress(OomctlError):
            for as_slots in (frozenset[int](), KEPT):
                reader = RingReader(path)
                try:
                    common = common_columns(reader.header, "ring", "n")
                    batch = reader.read(final=True, as_slots=as_slots)
                    held(to_row(record, common) for record in batch.records)
                    as_kept = [kept(common, offset_ns, slots) for offset_ns, slots in batch.slots]
                    held(row for slots in as_kept for row in slots.rows())
                    assert min(batch.overwritten, batch.torn, batch.unknown) >= 0, "a count below zero"
                    msgspec.msgpack.encode(Frame(slots=as_kept, at={"ring:x": [*reader.position, reader.header.dropped]}))
                finally:
                    reader.close()


def live(data: bytes) -> None:
    with suppress(OomctlError):
        held(LiveReader(io.BytesIO(data), "a.live").rows())


def live_frame(data: bytes) -> None:
    """As the payload of a frame whose checksum holds."""
    live(MAGIC + _framed(msgspec.msgpack.encode(_HEADER)) + _framed(data))


def parquet(data: bytes) -> None:
    with _file(data) as path, table() as connection:
        with suppress(OomctlError):
            storage.load_parquet(connection, path, "a.parquet")
        with suppress(OomctlError):
            rows = Rows(path, "a.parquet")
            for _ in rows.of("log", ("seq", "ts", "log.text")):
                pass


def toml(data: bytes) -> None:
    with suppress(OomctlError):
        assign(_REQUESTS, parse_rules(data.decode("utf-8", "replace"), "a.toml"))


def config(data: bytes) -> None:
    with _file(data) as path, suppress(OomctlError):
        file.read(path)


def trace(data: bytes) -> None:
    """A published trace, or else the requests that a log tells of."""
    stream = io.BufferedReader(io.BytesIO(data))
    reader = reader_of(stream.peek(HEAD_BYTES))
    with suppress(OomctlError):
        if reader is not None:
            reader.add(stream, "a")
            _looked(with_traps(reader.finish("a")))
            return
        logged = RequestLogReader()
        logged.add(stream, stream.peek(PEEK_BYTES)[:PEEK_BYTES])
        if logged.tells:
            _looked(with_traps(logged.finish("a")))


def anything(data: bytes) -> None:
    """The door of every command: archives, tables as text, spans, and all that the others take, into the event table."""
    with _file(data) as path, table(), suppress(OomctlError):
        open_inputs([str(path)], lambda problem: None)


def names(data: bytes) -> None:
    """Redaction learns from texts of strangers, then replaces in them."""
    text, found = data.decode("utf-8", "replace"), Pseudonyms()
    for line in text.split("\n"):
        found.learn_from(line)
    for line in text.split("\n"):
        found.scrub(line)


def _otlp(data: bytes, content_type: str) -> None:
    inbox = Inbox(COMMON, Time())
    with suppress(Refused):
        inbox.take_body(data, content_type)
    held(inbox.poll().rows)


def _scraped(reply: Reply) -> None:
    scraper = Scraper(URL, COMMON, Time(), fetch=lambda url, deadline_s: reply)
    held(_batch(lambda batch: scraper._take(scraper._get(suspicious=False), batch)))


def _batch(fill: Callable[[Batch], None]) -> Iterator[Row]:
    batch = Batch()
    fill(batch)
    for reason, count, detail in batch.losses:
        assert count > 0, (reason, detail)
    yield from batch.rows


def _looked(found: Trace) -> None:
    assert found.requests["prompt_tokens"].min() >= 0, "tokens below zero"  # type: ignore[operator]
    found.where(pl.col("arrival_s") >= 0)


def _checked(data: bytes) -> bytes:
    whole = bytearray(data.ljust(HEADER_BYTES, b"\0"))
    CHECKSUM.pack_into(whole, HEADER.size, zlib.crc32(whole[: HEADER.size]))
    for start in range(HEADER_BYTES, len(whole) - SLOT_BYTES + 1, SLOT_BYTES):
        slot = whole[start + CHECKSUM.size : start + SLOT_BYTES]
        if any(slot):
            CHECKSUM.pack_into(whole, start, CHECKSUMS[VERSION](bytes(slot)))
    return bytes(whole)


def _framed(payload: bytes) -> bytes:
    packed = zstandard.ZstdCompressor().compress(payload)
    return FRAME.pack(len(packed), zlib.crc32(packed)) + packed


@contextmanager
def _file(data: bytes) -> Iterator[Path]:
    with tempfile.NamedTemporaryFile(prefix="oomctl-fuzz-") as made:
        made.write(data)
        made.flush()
        yield Path(made.name)
