"""Memory that was needed once, back to the system."""

import ctypes
import gc
from contextlib import suppress


def give_back() -> None:
    """Free what is garbage, and have malloc return the pages that are free in its heaps.

    glibc keeps them, in a heap for each thread that runs at the same time (mallopt(3)); other libraries have no such call.
    """
    gc.collect()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
