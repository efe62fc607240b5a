"""Versions of engines, as far as ranges of them need it: releases in order, whatever follows the numbers left out."""

import re

Version = tuple[int, ...]

_NUMBERS = re.compile(r"[vb]?(\d{1,9}(?:\.\d{1,9}){0,5})")


def parse(text: str | None) -> Version | None:
    """The release numbers of a version; None where it has none.

    Release candidates, development builds and local parts count as the release they lead to or come from:
    "0.14.0rc1", "v0.14" and "0.14.0.post1+cu129" are 0.14.0; llama.cpp's "b8241" is the build number.
    """
    match = _NUMBERS.match(text or "")
    if match is None:
        return None
    numbers = [int(part) for part in match[1].split(".")]
    while len(numbers) > 1 and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


def within(version: Version | None, since: str | None, until: str | None) -> bool:
    """Whether a version lies in a range, its ends included; an unknown version counts as the newest."""
    first, last = parse(since), parse(until)
    if version is None:
        return last is None
    return (first is None or first <= version) and (last is None or version <= last)
