"""What goes wrong, each as a context: it is wrong inside, and right again behind it."""

import contextlib
import resource
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.soak.bench import Bench

JUMP_S = 3600.0


def faults(bench: Bench) -> dict[str, Callable[[], contextlib.AbstractContextManager[None]]]:
    """Name to what is wrong while it is entered."""

    @contextmanager
    def killed() -> Iterator[None]:
        def soon() -> None:
            time.sleep(0.5)  # in the middle of the load
            bench.kill()

        thread = threading.Thread(target=soon)
        thread.start()
        yield
        thread.join()

    @contextmanager
    def full() -> Iterator[None]:
        with _full(bench):
            yield

    @contextmanager
    def clock() -> Iterator[None]:
        bench.clock.write_text(str(JUMP_S))
        yield
        bench.clock.write_text("0")

    @contextmanager
    def page(mode: str) -> Iterator[None]:
        bench.page.mode = mode
        yield
        bench.page.mode = "pass"

    @contextmanager
    def wire(mode: str) -> Iterator[None]:
        bench.wire.mode = mode
        yield
        bench.wire.mode = "pass"

    return {
        "the recorder is killed": killed,
        "the disk is full": full,
        "the clock jumps an hour and back": clock,
        "the page of metrics hangs": lambda: page("hang"),
        "it is garbage": lambda: page("garbage"),
        "it has 100 MB": lambda: page("huge"),
        "KV events are dropped, and replayed": lambda: wire("drop"),
        "KV events are lost": lambda: wire("lose"),
        "messages that are no KV events": lambda: wire("garbage"),
    }


@contextmanager
def _full(bench: Bench) -> Iterator[None]:
    """A file takes the rest of the small disk; where none could be mounted, the recorder's files may not grow."""
    if bench.mounted:
        ballast = bench.root.parent / "ballast"
        with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 16))
        yield
        ballast.unlink()
        return
    before = resource.prlimit(bench.recorder.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(bench.recorder.pid, resource.RLIMIT_FSIZE, (1, before[1]))
    yield
    resource.prlimit(bench.recorder.pid, resource.RLIMIT_FSIZE, before)
