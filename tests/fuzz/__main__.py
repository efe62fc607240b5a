"""`make fuzz`: every target for its share of the time, one process after the other, and a table of what came of it.

    python -m tests.fuzz [--minutes 20] [NAME ...]

What is found is kept in build/fuzz/NAME, and is run again by `python -m tests.fuzz.run NAME FOLDER FILE`.
"""

import argparse
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

from tests.fuzz.targets import TARGETS

FOLDER = Path("build/fuzz")
GRACE_S = 600
"""Beyond its share, for start and the last input."""
_COUNT = re.compile(r"number_of_executed_units: (\d+)|^(\d+) inputs", re.MULTILINE)
_SLOWEST = re.compile(r"slowest (\d+ ms)")
_PEAK = re.compile(r"peak_rss_mb: +(\d+)|inputs, (\d+) MiB")


def main() -> int:
    """Run the targets; 1 if one has a finding."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--minutes", type=float, default=20.0, help="for all of them together")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(TARGETS))
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in TARGETS]:
        parser.error(f"no target {unknown[0]!r}")
    names = options.names or list(TARGETS)
    by_coverage = importlib.util.find_spec("atheris") is not None
    total = sum(TARGETS[name].share for name in names)
    seconds = {name: max(1, round(options.minutes * 60 * TARGETS[name].share / total)) for name in names}
    print(
        "by coverage (atheris)" if by_coverage else "by mutations alone: pip install -e '.[fuzz]' for coverage", flush=True
    )
    print(f"{len(names)} targets, {min(seconds.values())} to {max(seconds.values())} s each", flush=True)
    found = sum(_run(name, seconds[name]) for name in names)
    print(f"{found} findings; see {FOLDER}" if found else "no finding")
    return int(found > 0)


def _run(name: str, seconds: int) -> bool:
    """One target; whether it has a finding."""
    folder = FOLDER / name
    command = [sys.executable, "-m", "tests.fuzz.run", name, str(folder), str(seconds)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + GRACE_S, check=False)
        said, status = done.stdout + done.stderr, done.returncode
    except subprocess.TimeoutExpired:
        said, status = "it never came back", 1
    inputs, peak, slowest = (_last(pattern, said) for pattern in (_COUNT, _PEAK, _SLOWEST))
    outcome = "ok" if status == 0 else "FOUND SOMETHING"
    print(f"{name:16} {inputs:>9} inputs {peak:>5} MiB, slowest {slowest:>7}  {outcome}", flush=True)
    if status != 0:
        print("\n".join(f"    {line}" for line in said.splitlines()[-60:] if "INFO" not in line))
    return status != 0


def _last(pattern: re.Pattern[str], said: str) -> str:
    found = [match[match.lastindex or 0] for match in pattern.finditer(said)]
    return found[-1] if found else "?"


if __name__ == "__main__":
    sys.exit(main())
