"""`make soak`: faults, one after the other, each beside a quiet window of the same load; then what came of all of them.

    python -m tests.soak ENGINE [--minutes 8]

Prints three tables and exits with 1 where a fault was not survived, an event is neither recorded nor declared lost, memory
or handles grew, or it is not sure that the engine was not slowed down.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.soak.accounts import accounts
from tests.soak.bench import Bench
from tests.soak.faults import faults
from tests.soak.tables import Fault, show


def run(bench: Bench, minutes: float) -> list[Fault]:
    """Each fault in pairs with quiet windows, in turns before and behind it, until the time is over; at least once."""
    found = {name: Fault(name) for name in faults(bench)}
    deadline, number = time.monotonic() + minutes * 60, 0
    for wishes in bench.pair():  # warms up
        bench.window(wishes)
    while number == 0 or time.monotonic() < deadline:
        for place, (name, wrong) in enumerate(faults(bench).items()):
            if number and time.monotonic() > deadline:
                break
            fault = found[name]
            one, other = bench.pair()
            quiet_first = (number + place) % 2 == 0
            quiet = bench.window(one) if quiet_first else None
            with wrong():
                harmed = bench.window(other)
            fault.times += 1
            fault.survived += bench.lives()
            quiet = quiet or bench.window(one)
            bench.measure()
            fault.costs.append(harmed.cpu_us_per_token / quiet.cpu_us_per_token)
            fault.speeds.append(harmed.tokens_per_s / quiet.tokens_per_s)
        number += 1
    last = Fault("the worker is killed, and starts anew", times=1)
    last.survived = int(bench.restart())
    bench.window(bench.pair()[0])
    return [*found.values(), last]


def main() -> int:
    """Run it; 1 if something is not as it should be."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak")
    parser.add_argument("engine", type=Path, help="a virtual environment that holds vLLM")
    parser.add_argument("--minutes", type=float, default=8.0, help="of faults; the engine starts twice besides")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="oomctl-soak-") as name:
        bench = Bench(options.engine.absolute(), Path(name))
        try:
            told = run(bench, options.minutes)
            bench.close()
            good = show(bench, told, accounts(bench.root, bench.rings, bench.wire, bench.outcomes))
        finally:
            bench.close()
            if bench.mounted:
                subprocess.run(["umount", str(bench.root.parent)], check=False)
    print("all is well" if good else "NOT all is well")
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
