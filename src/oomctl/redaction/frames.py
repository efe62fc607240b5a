"""Frames of tracebacks: those of public packages stay, of others no name, no path and no source is told.

What triage decides by must survive: a private function that is named as an engine names its own (`_capture_cudagraphs`)
keeps that name, less what is not public of it, and of source code the shape stays, `_ = torch.cat([past, _])`.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from oomctl.redaction.paths import public_part
from oomctl.redaction.words import is_public

_PYTHON = re.compile(r'File \\*"(?P<path>[^"\\]{1,1000})\\*", line \d{1,9}(?:, in (?P<function>[^\s"\\,]{1,300}))?')
_BOX = re.compile(r"[\u2502|] (?P<path>[~/]\S{1,1000}):\d{1,9} in (?P<function>\S{1,300})")
_CELL = re.compile(
    r"(?<![\w/])(?:File )?(?P<path>[~/<]?[\w./-]{0,1000}\.py|<ipython-input-[\w-]{1,80}>)(?::\d{1,9},?)? in "
    r"(?P<function>[\w.<>]{1,300})(?P<arguments>\(.*)?"
)
_ENDS = re.compile(
    r"\s{0,1}(?:[A-Za-z_][\w.]*(?:Error|Exception|OutOfMemory\w*|Exit|Interrupt|Timeout|Dead|Failure)\b|During handling"
    r"|The above exception|Traceback|terminate called|what\(\))"
)
_CODE_WORDS = frozenset(
    {
        "torch", "cat", "empty", "zeros", "past", "cache", "caches", "key", "keys", "value", "values", "kv", "k", "v", "lm",
        "head", "model", "forward", "prefill", "self", "return", "def", "class", "if", "else", "for", "in", "with", "as",
        "not", "is", "await", "yield", "raise", "size", "dim", "layer", "idx", "new", "full", "to", "device", "dtype",
    }
)  # fmt: skip
"""What source code is made of that decides something, or that says nothing."""
_TOKEN = re.compile(r"\w+")


@dataclass
class _Open:
    """A frame whose source may stand on the next lines."""

    private: bool
    column: int
    line: int


class Frames:
    """Replaces frames, in rows of their own and in the text of lines.

    Args:
        markers: Of the functions by which triage decides, a pattern of the whole name and one found in the file, if any.
        name: Gives the pseudonym of a function.
        path: Gives a path without what is private of it.
    """

    def __init__(
        self, markers: Sequence[tuple[str, str | None]], name: Callable[[str], str], path: Callable[[str], str]
    ) -> None:
        self._markers = [(re.compile(function), re.compile(file or "")) for function, file in markers]
        self._name = name
        self._path = path
        self._open: dict[tuple[object, ...], _Open] = {}

    def function(self, function: str, file: str) -> str:
        """A function's name: as it is where its file is public."""
        if is_public_file(file) or not function or function.startswith("<"):
            return function
        told = self._told(function, file)
        if told:
            public = "".join(part if is_public(part) else "x" for part in re.split(r"(\W|_)", function))
            if self._told(public, file) == told:
                return public
        return self._name(function)

    def file(self, file: str, function: str) -> str:
        """A frame's file: of a private one nothing but what a rule looks for in it."""
        if is_public_file(file):
            return self._path(file) if "/" in file or "\\" in file else file
        found = (marker.search(file) for called, marker in self._markers if marker.pattern and called.fullmatch(function))
        kept = sorted({match[0] for match in found if match is not None})
        return "/".join([self._path(file).removesuffix(".py"), *kept]) + ".py"

    def code(self, code: str, file: str) -> str | None:
        """Source code: None where it is the caller's to scrub, because its file is public."""
        return None if is_public_file(file) else shape(code)

    def in_line(self, text: str, writer: tuple[object, ...], line: int | None) -> tuple[str, str]:
        """(what is still to be scrubbed, what is not) of a line: frames and their source are replaced.

        Args:
            text: The line.
            writer: Who wrote it: the source of a frame stands on the writer's next line.
            line: Its number.
        """
        frame = _PYTHON.search(text) or _BOX.search(text) or _CELL.search(text)
        if frame is not None:
            private = not is_public_file(frame["path"])
            self._open[writer] = _Open(private, frame.start(), line or 0)
            return self._replaced(text, frame) if private else text, ""
        before = self._open.get(writer)
        if before is None or not before.private:
            return text, ""
        rest = text[before.column :]
        if _ENDS.match(rest) or ((line or 0) - before.line > 1 and not rest[:1].isspace()):
            del self._open[writer]
            return text, ""
        return text[: before.column], shape(rest)

    def _replaced(self, text: str, frame: re.Match[str]) -> str:
        parts = [("path", self.file(frame["path"], frame["function"] or ""))]
        if frame["function"]:
            parts.append(("function", self.function(frame["function"], frame["path"])))
        if frame.groupdict().get("arguments"):
            parts.append(("arguments", "(...)"))
        for group, new in reversed(parts):
            text = text[: frame.start(group)] + new + text[frame.end(group) :]
        return text

    def _told(self, function: str, file: str) -> list[int]:
        return [
            number
            for number, (called, where) in enumerate(self._markers)
            if called.fullmatch(function) and where.search(file)
        ]


def is_public_file(file: str) -> bool:
    """Whether a frame's file, or the namespaces that stand in its place in a native one, are a public package's."""
    if "/" not in file and "\\" not in file and not file.endswith(".py") and not file.startswith("<"):
        return all(is_public(token) for token in _TOKEN.findall(file))
    part = public_part(file)
    return part is not None and all(is_public(token) for token in _TOKEN.findall(part))


def shape(code: str) -> str:
    """Source code without its names."""
    return _TOKEN.sub(lambda token: token[0] if _tells(token[0]) else "_", code)


def _tells(token: str) -> bool:
    return token.isdecimal() or all(part in _CODE_WORDS for part in token.lower().split("_") if part)
