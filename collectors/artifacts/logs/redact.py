"""What may not be kept of a log line: credentials, and what users wrote."""

from oomctl.collectors.artifacts.logs.pattern import Pattern

MAX_TEXT = 8192
"""Characters of a line that are kept; one traceback message fits, an echoed document does not."""

_SECRET = Pattern(
    r"(?P<head>(?i:authorization|api[-_]?key|access[-_]?key|secret|password|passwd|token)[\"']?\s*[=:]\s*[\"']?"
    r"(?i:bearer\s+)?)(?P<body>[A-Za-z0-9+/_.~-]{12,})"
    r"|\b(?:hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|AKIA[0-9A-Z]{16}"
    r"|xox[abpr]-[A-Za-z0-9-]{10,}|eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{5,})"
)
_HINTS = ("key", "secret", "passw", "token=", "token:", "token\"", "token'", "authorization", "hf_", "sk-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "akia", "xox", "eyj")  # fmt: skip
_PROMPT = Pattern(r"""(?P<head>\b(?:prompt|text|content|input_text|query)['"]?\s*[:=]\s*)(?P<quote>['"])""")


def redact(text: str) -> str:
    """The line with credentials and quoted prompts replaced, cut at MAX_TEXT characters.

    A line that has neither comes back as it is, so that a citation equals what `sed -n` shows.
    """
    text = text[:MAX_TEXT]
    lower = text.lower()
    if any(map(lower.__contains__, _HINTS)):
        text = _SECRET.sub(lambda match: f"{match['head'] or ''}[redacted]", text)
    match = _PROMPT.search(text) if "'" in text or '"' in text else None
    while match is not None:
        end = closing_quote(text, match.end(), match["quote"])
        stop = len(text) if end is None else end
        kept = "[redacted]"
        text = text[: match.end()] + kept + text[stop:]
        match = _PROMPT.search(text, match.end() + len(kept))
    return text


def closing_quote(text: str, start: int, quote: str) -> int | None:
    """Where a quotation that began before `start` ends: an unescaped quote that no letter follows.

    An apostrophe inside a word ("don't") does not end it.
    """
    position = text.find(quote, start)
    while position >= 0:
        after = text[position + 1 : position + 2]
        slashes = len(text[:position]) - len(text[:position].rstrip("\\"))
        if slashes % 2 == 0 and not (after.isalnum() or after == "_"):
            return position
        position = text.find(quote, position + 1)
    return None
