"""What stands before the engine's own line: learned from the log, not listed.

A line that the engine's own header pattern recognises somewhere to the right teaches its outer prefix: Docker Compose's
`vllm-1  | `, a syslog stamp, CRI's `2026-..Z stdout F `, or one that nobody has seen before. The prefix becomes a template
(digits vary, words stay), and lines without a header, such as those of a traceback, lose theirs by it.
"""

import re

_ANSI = re.compile(r"(?:\x1b|#033)(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
"""Colours and other escape sequences, also as rsyslog writes their first character."""
MAX_PREFIX = 240
MAX_TEMPLATES = 64

_TOKEN = re.compile(r"[A-Za-z0-9_]+|\s+|[^\sA-Za-z0-9_]")
_MONTH_OR_DAY = re.compile(r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec|Mon|Tue|Wed|Thu|Fri|Sat|Sun)\Z")
_LEVEL = re.compile(r"(?:DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL|stdout|stderr)\Z")
_PROGRESS = re.compile(r"\d%\||it/s|s/it|\d+/\d+ \[|Completed \|")
_FRAME = re.compile(r'\s*File "')


def plain(text: str) -> str:
    """A text without colours."""
    return _ANSI.sub("", text) if "\x1b" in text or "#033[" in text else text


class Prefixes:
    """The outer prefixes of one stream, learned as it is read."""

    def __init__(self) -> None:
        self._templates: list[re.Pattern[str]] = []
        self._known: set[str] = set()
        self._proposed: str | None = None

    @property
    def waiting(self) -> bool:
        """Whether the next line decides if a text is a prefix."""
        return self._proposed is not None

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
        elif token.isdecimal() and len(token) < 6:
            parts.append(r"\d+")
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
