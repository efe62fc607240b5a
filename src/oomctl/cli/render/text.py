"""Text from logs, made safe and made to fit: a log must never steer the terminal of the person who reads it."""

import re
from unicodedata import combining, east_asian_width

# C0 and C1 controls, invisible and direction-changing characters, line separators, lone surrogates.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")
_UNSAFE_IN_JSON = re.compile("[\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
_MD_SPECIAL = re.compile(r"([\\`*\[\]<>|#~&])|(?<!\w)_|_(?!\w)")

_HEADER_END = re.compile(r"\[[\w./<>-]+:\d+\] |\b[\w/.-]+\.py:\d+\] |^\[\d{4}-\d\d-\d\d [\d:.,]+(?: [A-Z_\d ]+)?\] ")
GIST_HEAD = 240

STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


def escape(text: str) -> str:
    """Show control, invisible and direction-changing characters as \\x1b or \\u202e; a tab becomes a space."""
    return _UNSAFE.sub(_shown, text)


def escape_json(document: str) -> str:
    """The same JSON, with what a terminal obeys and JSON may hold as it is escaped as JSON does it."""
    return _UNSAFE_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", document)


def document(value: object) -> str:
    """A value as JSON, indented, the fields of a struct in declared order; a newline at its end."""
    # Here, since pages for reading need this module and no JSON.
    import msgspec

    return escape_json(msgspec.json.format(msgspec.json.encode(value), indent=2).decode()) + "\n"


def json_line(value: object) -> str:
    """A value as JSON on one line, for output of one a line."""
    import msgspec

    return escape_json(msgspec.json.encode(value).decode()) + "\n"


def _shown(match: re.Match[str]) -> str:
    point = ord(match[0])
    return " " if match[0] == "\t" else f"\\x{point:02x}" if point < 0x100 else f"\\u{point:04x}"


def escape_md(text: str) -> str:
    """As `escape`, and nothing in it is Markdown or HTML any more."""
    return _MD_SPECIAL.sub(r"\\\g<0>", escape(text))


def code_md(text: str) -> str:
    """Inline code that no backtick in the text can end."""
    text = escape(text)
    ticks = "`" * (_longest_ticks(text) + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{ticks}{pad}{text}{pad}{ticks}"


def fence_md(lines: list[str], language: str = "text") -> list[str]:
    """A fenced block that no line in it can end."""
    lines = [escape(line) for line in lines]
    fence = "`" * max(3, 1 + max((_longest_ticks(line) for line in lines), default=0))
    return [f"{fence}{language}", *lines, fence]


def _longest_ticks(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)


def cells(text: str) -> int:
    """Terminal columns that the text takes."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text)


def cut(text: str, width: int) -> str:
    """At most `width` columns. What is too long loses its middle: a log line says who first, and how much last."""
    if cells(text) <= width:
        return text
    if width <= 1:
        return "…"[:width]
    head, tail = _fitting(text, width // 2), _fitting(text[::-1], (width - 1) // 2)[::-1]
    return f"{head}…{tail}"


def cut_end(text: str, width: int) -> str:
    """At most `width` columns, an ellipsis at the end of what is too long."""
    return text if cells(text) <= width else _fitting(text, width - 1) + "…"


def fold(text: str, width: int) -> list[str]:
    """The text in lines of at most `width` columns, broken behind spaces where there are some; joined they are the text."""
    lines = []
    while cells(text) > width:
        head = _fitting(text, width) or text[:1]
        space = head.rfind(" ") + 1
        if space > len(head) // 2:
            head = head[:space]
        lines.append(head)
        text = text[len(head) :]
    return [*lines, text]


def gist(text: str) -> str:
    """What a log line says, without the object that holds it, and the time, process and source that stand before it."""
    if text.startswith("{"):
        from oomctl.collectors.artifacts.logs.objects import open_envelope

        held = open_envelope(text)
        text = text if held is None else held.text
    head = text[:GIST_HEAD]
    marks = list(_HEADER_END.finditer(head))
    return (text[marks[-1].end() :] if marks else text).strip() or text.strip()


def _fitting(text: str, width: int) -> str:
    used = 0
    for index, char in enumerate(text):
        used += cells(char)
        if used > width:
            return text[:index]
    return text


def paint(text: str, style: str, colour: bool) -> str:
    """The text in the named styles ("bold red"), or as it is."""
    if not colour or not style:
        return text
    return f"\x1b[{';'.join(STYLES[name] for name in style.split())}m{text}\x1b[0m"
