"""Exported spans as an input: OTLP as JSON, an export a line, as a collector's file exporter writes them."""

import io
from collections.abc import Iterator

from oomctl.inputs import Report
from oomctl.schemas import storage, verdict
from oomctl.schemas.errors import OomctlError
from oomctl.schemas.rows import Row
from oomctl.target import Target

HEAD_BYTES = 4096
MAX_LINE_BYTES = 16 << 20


def looks_like_spans(head: bytes) -> bool:
    """Whether a file begins like an export of spans.

    Args:
        head: Its first bytes, HEAD_BYTES where it has so many.
    """
    text = head.lstrip()
    return text.startswith(b"{") and any(name in text for name in (b'"resourceSpans"', b'"resource_spans"'))


def load_span_file(target: Target, name: str, stream: io.BufferedReader, report: Report) -> verdict.Input | None:
    """Load the requests that spans tell of into the event table.

    Args:
        target: What to load it into.
        name: What to call it.
        stream: Its bytes.
        report: Called with what could be read only in part.

    Returns:
        None if it is none; nothing was read then.

    Raises:
        OomctlError: If no span in it is one of a request, or an input of that name was read.
    """
    if not looks_like_spans(stream.peek(HEAD_BYTES)):
        return None
    from oomctl.collectors.live.otlp.inbox import Refused, decode
    from oomctl.collectors.live.otlp.spans import requests
    from oomctl.collectors.live.stream import Stream

    target.refuse_known({name}, name)
    numbered = Stream(name, "otlp", {"worker": name})
    size = refused = 0

    def told() -> Iterator[Row]:
        nonlocal size, refused
        while line := stream.readline(MAX_LINE_BYTES):
            size += len(line)
            try:
                export = decode(line, "json")
            except Refused:
                refused += bool(line.strip())
                continue
            for ts, quality, fields in requests(export):
                yield numbered.row(ts, "request", fields, {"quality": quality})

    rows = storage.load_rows(target.connection, told())
    if not rows:
        raise OomctlError(f"no span of a request ({name})", "export the engine's own spans: vLLM's --otlp-traces-endpoint")
    if refused:
        report(OomctlError(f"{name}: {refused:,} lines are no export of spans, and were left out"))
    target.streams.add(name)
    return verdict.Input(path=name, format="otlp", bytes=size, rows=rows)
