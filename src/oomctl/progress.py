"""A note on a terminal while reading takes long: which input, and how much of it. Nothing where stderr is no terminal."""

import io
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from oomctl.cli.render.text import cut, escape
from oomctl.cli.render.words import human

AFTER_S = 2.0
EVERY_S = 0.5
WIDTH = 79

Watch = Callable[[str, io.BufferedReader], None]
"""To be called with each file that is read now, and its name."""


@contextmanager
def noted() -> Iterator[Watch]:
    """Says what is read now, once it has taken two seconds, and wipes that out at the end."""
    now: list[tuple[str, io.BufferedReader]] = []
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda name, file: None
        return
    done = threading.Event()
    teller = threading.Thread(target=_tell, args=(now, done), daemon=True)
    teller.start()
    try:
        yield lambda name, file: now.__setitem__(slice(None), [(name, file)])
    finally:
        done.set()
        teller.join()


def _tell(now: list[tuple[str, io.BufferedReader]], done: threading.Event) -> None:
    wait, told = AFTER_S, False
    while not done.wait(wait):
        wait = EVERY_S
        if now:
            told = True
            _write(f"\r{cut(_line(*now[0]), WIDTH).ljust(WIDTH)}")
    if told:
        _write(f"\r{'':{WIDTH}}\r")


def _line(name: str, file: io.BufferedReader) -> str:
    amount = ""
    with suppress(OSError, ValueError):  # a pipe has no position, and a file may just have been closed
        position, size = os.lseek(file.fileno(), 0, os.SEEK_CUR), os.fstat(file.fileno()).st_size
        amount = f", {human(position)} of {human(size)}" if size else ""
    return f"oomctl: reading {escape(name)}{amount}"


def _write(text: str) -> None:
    with suppress(OSError, ValueError):
        sys.stderr.write(text)
        sys.stderr.flush()
