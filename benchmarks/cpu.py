"""CPU time of a command: user plus system time of the child, which a busy machine disturbs least."""

import os
import resource
import subprocess
import sys
from collections.abc import Sequence


class BenchmarkError(Exception):
    """A measured command failed, so that its cost means nothing."""


def run(arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run this Python with arguments.

    Raises:
        BenchmarkError: If it exits with anything but 0.
    """
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchmarkError(f"{' '.join(arguments)[:100]}: exit {done.returncode}: {done.stderr.strip()[-500:]}")
    return done


def cpu_s(arguments: Sequence[str], repeats: int) -> float:
    """Seconds of CPU that this Python takes with these arguments: the best of several runs."""
    costs = []
    for _ in range(repeats):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        run(arguments)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        costs.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    return min(costs)


def cost(arguments: Sequence[str]) -> tuple[float, float]:
    """(seconds of CPU, peak resident MiB) of one run of this Python with these arguments.

    Raises:
        BenchmarkError: As `run`.
    """
    with subprocess.Popen([sys.executable, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise BenchmarkError(f"{' '.join(arguments)[:100]}: exit {process.returncode}")
    peak = usage.ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
    return usage.ru_utime + usage.ru_stime, peak


def imported(arguments: Sequence[str]) -> set[str]:
    """The top-level modules that this Python imports with these arguments."""
    report = run(["-X", "importtime", *arguments]).stderr
    names = (line.rsplit("|", 1)[-1].strip() for line in report.splitlines() if line.startswith("import time:"))
    return {name.split(".", 1)[0] for name in names}
