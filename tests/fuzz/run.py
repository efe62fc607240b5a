"""One target in a process of its own, so that a hang or too much memory ends the process and no more than that.

    python -m tests.fuzz.run NAME FOLDER SECONDS      by coverage where atheris is installed, else by mutations alone
    python -m tests.fuzz.run all FOLDER quick         of every target the seeds, and a fixed number of mutations
    python -m tests.fuzz.run NAME FOLDER FILE         that input again

The last line on stdout counts the inputs. An input that is a finding lies in FOLDER as `crash-*`, `timeout-*` or `oom-*`
(atheris), or as `last-NAME` (which is removed where there was none).
"""

import faulthandler
import itertools
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from tests.fuzz.mutate import mutated

LIMIT_S = 20
"""Of an input: of processor time, and under atheris of the clock. The slowest take a tenth of a second."""
LIMIT_BYTES = 1 << 30
"""Resident, of the whole process."""
QUICK_INPUTS = 600
MAX_BYTES = 1 << 14
"""Of an input under atheris; what is large is tried elsewhere (`cli/test_bombs.py`, `logs/test_hostile.py`)."""
UNSEEN = ["oomctl.schemas.rows", "oomctl.schemas.events", "oomctl.cli"]
"""Not under test here: what looks at each row that comes out, and would take as long as the reader."""


class TooMuch(Exception):
    """An input after which the process holds more than it may."""


def main(name: str, folder: Path, how: str) -> int:
    """Run; a finding is an exception, or the end of the process."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        import atheris
    except ImportError:
        atheris = None
    if atheris is not None and how.isdecimal():
        _by_coverage(atheris, name, folder, how)
    from tests.fuzz.targets import TARGETS

    for target in TARGETS.values() if name == "all" else [TARGETS[name]]:
        last = folder / f"last-{target.name}"
        if Path(how).is_file():
            bounded(target.read, [Path(how).read_bytes()], last)
            continue
        seeds = list(target.seeds())
        changed = (mutated(seeds[number % len(seeds)], number, seeds) for number in itertools.count())
        if how == "quick":
            bounded(target.read, itertools.chain(seeds, itertools.islice(changed, QUICK_INPUTS // target.cost)), last)
        else:
            deadline = time.monotonic() + float(how)
            bounded(_timed(target.read), itertools.takewhile(partial(_in_time, deadline), changed), last)
    return 0


def _by_coverage(atheris: Any, name: str, folder: Path, seconds: str) -> NoReturn:
    """Inputs that reach something new are kept and changed on: by libFuzzer, and as often by our own changes.

    libFuzzer knows bytes; that digits may become a number which fits nowhere is known here.
    """
    with atheris.instrument_imports(include=["oomctl", "prometheus_client", "tomllib"], exclude=UNSEEN):
        from tests.fuzz.targets import TARGETS
    target = TARGETS[name]
    seeds = list(target.seeds())
    for number, seed in enumerate(seeds):
        (folder / f"seed-{number}").write_bytes(seed)

    def change(data: bytes, max_bytes: int, number: int) -> bytes:
        changed: bytes = atheris.Mutate(data, max_bytes) if number % 2 else mutated(data, number, seeds)
        return changed[:max_bytes]

    limits = [
        f"-timeout={LIMIT_S}",
        f"-rss_limit_mb={LIMIT_BYTES >> 20}",
        f"-max_total_time={seconds}",
        f"-max_len={MAX_BYTES}",
    ]
    told = ["-print_final_stats=1", f"-artifact_prefix={folder}/", "-verbosity=0"]
    atheris.Setup([sys.argv[0], str(folder), *limits, *told], _timed(target.read), custom_mutator=change)
    atheris.Fuzz()  # ends the process
    raise AssertionError


def _timed(read: Callable[[bytes], None]) -> Callable[[bytes], None]:
    """The same, which says whenever an input took more processor time than all before it."""
    slowest_s = 0.0

    def timed(data: bytes) -> None:
        nonlocal slowest_s
        begun_s = time.process_time()
        read(data)
        if (took_s := time.process_time() - begun_s) > slowest_s:
            slowest_s = took_s
            print(f"slowest {1000 * took_s:.0f} ms, of {len(data)} bytes", flush=True)

    return timed


def _in_time(deadline: float, data: bytes) -> bool:
    return time.monotonic() < deadline


def bounded(read: Callable[[bytes], None], inputs: Iterable[bytes], last: Path) -> None:
    """Give a reader one input after the other, each within its limits; the one that it reads lies in `last`."""
    # In C, so that it also ends a regular expression that never does: the stack is printed, then the process ends.
    faulthandler.register(signal.SIGVTALRM, chain=True)
    count = 0
    for data in inputs:
        last.write_bytes(data)
        signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT_S)
        read(data)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        count += 1
        held = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        if held > LIMIT_BYTES:
            raise TooMuch(f"{held >> 20} MiB after input {count}")
    last.unlink(missing_ok=True)
    print(f"{count} inputs, {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MiB")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3]))
