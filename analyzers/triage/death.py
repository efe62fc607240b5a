"""Engines that died of something that has nothing to do with memory, as far as the log shows."""

import re

from oomctl.analyzers.triage.evidence import EvidenceRow

NOT_MEMORY = 0.7
"""Confidence that an exception without any word of memory is none of memory."""
_STOPPED = re.compile(r"^(?:KeyboardInterrupt|SystemExit|GeneratorExit|(?:\w+\.)*CancelledError)\b")
"""Somebody stopped it."""
_MAYBE_MEMORY = re.compile(
    r"(?i)memor|alloc|\bout of\b|\bOOM\b|[hnr]ccl|cuda ?\w* ?error|cuda failure|CUDA_ERROR|cublas|cudnn|\bhip ?error"
    r"|\bnpu\b|level_zero|device|driver|connection|broken pipe|socket|\beof\b|\bdied\b|died ?error|killed|signal"
    r"|timed? ?out|core dumped|segmentation"
    r"|\b(?:executor|workers?|child process|subprocess)\b[^.\n]{0,40}\b(?:failed|exited|crashed|terminated)\b"
)
"""Words of what also follows when memory runs out somewhere else: a peer is gone, a device does not answer."""
_ANOTHER = re.compile(
    r"(?i)address already in use|\bEADDRINUSE\b|permission denied|name or service not known|failure in name resolution"
    r"|certificate verify failed"
)
"""Reasons of their own, though sockets or devices are spoken of."""


def told(row: EvidenceRow) -> bool:
    """Whether the row names a reason that is none of memory."""
    if row["what"] != "death" or row["name"] != "exception":
        return False
    message = row["message"] or ""
    return row["reason"] is not None or _ANOTHER.search(message) is not None or _MAYBE_MEMORY.search(message) is None


def stated(row: EvidenceRow) -> list[EvidenceRow]:
    """The row in which a collective's library states the reason."""
    return [] if row["reason"] is None else [{**row, "seq": row["reason_seq"], "line": row["reason_line"]}]


def stopped(row: EvidenceRow) -> bool:
    """Whether the engine was stopped rather than died."""
    return _STOPPED.match(row["message"] or "") is not None


def reason(row: EvidenceRow) -> str:
    """The first line of what it died of."""
    text = (row["message"] or "").strip().partition("\n")[0].strip()
    if row["reason"] is not None:
        text = f"{row['reason'].strip()}: {text}"
    return text if len(text) <= 200 else f"{text[:197]}..."
