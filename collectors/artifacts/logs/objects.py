"""Lines inside an object: JSON of shippers, journals and exports, one line of pretty-printed JSON, logfmt.

These are formats and not prefixes: what stands inside is escaped, and the object says when and where it was printed.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from oomctl.collectors.artifacts.logs import times

MAX_DEPTH = 8
MAX_RECORDS = 1000
DOCKER_PART_BYTES = 16384
"""At which Docker cuts a line; each part but the last has no line end."""

_TEXT = ("log", "message", "msg", "MESSAGE", "textPayload", "text", "line", "@message", "body", "event", "_raw")
_TIME = (
    "ts", "time", "timestamp", "@timestamp", "__REALTIME_TIMESTAMP", "date", "asctime", "timeUnixNano",
    "observedTimeUnixNano",
)  # fmt: skip
_TRACE = ("exc_info", "exception", "traceback", "stack_trace", "stacktrace", "error.stack_trace")
"""Where logging libraries put the traceback that belongs to a message."""
_INNER = (
    "jsonPayload", "attributes", "content", "_source", "result", "fields", "record", "data", "resourceLogs", "scopeLogs",
    "logRecords", "hits", "event",
)  # fmt: skip
"""What the record may be wrapped in once more."""
_PLACES = ("kubernetes", "resource", "labels", "host", "attributes", "fields", "docker")
_WORKER = ("pod", "pod_name", "podName", "k8s.pod.name", "container_name", "CONTAINER_NAME", "container")
_NODE = ("host", "node", "node_name", "_HOSTNAME", "hostname", "k8s.node.name", "nodename")
_USERS = ("messages", "prompt", "choices")
"""An object with one of these is a request or a reply: what users wrote, not what a process printed."""

_KEY = re.compile(
    r'(?:"(?:log|message|msg|MESSAGE|textPayload|@message|line|_raw)" ?: ?|(?<=[\w"] )(?:msg|message|log|line)=)(?=")'
)
"""Before the line in a member of a pretty-printed object, or in logfmt, which names something else before it."""
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
MAX_BEFORE = 1000
_GO_SOURCE = "source="
"""ollama's own header, which its reader knows."""


@dataclass(frozen=True)
class Envelope:
    """What a process printed, taken out of an object.

    Attributes:
        text: The line; several, with line breaks between them, where the object holds several.
        stamp: Time as printed by the envelope, or None.
        worker: Pod or container, or None.
        node: Host, or None.
        flow: stdout or stderr, where it says so.
        partial: Whether the line goes on in the next object of its flow.
    """

    text: str
    stamp: str | None = None
    worker: str | None = None
    node: str | None = None
    flow: str | None = None
    partial: bool = False


def open_envelope(line: str) -> Envelope | None:
    """The line that an object holds, or None where the text is none of these formats, or holds no line."""
    stripped = line.strip()
    if stripped.startswith("{") and stripped.endswith("}"):
        parsed = _parsed(stripped)
        return _of_object(parsed) if isinstance(parsed, dict) else None
    return None


def open_member(line: str) -> Envelope | None:
    """The line that a member of a pretty-printed object, or a logfmt line, holds at its end."""
    key = _KEY.search(line, 0, MAX_BEFORE) if _GO_SOURCE not in line[:MAX_BEFORE] else None
    string = _STRING.match(line, key.end()) if key is not None else None
    if string is None or line[string.end() :].strip() not in ("", ","):
        return None
    text = _parsed(string[0])
    return Envelope(_whole(text.rstrip("\r\n")), times.outer_in(line[: string.start()])) if isinstance(text, str) else None


def _parsed(text: str) -> object:
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None


def _of_object(parsed: dict[str, object]) -> Envelope | None:
    found = list(_records(parsed, (), 0))
    texts = [text for text, _ in found if text is not None]
    if not texts:
        return None
    chain = found[0][1]
    stamp = next((str(each[key]) for each in chain for key in _TIME if isinstance(each.get(key), str | int | float)), None)
    places = [*chain, *(value for each in chain for key in _PLACES if isinstance(value := each.get(key), dict))]
    places += [_attributes(place["attributes"]) for place in places if isinstance(place.get("attributes"), list)]
    text = _traced(chain) + "\n".join(texts)
    return Envelope(
        _whole(text.rstrip("\r\n")),
        stamp,
        _first(places, _WORKER),
        _first(places, _NODE),
        _first(places, ("stream",)),
        _is_part(chain[0], text),
    )


def _traced(chain: tuple[dict[str, object], ...]) -> str:
    """What Rust's tracing prints before a message where it does not write JSON; "" where the object is none of its."""
    for each in chain:
        if isinstance(each.get("target"), str) and isinstance(each.get("level"), str):
            return f"{each.get('timestamp')}  {each['level']} {each['target']}: "
    return ""


def _records(
    value: object, outer: tuple[dict[str, object], ...], depth: int
) -> Iterator[tuple[str, tuple[dict[str, object], ...]]]:
    """(line, the objects around it from the inside out) of each record in an object."""
    if depth > MAX_DEPTH:
        return
    if isinstance(value, list):
        for item in value[:MAX_RECORDS]:
            if isinstance(item, dict):
                yield from _records(item, outer, depth + 1)
        return
    if not isinstance(value, dict) or _of_users(value):
        return
    chain = (value, *outer)
    for key in _INNER:
        if isinstance(value.get(key), dict | list):
            found = list(_records(value[key], chain, depth + 1))
            if found:
                yield from found
                return
    text = next((text for key in _TEXT if (text := _text_of(value.get(key))) is not None), None)
    if text is not None:
        traces = [trace for key in _TRACE if isinstance(trace := value.get(key), str) and trace]
        yield "\n".join([text.rstrip("\r\n") if traces else text, *traces[:1]]), chain


def _of_users(value: dict[str, object]) -> bool:
    return any(key in value for key in _USERS) or value.get("role") in ("user", "assistant", "system", "tool")


def _text_of(value: object) -> str | None:
    """A string; journald's array of bytes, which it writes for what is no printable UTF-8; OTLP's stringValue."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        inner = value.get("stringValue")
        return inner if isinstance(inner, str) else None
    if isinstance(value, list) and all(isinstance(byte, int) and 0 <= byte < 256 for byte in value):
        return bytes(value).decode("utf-8", "replace")
    return None


def _attributes(value: object) -> dict[str, object]:
    """OTLP's list of keys and values, as a mapping."""
    items: Iterable[object] = value if isinstance(value, list) else ()
    return {
        item["key"]: _text_of(item.get("value"))
        for item in items
        if isinstance(item, dict) and isinstance(item.get("key"), str)
    }


def _is_part(record: dict[str, object], text: str) -> bool:
    """Whether a runtime cut the line here: CRI's tag P as Fluent Bit keeps it, fluentd's mark, Docker's full part."""
    if record.get("logtag") == "P" or record.get("partial_message") == "true":
        return True
    whole = len(text) >= DOCKER_PART_BYTES // 4 and "stream" in record and not text.endswith("\n")
    return whole and len(text.encode("utf-8", "replace")) == DOCKER_PART_BYTES


def _first(places: list[dict[str, object]], keys: tuple[str, ...]) -> str | None:
    for place in places:
        for key in keys:
            value = place.get(key)
            if isinstance(value, str) and value:
                return _whole(value[:200])
    return None


def _whole(text: str) -> str:
    """The text without the halves of characters that JSON's escapes can make; nothing could store those."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
