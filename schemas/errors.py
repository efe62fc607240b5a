"""The one error type a user sees; it carries the exit code that the command ends with."""

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit statuses of the command (docs/cli.md)."""

    OK = 0
    FINDINGS = 1
    USAGE = 2
    UNREADABLE = 3
    ENVIRONMENT = 4
    INTERNAL = 70
    INTERRUPTED = 130


class OomctlError(Exception):
    """What went wrong, in one line, and how to mend it.

    Args:
        what: The fact, with the place in brackets at its end, as in "no such file (a.log)".
        hint: One thing the reader can do about it.
        exit_code: The status with which the command ends.
    """

    def __init__(self, what: str, hint: str | None = None, exit_code: ExitCode = ExitCode.UNREADABLE) -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint
        self.exit_code = exit_code
