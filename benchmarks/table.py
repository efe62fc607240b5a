"""Measured figures beside their limits: one shape for every benchmark, printed as soon as each is known.

Where OOMCTL_FIGURES names a file, each is appended to it as a line of JSON too, and END when all are known: so
`python -m benchmarks` brings all parts together.
"""

import json
import os
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from benchmarks.cpu import BenchmarkError

FIGURES_VARIABLE = "OOMCTL_FIGURES"
END = "null"
WIDTH = 70


@dataclass(frozen=True)
class Result:
    """One measured figure.

    Attributes:
        name: What it is.
        value: The figure; None where it was not measured.
        limit: What it has to keep; None where it only informs.
        unit: Its unit; empty for a ratio.
        at_least: The limit is the smallest that will do, not the largest.
        note: How it came about, or why it was not measured.
    """

    name: str
    value: float | None
    limit: float | None = None
    unit: str = ""
    at_least: bool = False
    note: str = ""

    @property
    def status(self) -> str:
        """ok, missed or not run; told where there is no limit."""
        if self.value is None:
            return "not run"
        if self.limit is None:
            return "told"
        return "ok" if (self.value >= self.limit if self.at_least else self.value <= self.limit) else "missed"

    @property
    def bound(self) -> str:
        """The limit, for reading."""
        return "" if self.limit is None else f"{'>=' if self.at_least else '<='} {self.limit:g}"

    @property
    def shown(self) -> str:
        """The figure, for reading."""
        return "-" if self.value is None else f"{self.value:.3g}" if abs(self.value) < 1000 else f"{self.value:,.0f}"


def result_of(row: dict[str, Any]) -> Result:
    """A row of a file of results, which says more than the figure.

    Raises:
        KeyError: If it is none.
    """
    return Result(**{field.name: row[field.name] for field in fields(Result)})


def show(results: Iterable[Result]) -> int:
    """Print a table; 1 if a limit is missed, or a measurement failed.

    Args:
        results: Measured while they are printed.
    """
    print(HEADER)
    missed = False
    try:
        for result in results:
            print(line(result), flush=True)
            _keep(json.dumps(asdict(result)))
            missed = missed or result.status == "missed"
    except BenchmarkError as error:
        print(f"benchmarks: error: {error}", file=sys.stderr)
        return 1
    _keep(END)
    return int(missed)


def line(result: Result) -> str:
    """A row of the table."""
    note = f"  {result.note}" if result.note else ""
    name = result.name if len(result.name) <= WIDTH else result.name[: WIDTH - 3] + "..."
    return f"{name:<{WIDTH}} {result.shown:>8} {result.unit:<3} {result.bound:<9} {result.status}{note}"


HEADER = f"{'what':<{WIDTH}} {'figure':>8} {'':<3} {'limit':<9} status"


def _keep(text: str) -> None:
    if path := os.environ.get(FIGURES_VARIABLE):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(text + "\n")
