"""The one place where an exception becomes a line on stderr and an exit status."""

import errno
import os
import re
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from io import TextIOWrapper
from types import FrameType

from oomctl.cli.render.text import escape
from oomctl.schemas.errors import ExitCode, OomctlError

TERMINATED = 128 + signal.SIGTERM


def guard(body: Callable[[], int], debug: bool) -> int:
    """Run a command line and tell its errors as `oomctl: error: WHAT`, then `hint: HINT`.

    Args:
        body: The command; returns its exit status.
        debug: Print the traceback too.

    Returns:
        The exit status.
    """
    _set_up_streams()
    _end_on_sigterm()
    status = _status(body, debug)
    # What is still buffered goes out here, where its errors are told, and not when the interpreter shuts down.
    flushed = _status(_flush, debug)
    return flushed or status


def tell(severity: str, error: OomctlError) -> None:
    """Print an error or a warning on stderr."""
    _say(f"oomctl: {severity}: {escape(error.what)}\n" + (f"hint: {escape(error.hint)}\n" if error.hint else ""))


def warn(error: OomctlError) -> None:
    """Tell what was skipped; the command goes on."""
    tell("warning", error)


def note(text: str) -> None:
    """Say on stderr what the data on stdout cannot."""
    _say(f"oomctl: {escape(text)}\n")


def _say(text: str) -> None:
    with suppress(BrokenPipeError):
        sys.stderr.write(text)


def _status(body: Callable[[], int], debug: bool) -> int:
    try:
        return body()
    except BrokenPipeError:
        # `oomctl ... | head`: the reader has what it wanted.
        _discard()
        return ExitCode.OK
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else ExitCode.INTERNAL
    except Exception as error:
        ended = _interrupted(error)
        if ended is not None:
            return ended
        if debug:
            import traceback

            traceback.print_exc()
        known = _as_oomctl_error(error)
        tell("error", known)
        return known.exit_code


def _flush() -> int:
    try:
        sys.stdout.flush()
    except OSError:
        _discard()
        raise
    return ExitCode.OK


def _discard() -> None:
    """Send what may still be written to stdout nowhere: at exit the interpreter flushes it once more."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


def _end_on_sigterm() -> None:
    """Let SIGTERM unwind the stack, so that temporary folders go; a caller's own handler, or that it is ignored, stays."""
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminate)


def _terminate(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one would cut the cleaning up short
    raise SystemExit(TERMINATED)


def _interrupted(error: Exception) -> int | None:
    """The status where a signal's exception was raised inside DuckDB, which puts one of its own in its place."""
    if not isinstance(error, RuntimeError) or str(error) != "Query interrupted":
        return None
    return TERMINATED if signal.getsignal(signal.SIGTERM) is signal.SIG_IGN else ExitCode.INTERRUPTED


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
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            if stream.isatty():
                stream.reconfigure(errors="backslashreplace")
            else:
                stream.reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")
