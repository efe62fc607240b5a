"""From the block hashes of prompts, as files spell them, to ids that are unique over a trace."""

import hashlib
from typing import Literal

import numpy as np
import numpy.typing as npt

from oomctl.schemas.errors import OomctlError
from oomctl.schemas.trace import Finding, Prefixes

USUAL_BLOCK_TOKENS = tuple(2**power for power in range(13))
SPARSE = 4
"""Ids that reach beyond so many times their number are renumbered: an array indexed by id would be mostly empty."""
_PLAIN = b"0123456789, \t\r\n"
_TOP = 2**63 - 1

Hashes = npt.NDArray[np.int64]
Counts = npt.NDArray[np.int64]


def parse_hashes(text: bytes) -> Hashes:
    """The hashes of one prompt as integers.

    Args:
        text: A JSON array of integers or texts; what is no natural number of 63 bits is hashed to one.
    """
    array = text.strip()
    inner = array[1:-1]
    if not array.startswith(b"[") or not inner or inner.isspace():
        return np.empty(0, dtype=np.int64)
    if not inner.translate(None, _PLAIN):
        hashes = np.fromstring(inner, dtype=np.int64, sep=",")
        if hashes.max() < _TOP:  # where numpy stops at what is larger
            return hashes
    digests = (hashlib.blake2b(part.strip(), digest_size=8).digest() for part in inner.split(b","))
    return np.frombuffer(b"".join(digests), dtype=np.int64) & _TOP


class BlockIds:
    """Collects the blocks of prompts, request by request."""

    def __init__(self) -> None:
        self._parts: list[npt.NDArray[np.integer]] = []
        self._counts: list[int] = []
        self._base = 0
        self._next_base = 0

    def add(self, hashes: Hashes | None) -> None:
        """The blocks of the next request, in the current scope."""
        if hashes is None or not len(hashes):
            self._counts.append(0)
            return
        self._counts.append(len(hashes))
        highest = int(hashes.max()) + self._base
        self._next_base = max(self._next_base, highest + 1)
        if self._base:
            hashes = hashes + self._base
        self._parts.append(hashes.astype(np.int32) if highest < 2**31 else hashes)

    def new_scope(self) -> None:
        """From here on equal hashes are other blocks than before."""
        self._base = self._next_base

    def finish(self, prompt_tokens: Counts, block_tokens: int | None) -> tuple[Prefixes | None, int]:
        """All blocks, and the number of requests whose blocks do not cover their prompt.

        Args:
            prompt_tokens: int64, shape (requests,).
            block_tokens: As the file tells it, else None.

        Returns:
            No prefixes where no request has a block.
        """
        if not self._parts:
            return None, 0
        counts = np.array(self._counts, dtype=np.int64)
        parts, self._parts = self._parts, []
        ids = np.concatenate(parts)
        limit = self._next_base
        if limit > SPARSE * len(ids) + 2**20:
            distinct, ids = np.unique(ids, return_inverse=True)
            limit = len(distinct)
        if limit >= 2**31:
            raise OomctlError("more than 2^31 distinct blocks", "cut the trace into parts")
        size, rounding, odd = block_convention(prompt_tokens, counts, block_tokens)
        offsets = np.concatenate(([0], np.cumsum(counts)))
        return Prefixes(ids.astype(np.int32, copy=False), offsets, limit, size, rounding), odd


def odd_blocks(count: int) -> list[Finding]:
    """What is to be said of requests whose blocks do not cover their prompt.

    Args:
        count: How many, as `BlockIds.finish` tells.
    """
    text = f"{count:,} requests have more or fewer blocks than their prompt fills: hits count at most its tokens."
    return [Finding("odd_blocks", count, text)] if count else []


def block_convention(
    prompt_tokens: Counts, counts: Counts, block_tokens: int | None
) -> tuple[int, Literal["ceil", "floor"], int]:
    """The size of a block and what becomes of the last, partly filled one, that most requests agree with.

    A file's own words are no guide: the description of Mooncake's traces says `input_length // block_size` where the
    files have one block more.

    Args:
        prompt_tokens: int64, shape (requests,).
        counts: Blocks of each, same shape.
        block_tokens: As the file tells it; else usual sizes and the mean of this trace are tried.

    Returns:
        Tokens of a block, rounding, and how many requests have another number of blocks than these say.
    """
    known = counts > 0
    tokens, blocks = prompt_tokens[known], counts[known]
    sizes = [block_tokens] if block_tokens else [*USUAL_BLOCK_TOKENS, round(float(np.median(tokens / blocks)))]
    best: tuple[int, Literal["ceil", "floor"], int] = (sizes[0], "ceil", len(tokens) + 1)
    for size in sizes:
        for rounding, expected in (("ceil", -(-tokens // max(size, 1))), ("floor", tokens // max(size, 1))):
            odd = int((expected != blocks).sum())
            if odd < best[2]:
                best = (max(size, 1), "ceil" if rounding == "ceil" else "floor", odd)
    return best
