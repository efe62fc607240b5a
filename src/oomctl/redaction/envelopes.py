"""Names in what stands around a process's own line: prefixes of container runtimes and journals, members of objects."""

import json
import re
from collections.abc import Iterator

from oomctl.collectors.artifacts.logs.lines import Lines
from oomctl.redaction.words import is_public

_WORD = re.compile(r"[A-Za-z0-9_][\w.-]*[A-Za-z0-9_](?!=)")
_NUMBERED = re.compile(r"[a-z]{2,}\d+")
_MOMENT = re.compile(r"[\d.:+-]*(?:T[\d.:+-]*)?Z?|\d{1,3}[a-z]{1,2}|[IWEFD]\d{4}|ID\d+")
_PLAIN = frozenset(
    {
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec", "mon", "tue", "wed", "thu",
        "fri", "sat", "sun", "utc", "gmt", "cet", "cest", "est", "edt", "cst", "cdt", "pst", "pdt", "stdout", "stderr",
        "debg", "err", "notice", "warn", "crit", "kernel", "systemd", "dockerd", "containerd", "kubelet", "python3",
        "relay.go", "logs.go",
    }
)  # fmt: skip
"""Words of an envelope that name nobody and are not public words, in lower case."""
_TEXTS = frozenset(
    {"log", "message", "msg", "textpayload", "text", "line", "@message", "body", "event", "_raw", "exc_info", "exception"}
)
_TIMES = re.compile(r"(?i).*(?:time|timestamp|date|ts|level|severity|priority|stream|source|logtag|flag|_p)")


class Envelopes:
    """Reads the lines of one stream, in order, and learns its prefixes as a reader does."""

    def __init__(self) -> None:
        self._lines = Lines()

    def names(self, line: int, text: str) -> Iterator[str]:
        """What may be a name in the envelope of a line."""
        self._lines.records(line, text)
        inner = self._lines.inner(text)
        start = text.rfind(inner) if inner else -1
        yield from filter(_may_be_name, _WORD.findall(text[:start] if start > 0 else ""))
        brace = text.find('{"')
        if brace >= 0:
            try:
                yield from _values(json.loads(text[brace:], strict=False))
            except (ValueError, RecursionError):
                return


def _values(value: object, key: str = "", depth: int = 0) -> Iterator[str]:
    """The short texts of an object that are neither its message nor a time or level."""
    if depth > 8:
        return
    if isinstance(value, dict):
        for name, item in value.items():
            if name.lower() not in _TEXTS or not isinstance(item, str):
                yield from _values(item, name, depth + 1)
    elif isinstance(value, list):
        for item in value[:100]:
            yield from _values(item, key, depth + 1)
    elif isinstance(value, str) and not _TIMES.fullmatch(key) and len(value) < 200 and " " not in value:
        yield from filter(_may_be_name, [value])


def _may_be_name(word: str) -> bool:
    """Whether a word is neither a time, a rank, nor what public source code is made of."""
    if word.lower() in _PLAIN or _MOMENT.fullmatch(word):
        return False
    return not (word.isidentifier() and is_public(word)) or _NUMBERED.fullmatch(word) is not None
