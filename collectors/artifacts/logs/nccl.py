"""Why a collective failed, as NCCL and RCCL state it: in a WARN line of their own, or in the exception that follows.

Most of what they report has nothing to do with memory, though the words around it may. Only the stated reason counts.

Source of the texts: NCCL's src/init.cc (ncclGetErrorString), include/alloc.h, misc/shmutils.cc; PyTorch's NCCLUtils.hpp
adds "Last error:" from ncclGetLastError.
"""

import re
from dataclasses import dataclass

from oomctl.collectors.artifacts.logs.fact import Fact
from oomctl.collectors.artifacts.logs.pattern import Pattern
from oomctl.collectors.artifacts.logs.system import peer_lost

WARNS = "CCL WARN"
"""A text that each of their warnings holds."""
_WARNING = Pattern(r"\b[NR]CCL WARN:? ?([^\n]*)")
_FAILED = Pattern(r"\b[NR]CCL (?:[Ee]rror|failure)\b|\bnccl\w{2,40}Error\b|\bNcclError\b|\bDistBackendError\b")
_LAST = Pattern(r"\bLast error: *\n? *([^\n]+)")
_RESULT = Pattern(r"\b[NR]CCL (?:[Ee]rror|failure)(?: \d{1,4})?(?: in:? [^,\n]{1,500},)?[: ]{0,3}([^\n,(]*)")
_STATED = Pattern(r"invalid (?:usage|argument)")
"""Results that are a reason by themselves; the others ("unhandled cuda error") only say whose call failed."""

_DEVICE = Pattern(
    r"(?i)\b(?:cu|cuda|hip|rocm)\w{0,20}(?: driver| runtime)? (?:failure|error)(?: \d{1,4})?[ :]{0,3}'?out of memory"
    r"|^\W{0,3}out of memory"
    r"|\bfailed to (?:cuda|hip) (?:[cm]alloc\w{0,20})(?: async)?(?: (\d{1,18}) bytes)?"
)
_SHARED = Pattern(
    r"(?i)(?:\bshm\b|shared memory|/dev/shm|posix_fallocate|ftruncate)[^\n]{0,300}no space left on device"
    r"|error while creating shared memory segment (?![^\n]{0,300}(?:denied|permitted|exists|no such|invalid))"
    r"(?:[^\n(]{0,200}\(size (\d{1,18})\))?"
    r"|failed to extend /dev/shm/\S{1,200} to (\d{1,18}) bytes"
)
_HOST = Pattern(
    r"(?i)cannot allocate memory|\bENOMEM\b"
    r"|\bfailed to (?:(?:cuda|hip) host )?(?:m?alloc\w{0,20}|posix_memalign)\b(?: (\d{1,18}))?"
    r"|\bcall to (?:malloc|calloc|posix_memalign) failed"
)


@dataclass(frozen=True)
class Reason:
    """Why a collective failed.

    Attributes:
        text: As stated; "" where only whose call failed is told.
        resource: What was short: device or host; None where it was no memory, or nothing is stated.
        api: Who would not give it: nccl, or shm for the host's shared memory.
        requested_bytes: How much was asked for, where it is printed.
    """

    text: str
    resource: str | None = None
    api: str = "nccl"
    requested_bytes: int | None = None


def reason(error_type: str, message: str) -> Reason | None:
    """The reason that a failed collective, or a warning of its library, states.

    Args:
        error_type: Exception type as printed, or "" for a bare line.
        message: Its message, with the lines that follow it.

    Returns:
        None where it is the failure of no collective.
    """
    head = f"{error_type}: {message}".partition("\n")[0]
    if WARNS not in head and _FAILED.search(head) is None:
        return None
    texts = [match[1] for match in _WARNING.finditer(message)] + [match[1] for match in _LAST.finditer(message)]
    result = _RESULT.search(head)
    if result is not None and (not texts or _resource(result[1]) is not None):
        texts.insert(0, result[1])
        if _STATED.search(result[1]) is None and _resource(result[1]) is None:
            return Reason("")
    known = [_resource(text) for text in texts]
    short = next((found for found in known if found is not None), None)
    return short or Reason(texts[0].strip()[:500] if texts else "")


def shortage(error_type: str, stated: Reason, message: str) -> Fact | None:
    """The oom row of a collective that failed for want of memory."""
    if stated.resource is None:
        return None
    fields: dict[str, object] = {"resource": stated.resource, "api": stated.api, "message": message[:2000]}
    if error_type:
        fields["error_type"] = error_type
    if stated.requested_bytes is not None:
        fields["requested_bytes"] = stated.requested_bytes
    return Fact("oom", fields)


def stated(error_type: str, message: str) -> list[Fact]:
    """The reason of a failed collective that is none of memory: alone it says nothing, as the library may go on."""
    found = reason(error_type, message)
    if found is None or found.resource is not None or not found.text or peer_lost(error_type, message) is not None:
        return []
    return [Fact("fault", {"code": "collective_failed", "detail": found.text, "fatal": False})]


def _resource(text: str) -> Reason | None:
    """What a reason says was short."""
    for pattern, resource, api in ((_DEVICE, "device", "nccl"), (_SHARED, "host", "shm"), (_HOST, "host", "nccl")):
        match = pattern.search(text)
        if match is not None:
            return Reason(text.strip()[:500], resource, api, _amount(match))
    return None


def _amount(match: re.Match[str]) -> int | None:
    amount = next((group for group in match.groups() if group), None)
    return int(amount) if amount is not None else None
