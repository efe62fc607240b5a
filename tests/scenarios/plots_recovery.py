"""Plots of workers that come back: after a restart, from sleep, with new weights."""

from tests.scenarios import facts
from tests.scenarios.entries import Background
from tests.scenarios.message import Neighbour
from tests.scenarios.plots_start import start_gate
from tests.scenarios.printing import fixed
from tests.scenarios.writer import Writer


def _first_life(w: Writer) -> int:
    """The worker serves, is told to stop, and one of its processes stays.

    Returns:
        The pid of the process that stays.
    """
    f = w.figures
    w.up()
    w.report(220, 4)
    w.say("INFO:     Shutting down", facts.lifecycle("stopped", "Shutting down"), process="api", level="")
    w.say("Shutdown initiated (timeout=0)", where="core.py:1104")
    stays = f.pid("worker" if f.ranks > 1 else "core")
    w.restart()
    return stays


def orphan_load(w: Writer) -> None:
    """A process of the earlier incarnation still holds the device while the next one loads."""
    f = w.figures
    pid = _first_life(w)
    w.start()
    w.load()
    w.fill(Background(serving=False))
    w.wait(5, 20)
    orphan = Neighbour(pid, f.share(0.55, 0.75), "1")
    w.fail("create_weights", f.shortage((0.003, 0.012), (0.05, 0.7), (0.02, 0.3), neighbours=(orphan,)))


def orphan_gate(w: Writer) -> None:
    """As `orphan_load`, but the free-memory check at start refuses before anything fails."""
    pid = _first_life(w)
    start_gate(w, pid)


def _sleep(w: Writer) -> None:
    freed, kept = fixed(w.figures.share(0.6, 0.7)), fixed(w.figures.share(0.01, 0.02))
    text = f"Sleep mode freed {freed.text} memory, {kept.text} memory is still in use."
    for rank in range(w.figures.ranks):
        w.say(text, facts.lifecycle("sleeping", text), process="worker", where="gpu_worker.py:144", rank=rank)
    w.wait(3, 5)
    w.say("It took 3.152677 seconds to fall asleep.", where="abstract.py:306")
    w.wait(60, 300)


def wake_up(w: Writer) -> None:
    """The engine slept; what it gave back is gone when it wakes."""
    w.up()
    w.fill(Background())
    w.report(200, 3)
    _sleep(w)
    w.fail("wake", "RuntimeError: CUDA Error: out of memory at /opt/build/csrc/cumem_allocator.cpp:139")


def update_weights(w: Writer) -> None:
    """New weights are staged beside the old ones on a full device."""
    w.up()
    w.fill(Background())
    w.report(240, 5)
    w.reload()
    w.wait(1, 3)
    w.fail("update_weights", w.figures.shortage((0.01, 0.04), (0.1, 0.8), (0.05, 0.5), pools=True))
