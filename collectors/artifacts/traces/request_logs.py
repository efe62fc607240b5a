"""Requests out of engines' own logs, where they log each: vLLM's --enable-log-requests, SGLang's --log-requests.

Sources: vllm/entrypoints/logger.py of several versions ("Received request", "Request ... details", "Generated response"),
sglang/srt/utils/request_logger.py and managers/tokenizer_manager.py ("Receive: obj=", "Finish: obj=", or as JSON). What
a user wrote stands before an engine's own fields, so these are looked for from the end. Only counts are kept of it.
"""

import re
from dataclasses import dataclass
from typing import Any, BinaryIO

import msgspec
import polars as pl

from oomctl.collectors.artifacts.logs.lines import Lines
from oomctl.collectors.artifacts.logs.source import looks_binary
from oomctl.collectors.artifacts.logs.times import parse_full
from oomctl.collectors.artifacts.traces.outcomes import unread
from oomctl.schemas.trace import Finding, Trace, request_table

LITERALS = (
    b"Received request ",
    b" details: prompt",
    b"Generated response ",
    b"Receive: obj=",
    b"Finish: obj=",
    b'"request.',
)
MAX_LINE_BYTES = 64 << 20
PEEK_BYTES = 8192
MAX_ID = 200
CUT_SHARE = 0.2
"""Of prompts of exactly the longest length, beyond which a bound on what is logged is the likelier reason."""
_RECEIVED = re.compile(r"Received request (\S+): ")
_DETAILS = re.compile(r"Request (\S+) details: prompt")
_GENERATED = re.compile(r"Generated response (\S+?)( \([^)]{0,40}\))?: ")
_MAX_TOKENS = re.compile(r"\bmax_tokens=(\d{1,18})")
_LORA = re.compile(r"lora_request: LoRARequest\(lora_name='([^']{1,200})'")
_RID = re.compile(r"\brid=['\"]([^'\"]{1,200})")
_REASON = re.compile(r"finish_reason['\"]?: ?(?:\{['\"]type['\"]: ?)?['\"]?(\w+)")
_COUNTS = {
    "prompt_tokens": re.compile(r"['\"]prompt_tokens['\"]: ?(\d{1,18})"),
    "output_tokens": re.compile(r"['\"]completion_tokens['\"]: ?(\d{1,18})"),
    "cached_tokens": re.compile(r"['\"]cached_tokens['\"]: ?(\d{1,18})"),
}
_LATENCY = re.compile(r"['\"]e2e_latency['\"]: ?(\d{1,9}(?:\.\d{1,20})?)")
_MAX_NEW = re.compile(r"['\"]max_new_tokens['\"]: ?(\d{1,18})")


@dataclass(slots=True)
class _Asked:
    """A request, as far as the log tells."""

    arrival_us: int | None = None
    end_us: int | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    max_output_tokens: int | None = None
    adapter: str | None = None
    cancelled: bool = False


class RequestLogReader:
    """Reads text logs line by line; lines that tell of no request are passed over unread."""

    def __init__(self) -> None:
        self._asked: dict[str, _Asked] = {}

    def add(self, stream: BinaryIO, head: bytes) -> None:
        """Read a log.

        Args:
            stream: Its bytes.
            head: The first of them, to tell text; nothing is read of what is none.
        """
        if looks_binary(head):
            return
        lines, number = Lines(), 0
        while raw := stream.readline(MAX_LINE_BYTES):
            number += 1
            if not any(literal in raw for literal in LITERALS):
                continue
            text = raw.decode("utf-8", "replace").rstrip("\r\n")
            if b'"request.' in raw and self._object(text):
                continue
            for record in lines.records(number, text):
                self._line(record.text, text, record.ts)

    @property
    def tells(self) -> bool:
        """Whether there is a request with a prompt's length and a time."""
        return any(map(_known, self._asked.values()))

    def finish(self, name: str) -> Trace:
        """The trace of all logs that were added, of which one tells of a request at least."""
        known = {key: asked for key, asked in self._asked.items() if _known(asked)}
        first = min(asked.arrival_us or 0 for asked in known.values())
        own = list(known.values())
        table = request_table(
            {
                "arrival_s": [((asked.arrival_us or 0) - first) / 1e6 for asked in own],
                "request": list(known),
                "status": ["cancelled" if asked.cancelled else "ok" for asked in own],
                "service_s": [_took_s(asked) for asked in own],
            }
            | {
                column: [getattr(asked, column) for asked in own]
                for column in ("prompt_tokens", "output_tokens", "cached_tokens", "max_output_tokens", "adapter")
            }
        )
        left_out = len(self._asked) - len(known)
        findings = (*unread(left_out, "requests, whose prompt's length or time is not logged,"), *_cut(table))
        return Trace(name, "log", table, findings=findings).sorted(pl.col("arrival_s"))

    def _line(self, text: str, raw: str, ts: int | None) -> None:
        """A line of a log: its text from the header on, and all of it, since the text may be cut."""
        if match := _RECEIVED.match(text):
            asked = self._of(match[1], ts)
            params = raw[max(raw.rfind("Params("), 0) :]
            asked.max_output_tokens = _integer(_MAX_TOKENS.search(params)) or asked.max_output_tokens
            lora = _LORA.search(params)
            asked.adapter = lora[1] if lora else asked.adapter
            asked.prompt_tokens = _listed(raw, "prompt_token_ids: ") or asked.prompt_tokens
        elif match := _DETAILS.match(text):
            asked = self._of(match[1], ts)
            asked.prompt_tokens = _listed(raw, "prompt_token_ids: ") or asked.prompt_tokens
        elif match := _GENERATED.match(text):
            if "delta" not in (match[2] or ""):  # the whole answer comes in a line of its own
                self._generated(match[1], raw, ts)
        elif text.startswith("Receive: obj=") and (rid := _RID.search(text)):
            self._of(rid[1], ts)
        elif text.startswith("Finish: obj=") and (rid := _RID.search(text)):
            self._finished(self._of(rid[1], None), text, raw, ts)

    def _generated(self, request: str, raw: str, ts: int | None) -> None:
        """An answer of vLLM's; its name may lack the number that the engine's has at its end."""
        asked = self._asked.get(request) or self._asked.get(f"{request}-0")
        if asked is None:
            return
        count = _listed(raw, "output_token_ids: ")
        if count is not None:
            asked.output_tokens = (asked.output_tokens or 0) + count
        asked.end_us = ts if ts is not None else asked.end_us
        reason = _REASON.search(raw, max(raw.rfind("finish_reason"), 0))
        asked.cancelled |= reason is not None and reason[1] == "abort"

    def _finished(self, asked: _Asked, head: str, raw: str, ts: int | None) -> None:
        """An answer of SGLang's, with its counts in `meta_info`."""
        told = raw[max(raw.rfind("meta_info"), 0) :]
        for name, pattern in _COUNTS.items():
            count = _integer(pattern.search(told))
            setattr(asked, name, count if count is not None else getattr(asked, name))
        asked.max_output_tokens = _integer(_MAX_NEW.search(head)) or asked.max_output_tokens
        reason = _REASON.search(told)
        asked.cancelled |= reason is not None and reason[1] == "abort"
        if ts is None:
            return
        asked.end_us = ts
        latency = _LATENCY.search(told)
        if latency is not None and asked.arrival_us is None:
            asked.arrival_us = ts - round(float(latency[1]) * 1e6)

    def _object(self, text: str) -> bool:
        """SGLang's JSON form, one event a line; False where it is none."""
        try:
            event: Any = msgspec.json.decode(text[max(text.find("{"), 0) :])
        except msgspec.MsgspecError:
            return False
        if not isinstance(event, dict) or not isinstance(event.get("rid"), str):
            return False
        stamp = parse_full(str(event.get("timestamp", "")))
        ts = None if stamp is None else stamp[0]
        if event.get("event") == "request.received":
            self._of(event["rid"], ts)
        elif event.get("event") == "request.finished":
            told = msgspec.json.encode(event.get("out")).decode()
            self._finished(self._of(event["rid"], None), msgspec.json.encode(event.get("obj")).decode(), told, ts)
        return True

    def _of(self, request: str, ts: int | None) -> _Asked:
        asked = self._asked.setdefault(request[:MAX_ID], _Asked())
        if ts is not None and asked.arrival_us is None:
            asked.arrival_us = ts
        return asked


def _known(asked: _Asked) -> bool:
    return asked.prompt_tokens is not None and asked.arrival_us is not None


def _took_s(asked: _Asked) -> float | None:
    if asked.end_us is None or asked.arrival_us is None or asked.end_us < asked.arrival_us:
        return None
    return (asked.end_us - asked.arrival_us) / 1e6


def _listed(raw: str, lead: str) -> int | None:
    """How many numbers the last list of that name has; None where it is not given."""
    start = raw.rfind(lead)
    if start < 0:
        return None
    start += len(lead)
    end = raw.find("]", start)
    if raw[start : start + 1] not in ("[", "(") or end < 0:
        return None
    return raw.count(",", start, end) + 1 if raw[start + 1 : end].strip() else 0


def _integer(match: re.Match[str] | None) -> int | None:
    return None if match is None else int(match[1])


def _cut(table: pl.DataFrame) -> list[Finding]:
    """Whether prompts look as if they were logged up to a bound only."""
    prompts = table["prompt_tokens"].to_numpy()
    longest = int(prompts.max())
    same = int((prompts == longest).sum())
    if len(prompts) < 10 or same < CUT_SHARE * len(prompts) or same == len(prompts):
        return []
    text = f"{same:,} prompts have exactly {longest:,} tokens: they may be longer, and cut off by --max-log-len."
    return [Finding("cut_prompts", same, text)]
