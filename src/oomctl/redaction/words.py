"""Which words are public: those that the source code of open-source engines, and our own rules, are made of."""

import re
from functools import cache
from importlib.resources import files

_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_GROUP = re.compile(r"[A-Za-z]+|\d+")
_FORMAT = re.compile(r"e|m|w|a|g|q|k|fp|bf|int|fn|fnuz|tp|pp|dp|ep|cp|sm|cu|rc|dev|post|t|z")
"""Letters that stand between the digits of formats, devices and versions: `e4m3fn`, `w8a16`, `sm90a`, `1rc2`."""
MAX_GROUPS = 3
"""Of letters and digits in turn; more are an id, unless they are a format's."""


@cache
def public_words() -> frozenset[str]:
    """The list, in lower case; `python -m tests.public_words` makes it."""
    return frozenset((files("oomctl.redaction") / "public_words.txt").read_text(encoding="utf-8").split())


@cache
def is_public(token: str) -> bool:
    """Whether an identifier is made of public words: of letters, digits and underscores."""
    return token.isascii() and all(_is_public(part) for part in token.split("_"))


def _is_public(part: str) -> bool:
    if part.startswith("0x") or part.isdecimal():
        return True
    groups = _GROUP.findall(part)
    if len(groups) > MAX_GROUPS:
        return all(group.isdecimal() or _FORMAT.fullmatch(group.lower()) for group in groups)
    known = public_words()
    return all(len(word) < 3 or word.lower() in known for word in _PART.findall(part))
