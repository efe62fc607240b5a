"""An exception of the engine, as rows: was it for memory, what did it say, where did it happen."""

import itertools
import linecache
import os
from types import TracebackType

from oomctl.collectors.agent.kinds import FAULT, OOM, RESOURCES, STACK
from oomctl.collectors.agent.layout import NULL_U8, pack_texts
from oomctl.collectors.agent.memory import address_space_left
from oomctl.collectors.agent.ring import Ring

MAX_FRAMES = 48
MAX_MESSAGE = 8000

_SIGNS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("device", "torch", ("cuda out of memory", "hip out of memory", "xpu out of memory", "npu out of memory")),
    ("device", "cublas", ("cublas_status_alloc_failed", "cudnn_status_alloc_failed", "cusolver_status_alloc_failed")),
    ("device", "cuda", ("out of memory",)),
    ("host", "cpu_allocator", ("can't allocate memory", "not enough memory", "aligned_alloc failed")),
    ("host", "libc", ("cannot allocate memory", "bad_alloc", "unable to mmap", "unable to allocate")),
)
_DOUBTFUL = ("could not create a primitive", "could not create a memory")
"""oneDNN says no more than that where it found no memory; it is believed only while little address space is left."""
TIGHT_BYTES = 256 << 20

_numbers = itertools.count(1)
_last: tuple[int, str] | None = None
"""What was recorded last, without holding on to it: an exception keeps all tensors of its frames alive."""


def record(ring: Ring, error: BaseException, *, fatal: bool, requests: int = 0) -> None:
    """Write the stack, then an `oom` row where it was for memory, else a `fault` row.

    Args:
        ring: Of the thread that caught it.
        error: As caught; of a chain, the first that was for memory is taken.
        fatal: Whether the engine is known to die of it.
        requests: In the failing batch; 0 where there was none.
    """
    global _last
    root = next((one for one in _chain(error) if resource_of(one) is not None), error)
    _last = id(root), headline(root)
    stack_id = f"{os.getpid()}-{next(_numbers)}"
    for depth, (file, line, function, code) in enumerate(_frames(root.__traceback__)):
        ring.write(STACK, pack_texts(stack_id, file, function, code), depth, line)
    found = resource_of(root)
    told = int(fatal) if fatal else NULL_U8
    if found is None:
        ring.write(FAULT, pack_texts("exception", headline(root), stack_id), told)
        return
    resource, api = found
    tail = pack_texts(api, _name(root), str(root)[:MAX_MESSAGE], stack_id)
    ring.write(OOM, tail, RESOURCES.index(resource), told, requests, *OOM.nulls[3:])


def is_recorded(error: BaseException) -> bool:
    """Whether it, or what it follows from, is what was recorded last in this process."""
    return any((id(link), headline(link)) == _last for link in _chain(error))


def headline(error: BaseException) -> str:
    """Its type and message, as a traceback ends with."""
    return f"{_name(error)}: {str(error)[:MAX_MESSAGE]}"


def _name(error: BaseException) -> str:
    return f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")


def resource_of(error: BaseException) -> tuple[str, str] | None:
    """(resource, api) of an exception that is for memory; None of any other."""
    if isinstance(error, MemoryError):
        return "host", "python"
    text = str(error).lower()
    for resource, api, signs in _SIGNS:
        if any(map(text.__contains__, signs)):
            return resource, api
    if type(error).__name__ == "OutOfMemoryError":
        return "device", "torch"
    if any(map(text.__contains__, _DOUBTFUL)):
        left = address_space_left()
        if left is not None and left < TIGHT_BYTES:
            return "host", "onednn"
    return None


def _chain(error: BaseException) -> list[BaseException]:
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in chain and len(chain) < 8:
        chain.append(link)
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    return chain


def _frames(trace: TracebackType | None) -> list[tuple[str, int, str, str | None]]:
    """(file, line, function, source line) of each frame, outermost first; of a deep stack the innermost ones."""
    frames = []
    while trace is not None:
        code = trace.tb_frame.f_code
        frames.append((code.co_filename, trace.tb_lineno, code.co_name))
        trace = trace.tb_next
    return [(*frame, linecache.getline(frame[0], frame[1]).strip() or None) for frame in frames[-MAX_FRAMES:]]
