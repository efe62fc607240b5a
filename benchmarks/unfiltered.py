"""How the rows of a log differ when every line is read in full: they must not, whatever is skipped or known otherwise."""

import sys
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

from oomctl.collectors.artifacts.logs import familiar, read_log, source


def every_line(chunk: bytes) -> list[int]:
    """In place of `interest.of_interest`."""
    return list(range(chunk.count(b"\n") + (not chunk.endswith(b"\n"))))


def nothing(*_: object) -> None:
    """In place of `Familiar.find`."""


def differing(path: Path) -> int:
    """How many rows differ."""
    with path.open("rb") as fast, path.open("rb") as slow:
        skipping, whole = iter(read_log(fast, "log").rows), iter(read_log(slow, "log").rows)
        count = 0
        while True:
            row = next(skipping, None)
            with ExitStack() as stack:
                stack.enter_context(patch.object(source, "of_interest", every_line))
                stack.enter_context(patch.object(familiar.Familiar, "find", nothing))
                other = next(whole, None)
            if row is None and other is None:
                return count
            count += row != other


if __name__ == "__main__":
    print(differing(Path(sys.argv[1])))
