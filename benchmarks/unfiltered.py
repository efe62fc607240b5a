"""How the rows of a log differ when every line is looked at: they must not, however many lines are skipped otherwise."""

import sys
from pathlib import Path
from unittest.mock import patch

from oomctl.collectors.artifacts.logs import read_log, source


def every_line(chunk: bytes) -> list[int]:
    """In place of `interest.of_interest`."""
    return list(range(chunk.count(b"\n") + (not chunk.endswith(b"\n"))))


def differing(path: Path) -> int:
    """How many rows differ."""
    with path.open("rb") as fast, path.open("rb") as slow:
        skipping, whole = iter(read_log(fast, "log").rows), iter(read_log(slow, "log").rows)
        count = 0
        while True:
            row = next(skipping, None)
            with patch.object(source, "of_interest", every_line):
                other = next(whole, None)
            if row is None and other is None:
                return count
            count += row != other


if __name__ == "__main__":
    print(differing(Path(sys.argv[1])))
