"""Whether an error line says a failure itself, or repeats what somebody wrote.

A server that cannot parse, render or accept a request prints the request, at ERROR and with an exception of its own. What
stands in it is text, whatever it says of memory.
"""

from oomctl.collectors.artifacts.logs.pattern import Pattern

_FAILURE = Pattern(
    r"(?<![\w.])[\w.]*OutOfMemory\w*|(?:RuntimeError: )?\b(?:CUDA|HIP|XPU|NPU|MPS|Triton)\b[^\n]{0,60}?out of memory"
    r"|[Oo]ut of memory|Tried to allocate|(?<![\w.])[\w.]*MemoryError\b|\[Errno 12\]|annot allocate memory"
    r"|can't allocate memory|[Nn]ode (?:running|(?:has |was )?r[au]n) low on memory|[Mm]emory on the node\b"
)
_ECHOES = Pattern(
    r"(?i)\b(?:prompts?|contents?|messages?|responses?|bod(?:y|ies)|query|inputs?|text|tool calls?|user|chat|bad request"
    r"|truncating|rendering|render|parsing|parse|preprocessing|expecting value|you requested)\b|[\u00ab\u201c\u201e\u2018`]"
)
LOOK_BACK = 400


def repeats(message: str) -> bool:
    """Whether the failure that a message names stands behind words that announce somebody's text."""
    found = _FAILURE.search(message)
    if found is None or found.start() == 0:
        return False
    return _ECHOES.search(message[max(found.start() - LOOK_BACK, 0) : found.start()]) is not None
