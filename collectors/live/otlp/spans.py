"""Spans as request rows. Engines use names from before GenAI's conventions as well as those; both are read.

Names: https://github.com/open-telemetry/semantic-conventions-genai (all in development), vllm/tracing, and SGLang's
srt/tracing, which adds gen_ai.usage.cached_tokens.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue

from oomctl.schemas.numbers import whole

Fields = dict[str, Any]
Attributes = dict[str, Any]

COUNTS = {
    "prompt_tokens": (
        "gen_ai.usage.input_tokens",
        "gen_ai.client.inference.usage.input_tokens",
        "gen_ai.usage.prompt_tokens",
    ),
    "output_tokens": ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"),
    "cached_tokens": ("gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.cached_tokens"),
    "max_output_tokens": ("gen_ai.request.max_tokens",),
}
REQUEST_ID = ("gen_ai.request.id", "gen_ai.response.id")
CONVERSATION = "gen_ai.conversation.id"
OPERATION = "gen_ai.operation.name"
MODEL_CALLS = ("chat", "text_completion", "generate_content")
REASONS = ("gen_ai.response.finish_reasons",)
CANCELLED = ("abort", "cancelled")
MAX_TEXT = 200


def requests(export: ExportTraceServiceRequest) -> Iterator[tuple[int, str, Fields]]:
    """What an export says of requests.

    Yields:
        (microseconds since 1970, quality, fields of a request row). A tool call is two rows of its conversation.
    """
    for resource in export.resource_spans:
        for scope in resource.scope_spans:
            for span in scope.spans:
                attributes = _attributes(span.attributes)
                start, end = span.start_time_unix_nano // 1000, span.end_time_unix_nano // 1000
                if attributes.get(OPERATION) == "execute_tool":
                    yield from _tool(attributes, start, end)
                elif _is_request(attributes):
                    yield from _request(attributes, start, end)


def _is_request(attributes: Attributes) -> bool:
    if attributes.get(OPERATION) in MODEL_CALLS:
        return True
    return OPERATION not in attributes and _first(attributes, COUNTS["prompt_tokens"]) is not None


def _request(attributes: Attributes, start: int, end: int) -> Iterator[tuple[int, str, Fields]]:
    known: Fields = {"session_id": _text(attributes.get(CONVERSATION)), "request_id": _text(_first(attributes, REQUEST_ID))}
    counts = {name: _count(_first(attributes, names)) for name, names in COUNTS.items()}
    asked = {name: counts[name] for name in ("prompt_tokens", "max_output_tokens")}
    yield start, "measured", {**known, "event": "arrived", **asked}
    # The span tells durations; the instants follow from its start.
    for event, name in (
        ("scheduled", "gen_ai.latency.time_in_queue"),
        ("first_token", "gen_ai.latency.time_to_first_token"),
    ):
        waited = attributes.get(name)
        if isinstance(waited, float | int) and 0 <= waited < 1e6:
            yield start + int(waited * 1e6), "derived", {**known, "event": event}
    if end >= start:
        reasons = str(_first(attributes, REASONS) or "")
        event = "cancelled" if any(word in reasons for word in CANCELLED) else "finished"
        given = {name: counts[name] for name in ("prompt_tokens", "cached_tokens", "output_tokens", "max_output_tokens")}
        yield end, "measured", {**known, "event": event, **given}


def _tool(attributes: Attributes, start: int, end: int) -> Iterator[tuple[int, str, Fields]]:
    known: Fields = {
        "session_id": _text(attributes.get(CONVERSATION)),
        "request_id": _text(attributes.get("gen_ai.tool.call.id")),
    }
    yield start, "measured", {**known, "event": "tool_wait_started"}
    if end >= start:
        yield end, "measured", {**known, "event": "tool_wait_ended"}


def _attributes(pairs: Iterable[KeyValue]) -> Attributes:
    """Scalars and lists of texts; nested values hold messages, which are prompt content."""
    found: Attributes = {}
    for pair in pairs:
        kind = pair.value.WhichOneof("value")
        if kind in ("string_value", "int_value", "double_value", "bool_value"):
            found[pair.key] = getattr(pair.value, kind)
        elif kind == "array_value" and pair.key in REASONS:
            found[pair.key] = " ".join(value.string_value for value in pair.value.array_value.values)
    return found


def _first(attributes: Attributes, names: tuple[str, ...]) -> Any:
    return next((attributes[name] for name in names if name in attributes), None)


def _count(value: Any) -> int | None:
    """A count of tokens; vLLM sends it as text in some versions."""
    if isinstance(value, str):
        return whole(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _text(value: Any) -> str | None:
    return value[:MAX_TEXT] if isinstance(value, str) else None
