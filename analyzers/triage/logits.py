"""A failed size that equals sequences x vocabulary x bytes, as the allocator rounds, is logits or sampler memory.

It is said only where both factors are cited from the log; a size alone fits many products.
"""

import re

import msgspec

from oomctl.analyzers.allocator.rules import asked_bytes
from oomctl.analyzers.triage.case import Case
from oomctl.analyzers.triage.evidence import EvidenceRow, cite
from oomctl.schemas.numbers import whole
from oomctl.schemas.verdict import Cause

MIB = 2**20
GIB = 2**30
_DUMMY = re.compile(r"with (\d+) dummy requests")


def explain(case: Case, cause: Cause) -> Cause:
    """The cause with the product in its detail and both factors among its citations, where the arithmetic holds."""
    requested = case.figures["requested_bytes"]
    vocabulary = case.argument("vocab_rows", "vocab_size")
    if requested is None or vocabulary is None or whole(vocabulary["value"]) is None:
        return cause
    rows, tolerance = int(vocabulary["value"]), _print_resolution(requested, case.figures["resolution_bytes"])
    for count, source in _sequences(case):
        for width in (4, 2):
            if abs(asked_bytes(count * rows * width) - requested) <= tolerance:
                detail = f"{cause.detail}; the size is {count} x {rows} x {width} bytes (sequences x vocabulary x element)"
                cites = (*cause.cites, *cite([source, vocabulary]))
                return msgspec.structs.replace(cause, detail=detail, cites=cites)
    return cause


def _print_resolution(requested_bytes: int, least_exact: int | None) -> int:
    """How far a size may be off: PyTorch prints two decimals of the largest unit below it.

    Args:
        requested_bytes: The size.
        least_exact: The coarser resolution of requested and free; None where the figures are exact, which gives 0.
    """
    if least_exact is None:
        return 0
    return min(least_exact, round(0.005 * (GIB if requested_bytes >= GIB else MIB)) + 1)


def _sequences(case: Case) -> list[tuple[int, EvidenceRow]]:
    """Counts of sequences that the log names, each with the row that names it."""
    found: list[tuple[int, EvidenceRow]] = []
    for member in case.members:
        match = _DUMMY.search(member.get("message") or "")
        if match is not None:
            found.append((int(match[1]), member))
    for key in ("max_num_seqs", "max_running_requests", "max_num_batched_tokens", "chunked_prefill_size"):
        row = case.argument(key)
        if row is not None and (count := whole(row["value"])) is not None:
            found.append((count, row))
    for batch in case.ask("batch")[:3]:
        if batch["prefill_tokens"]:
            found.append((int(batch["prefill_tokens"]), batch))
    return found
