"""Measured figures beside their limits: one line each, as soon as it is known."""

import sys
from collections.abc import Iterable
from dataclasses import dataclass

from benchmarks.cpu import BenchmarkError


@dataclass(frozen=True)
class Result:
    """One measured ratio."""

    name: str
    ratio: float
    limit: float

    @property
    def ok(self) -> bool:
        """Whether the limit is kept."""
        return self.ratio <= self.limit


def show(results: Iterable[Result], width: int = 70, digits: int = 1) -> int:
    """Print a table; 1 if a limit is missed, or a measurement failed.

    Args:
        results: Measured while they are printed.
        width: Of the names.
        digits: Of the ratios.
    """
    print(f"{'what':<{width}} {'ratio':>7} {'limit':>7}  ok")
    missed = False
    try:
        for result in results:
            verdict = "yes" if result.ok else "NO"
            print(f"{result.name:<{width}} {result.ratio:>7.{digits}f} {result.limit:>7g}  {verdict}", flush=True)
            missed = missed or not result.ok
    except BenchmarkError as error:
        print(f"benchmarks: error: {error}", file=sys.stderr)
        return 1
    return int(missed)
