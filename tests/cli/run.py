"""Run the real command in a process of its own, as a user does."""

import os
import subprocess
import sys
from pathlib import Path


def oomctl(
    *arguments: str, stdin: bytes = b"", cwd: Path | None = None, timeout_s: float = 120, **environment: str
) -> "Ran":
    """`python -m oomctl ARGUMENTS`."""
    done = subprocess.run(
        [sys.executable, "-m", "oomctl", *arguments],
        input=stdin,
        capture_output=True,
        cwd=cwd,
        env=os.environ | {"COLUMNS": "100"} | environment,
        timeout=timeout_s,
        check=False,
    )
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


class Ran:
    """How it ended, and what it printed."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code = code
        self.out = out
        self.err = err

    def assert_fails(self, code: int, *said: str) -> None:
        """It ended with this status, one error line, perhaps a hint, no data and no traceback."""
        assert self.code == code, self.err
        assert self.out == ""
        lines = self.err.splitlines()
        assert lines[0].startswith("oomctl: error: ")
        assert len(lines) == 1 or (len(lines) == 2 and lines[1].startswith("hint: "))
        for text in said:
            assert text in self.err
