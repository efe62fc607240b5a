"""What may not be kept of a log line: credentials, and what users wrote."""

import re

from oomctl.collectors.artifacts.logs.pattern import Pattern

MAX_TEXT = 8192
"""Characters of a line that are kept; one traceback message fits, an echoed document does not."""

_SECRET = Pattern(
    # A name and its value, long enough that no count or word is taken for one: api_key=..., Authorization: Bearer ...
    r"(?P<head>(?i:authorization|api[-_]?keys?|access[-_]?key|secret|token)"
    r"(?:[\\\"']*\s*[=:]\s*[\[\\\"']*)(?i:bearer\s+|basic\s+)?)[A-Za-z0-9+/_.~-]{12,}=*"
    # Names that stand for nothing else, whatever the value: password=..., HF_TOKEN=..., --api-key ...
    r"|(?P<named>(?:(?i:password|passwd|passphrase)|(?<=[A-Z_])(?:SECRET|PWD"
    r"|(?:API|ACCESS|PRIVATE)_?KEY|TOKEN)(?![\\\"']*\s*[=:]\s*[\\\"']*\d{1,9}\b))"
    r"[\\\"']*\s*[=:]\s*[\\\"']*)(?:(?<=[\"'])[^\\\"'\[][^\\\"']{0,300}|[^\s\\\"',;(){}\[\]]+)"
    r"|(?P<flag>--[a-z-]{0,40}(?:api-keys?|token|password|secret)[ =])(?!\d{1,9}\b)[^\s\\\"'\[-][^\s\\\"']{3,}"
    r"|(?P<url>://[^/\s:@]{0,100}:)[^/\s@]{1,300}(?=@)"
    r"|(?P<scheme>\b(?i:bearer)\s+)[A-Za-z0-9+/_.~-]{16,}=*"
    r"|(?P<begin>-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----)(?!\[redacted\])(?:(?!-----END).){1,8192}"
    r"|\b(?:hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|A[KS]IA[0-9A-Z]{16}"
    r"|xox[abpr]-[A-Za-z0-9-]{10,}|AIza[\w-]{30,}|glpat-[\w-]{16,}|nvapi-[\w-]{20,}|npm_[A-Za-z0-9]{30,}|gsk_\w{20,}"
    r"|dckr_pat_[\w-]{20,}|ya29\.[\w-]{20,}|eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{5,})"
)
_KEPT = ("head", "named", "flag", "url", "scheme", "begin")
"""What stands before a secret and stays: the name of it."""
_HINTS = (
    "key", "secret", "passw", "passp", "_pwd", "token=", "token:", "token\"", "token'", "token\\", "token ",
    "authorization", "bearer", "hf_", "sk-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat", "akia", "asia", "xox",
    "eyj", "aiza", "glpat", "nvapi", "npm_", "gsk_", "dckr_pat", "ya29", "@",
)  # fmt: skip
_COUNT = Pattern(r"(?:#[a-z-]{0,40}|(?<![\w-]))token(?: usage)?: [\d.]{1,9}(?=,? |,?$)")
"""A count of tokens, in lower case, which every batch of SGLang's prints: too short for a secret, and no flag."""
_KEY_LINE = Pattern(r"\s*(?![0-9a-f]{64}\s*$)[A-Za-z0-9+/]{64}\s*$")
"""A line of a private key in PEM form (RFC 7468), which stands alone; a checksum in hex does not count."""
_PROMPT = Pattern(
    r"""\b(?:prompts?|text|content|inputs?|input_text|query|question|instructions?)\\*['"]?\s*[:=]\s*(?P<list>\[\s*)?(?P<quote>\\*['"])"""
)
_NEXT = Pattern(r"""\s*,\s*(\\*['"])""")
_REDACTED = "[redacted]"


def redact(text: str) -> str:
    """The line with credentials and quoted prompts replaced, cut at MAX_TEXT characters.

    A line that has neither comes back as it is, so that a citation equals what `sed -n` shows.
    """
    text = text[:MAX_TEXT]
    if _KEY_LINE.match(text):
        return _REDACTED
    lower = text.lower()
    if "token" in lower:
        lower = _COUNT.sub(_nothing, lower)
    if any(map(lower.__contains__, _HINTS)):
        text = _SECRET.sub(_without, text)
    match = _PROMPT.search(text) if "'" in text or '"' in text else None
    while match is not None:
        quote = match["quote"]
        end = _closing(text, match.end(), quote, listed=match["list"] is not None)
        text = text[: match.end()] + _REDACTED + ("" if end is None else quote + text[end:])
        match = _PROMPT.search(text, match.end() + len(_REDACTED))
    return text


def _nothing(_: re.Match[str]) -> str:
    return ","


def _without(match: re.Match[str]) -> str:
    return next((match[name] for name in _KEPT if match[name]), "") + _REDACTED


def _closing(text: str, start: int, quote: str, *, listed: bool) -> int | None:
    """Where the text after a quotation begins, or after the last one of a list of them; None where it is cut off."""
    while True:
        end = closing_quote(text, start, quote)
        if end is None:
            return None
        following = _NEXT.match(text, end + 1) if listed else None
        if following is None:
            return end + 1
        start, quote = following.end(), following[1]


def closing_quote(text: str, start: int, quote: str) -> int | None:
    """Where a quotation that began before `start` ends: its quote, escaped as the opening one was, that no letter follows.

    An apostrophe inside a word ("don't") does not end it.

    Args:
        text: The line.
        start: Behind the opening quote.
        quote: The opening quote, with the backslashes before it.

    Returns:
        The position of the closing quote's last character.
    """
    position = text.find(quote[-1], start)
    while position >= 0:
        after = text[position + 1 : position + 2]
        slashes = 0
        while position > slashes and text[position - slashes - 1] == "\\":
            slashes += 1
        ours = slashes == len(quote) - 1 if len(quote) > 1 else slashes % 2 == 0
        if ours and not (after.isalnum() or after == "_"):
            return position
        position = text.find(quote[-1], position + 1)
    return None
