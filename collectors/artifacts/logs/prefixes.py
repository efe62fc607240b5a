"""What stands before the engine's own line: learned from the log, not listed.

A line that the engine's own header pattern recognises somewhere to the right teaches its outer prefix: Docker Compose's
`vllm-1  | `, a syslog stamp, CRI's `2026-..Z stdout F `, or one that nobody has seen before. The prefix becomes a template
(digits vary, words stay), and lines without a header, such as those of a traceback, lose theirs by it.
"""

import json
import re
from dataclasses import dataclass

ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
MAX_PREFIX = 240
MAX_TEMPLATES = 64

_TOKEN = re.compile(r"[A-Za-z0-9_]+|\s+|[^\sA-Za-z0-9_]")
_MONTH_OR_DAY = re.compile(r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec|Mon|Tue|Wed|Thu|Fri|Sat|Sun)\Z")
_LEVEL = re.compile(r"(?:DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL|stdout|stderr)\Z")
_PROGRESS = re.compile(r"\d%\||it/s|s/it|\d+/\d+ \[|Completed \|")
_FRAME = re.compile(r'\s+File "')
_STAMP = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)")
_JSON_TEXT = ("log", "message", "msg", "MESSAGE", "textPayload", "text", "line", "@message", "body", "event")
_JSON_TIME = ("ts", "time", "timestamp", "@timestamp", "__REALTIME_TIMESTAMP", "date")


@dataclass(frozen=True)
class Envelope:
    """A line taken out of its JSON envelope.

    Attributes:
        text: What the process printed.
        stamp: Time as printed by the envelope, or None.
        worker: Pod or container, or None.
        node: Host, or None.
    """

    text: str
    stamp: str | None = None
    worker: str | None = None
    node: str | None = None


def open_envelope(line: str) -> Envelope | None:
    """The printed text of a JSON-wrapped line (Docker's json-file, fluentd, Cloud Logging, journald -o json)."""
    stripped = line.strip()
    if not (stripped.startswith("{") and stripped.endswith("}")):
        return None
    try:
        parsed = json.loads(stripped)
    except (ValueError, RecursionError):
        return None
    if not isinstance(parsed, dict):
        return None
    payload = parsed.get("jsonPayload")
    inner = {**parsed, **payload} if isinstance(payload, dict) else parsed
    text = next((inner[key] for key in _JSON_TEXT if isinstance(inner.get(key), str)), None)
    if text is None:
        return None
    stamp = next((str(inner[key]) for key in _JSON_TIME if isinstance(inner.get(key), str | int)), None)
    places = [
        inner,
        *(v for k in ("kubernetes", "resource", "labels") if isinstance(v := inner.get(k), dict)),
    ]
    return Envelope(
        _whole(text.rstrip("\r\n")),
        stamp,
        _first(places, ("pod", "pod_name", "podName", "container_name", "CONTAINER_NAME", "container")),
        _first(places, ("host", "node", "node_name", "_HOSTNAME", "hostname")),
    )


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


class Prefixes:
    """The outer prefixes of one stream, learned as it is read."""

    def __init__(self) -> None:
        self._templates: list[re.Pattern[str]] = []
        self._known: set[str] = set()
        self._proposed: str | None = None

    def strip(self, line: str) -> tuple[str, str]:
        """(prefix, rest) of a line by the templates learned so far; the prefix is "" where none fits."""
        for position, template in enumerate(self._templates):
            match = template.match(line)
            if match is not None:
                if position:
                    self._templates.insert(0, self._templates.pop(position))
                return line[: match.end()], line[match.end() :]
        if self._proposed is not None:
            proposed, self._proposed = self._proposed, None
            match = re.match(template_of(proposed), line)
            if match is not None and _FRAME.match(line, match.end()):
                self.learn(proposed)
                return line[: match.end()], line[match.end() :]
        return "", line

    def propose(self, prefix: str) -> None:
        """Take `prefix`, which stood before a traceback's first line, as one if the frame in the next line has it too.

        A log without any engine's header, such as that of a plain script, teaches its prefix so.
        """
        if prefix.strip() and len(prefix) <= MAX_PREFIX:
            self._proposed = prefix

    def learn(self, prefix: str) -> None:
        """Take `prefix`, which stood before an engine's own header, as a template."""
        if len(prefix) > MAX_PREFIX or len(self._known) >= MAX_TEMPLATES or not prefix.strip():
            return
        pattern = template_of(prefix)
        if pattern not in self._known:
            self._known.add(pattern)
            self._templates.insert(0, re.compile(pattern))


def template_of(prefix: str) -> str:
    """A regular expression for prefixes like this one.

    Numbers, ids with digits, months, weekdays, levels and stream names vary; other words and punctuation stay. White space
    at its end may be missing on an empty line, and a continuation line's own indentation is not eaten.
    """
    parts: list[str] = []
    for token in _TOKEN.findall(prefix.rstrip()):
        if token.isspace():
            parts.append(r"\s+")
        elif any(character.isdigit() for character in token):
            parts.append(r"\w+")
        elif _MONTH_OR_DAY.match(token):
            parts.append(r"[A-Z][a-z]{2}")
        elif _LEVEL.match(token):
            parts.append(r"[A-Za-z]{4,8}")
        else:
            parts.append(re.escape(token))
    spaces = len(prefix) - len(prefix.rstrip())
    return "".join(parts) + (f"(?:\\s{{{spaces}}}|\\s?$)" if spaces else "")


def is_progress(text: str) -> bool:
    """Whether a text is (the rest of) a progress bar, which another writer's line was glued to."""
    return _PROGRESS.search(text) is not None


def stamp_in(prefix: str) -> str | None:
    """The last full time stamp with a zone in a prefix."""
    found = _STAMP.findall(prefix)
    return found[-1] if found else None
