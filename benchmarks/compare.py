"""`make bench-compare A=old.json B=new.json`: what changed between two runs of `make bench`."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.machine import words
from benchmarks.table import WIDTH, Result, result_of

NOTABLE = 0.05
"""Of the older figure: less is not told as a change."""


def read(path: Path) -> tuple[dict[str, Any], dict[tuple[str, str], Result]]:
    """A run's machine and figures.

    Raises:
        SystemExit: If it is none.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return document["machine"], {(row["part"], row["name"]): result_of(row) for row in document["results"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SystemExit(f"benchmarks: error: no run of make bench ({path}): {error}") from None


def lines(before: dict[tuple[str, str], Result], after: dict[tuple[str, str], Result]) -> Iterator[str]:
    """A row per figure: both values, the change, and what it means."""
    for part, name in [*before, *(key for key in after if key not in before)]:
        old, new = before.get((part, name)), after.get((part, name))
        shown = [result.shown if result else "-" for result in (old, new)]
        yield f"{part:<9} {name[:WIDTH]:<{WIDTH}} {shown[0]:>8} {shown[1]:>8} {_change(old, new)}"


def _change(old: Result | None, new: Result | None) -> str:
    if old is None or new is None:
        return "new" if old is None else "gone"
    if old.value is None or new.value is None:
        return "" if old.value is new.value else f"{old.status} -> {new.status}"
    share = (new.value - old.value) / abs(old.value) if old.value else None
    change = f"{share:+8.1%}" if share is not None else f"{new.value:+8.3g}" if new.value else f"{'0':>8}"
    crossed = f"  {old.status} -> {new.status}" if old.status != new.status else ""
    same = (share is not None and abs(share) < NOTABLE) or new.value == old.value
    return ("       =" if same else change) + crossed


def main(first: str, second: str) -> int:
    """Print the changes; 1 if a limit was kept before and is missed now."""
    (machine, before), (other, after) = (read(Path(name)) for name in (first, second))
    print(f"A: {words(machine)}\nB: {words(other)}\n")
    if machine["model"] != other["model"] or machine["cores"] != other["cores"]:
        print("Two machines: compare ratios, and no seconds.\n")
    print(f"{'part':<9} {'what':<{WIDTH}} {'A':>8} {'B':>8}   change")
    for text in lines(before, after):
        print(text)
    return int(any(after[key].status == "missed" and before[key].status == "ok" for key in before.keys() & after.keys()))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
