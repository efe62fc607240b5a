"""The one place where an exception becomes a line on stderr and an exit status."""

import errno
import os
import re
import sys
from collections.abc import Callable
from io import TextIOWrapper

from oomctl.cli.render.text import escape
from oomctl.schemas.errors import ExitCode, OomctlError


def guard(body: Callable[[], int], debug: bool) -> int:
    """Run a command line and tell its errors as `oomctl: error: WHAT`, then `hint: HINT`.

    Args:
        body: The command; returns its exit status.
        debug: Print the traceback too.

    Returns:
        The exit status.
    """
    _set_up_streams()
    try:
        status = body()
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        # `oomctl ... | head`: the reader has what it wanted. Nothing more may reach the closed pipe, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.OK
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except Exception as error:
        if debug:
            import traceback

            traceback.print_exc()
        known = _as_oomctl_error(error)
        tell("error", known)
        return known.exit_code


def tell(severity: str, error: OomctlError) -> None:
    """Print an error or a warning on stderr."""
    sys.stderr.write(f"oomctl: {severity}: {escape(error.what)}\n")
    if error.hint:
        sys.stderr.write(f"hint: {escape(error.hint)}\n")


def warn(error: OomctlError) -> None:
    """Tell what was skipped; the command goes on."""
    tell("warning", error)


def note(text: str) -> None:
    """Say on stderr what the data on stdout cannot."""
    sys.stderr.write(f"oomctl: {escape(text)}\n")


def _as_oomctl_error(error: Exception) -> OomctlError:
    if isinstance(error, OomctlError):
        return error
    if hasattr(error, "format_message"):  # every usage error of typer has it, in all its versions
        return _usage_error(error, error.format_message())
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
        where = error.filename or "standard output or TMPDIR"
        return OomctlError(f"cannot write ({where}): {error.strerror}", "free some space", ExitCode.ENVIRONMENT)
    return OomctlError(
        f"internal error: {type(error).__name__}: {_one_line(str(error))}".removesuffix(": "),
        "run it again with --debug, and report what that prints",
        ExitCode.INTERNAL,
    )


def _usage_error(error: Exception, message: str) -> OomctlError:
    what = _one_line(message).removesuffix(".").replace(": Value error, ", ": ")
    path = getattr(getattr(error, "ctx", None), "command_path", "oomctl")
    hint = f"see `{path} --help`"
    suggestion = re.search(r"\.? (?:\(Possible options: (.*)\)|Did you mean (.*)\?)$", what)
    if suggestion:
        what = what[: suggestion.start()]
        hint = f"did you mean {suggestion[1] or suggestion[2]}? {hint}"
    return OomctlError(what[:1].lower() + what[1:], hint, ExitCode.USAGE)


def _one_line(text: str) -> str:
    return " ".join(text.split())[:500]


def _set_up_streams() -> None:
    """Data that is piped on is UTF-8 whatever the locale; a terminal keeps its own encoding, and never a crash."""
    if sys.stdout is None:  # started with its stdout closed
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - lives as long as the process
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            if stream.isatty():
                stream.reconfigure(errors="backslashreplace")
            else:
                stream.reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")
