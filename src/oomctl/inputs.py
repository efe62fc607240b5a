"""Which files a command's arguments mean: files, globs, folders, and - for standard input."""

import io
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from glob import glob, has_magic
from pathlib import Path
from typing import BinaryIO, cast

from oomctl.schemas.errors import OomctlError

STDIN = "-"
Report = Callable[[OomctlError], None]


def expand(paths: Sequence[str], report: Report) -> list[str]:
    """The files that the arguments mean, each once, in the order given; a folder's and a glob's files are sorted.

    Args:
        paths: As typed. A folder stands for its files and those of its direct subfolders, hidden ones left out; one that
            a recorder writes stands for itself.
        report: Called with every argument that means nothing.
    """
    found: dict[str, str] = {}
    for path in paths:
        try:
            for file in _files(path):
                found.setdefault(file if file == STDIN else os.path.realpath(file), file)
        except OomctlError as error:
            report(error)
        except OSError as error:
            report(unreadable(path, error))
    return list(found.values())


def require(path: str) -> None:
    """Before something is said that does not depend on what an input holds.

    Raises:
        OomctlError: If the argument means nothing that exists.
    """
    problems: list[OomctlError] = []
    for file in expand([path], problems.append):
        try:
            if file != STDIN:
                Path(file).stat()
        except OSError as error:
            raise unreadable(file, error) from error
    if problems:
        raise problems[0]


def label(path: str) -> str:
    """The stream's name: the path as given, in text that is valid Unicode even where the file's name is not."""
    return "stdin" if path == STDIN else os.fsencode(path).decode("utf-8", "backslashreplace")


def unreadable(path: str, error: OSError) -> OomctlError:
    """What to tell of a file that the system would not open or read."""
    where = label(path)
    if isinstance(error, FileNotFoundError):
        return OomctlError(f"no such file ({where})", "check the path; - reads standard input")
    if isinstance(error, PermissionError):
        return OomctlError(f"permission denied ({where})", "run as a user who may read it")
    return OomctlError(f"cannot read ({where}): {error.strerror or error}", "copy the file elsewhere and try again")


def refuse_devices(path: str) -> None:
    """A device such as /dev/zero never ends. Pipes, and standard input whatever it is, do.

    Raises:
        OomctlError: If the path is a device.
    """
    mode = Path(path).stat().st_mode
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        raise OomctlError(f"a device, not a log ({label(path)})", "give a file; - reads standard input")


@contextmanager
def opened(path: str) -> Iterator[io.BufferedReader]:
    """An input's bytes, as they lie.

    Raises:
        OomctlError: If it is a device, or standard input is closed.
    """
    if path == STDIN:
        if sys.stdin is None:
            raise OomctlError("standard input is closed (stdin)", "pipe a log into it, or give a path")
        yield cast(io.BufferedReader, sys.stdin.buffer)
    else:
        refuse_devices(path)
        with Path(path).open("rb") as file:
            yield file


@contextmanager
def on_disk(path: str | None, file: BinaryIO) -> Iterator[Path]:
    """A file that holds an input: itself, or a copy of what comes out of a pipe or an archive, for what reads no stream."""
    if path is not None and path != STDIN and Path(path).is_file():
        yield Path(path)
        return
    with tempfile.TemporaryDirectory(prefix="oomctl-") as folder:
        copy = Path(folder) / "copy"
        with copy.open("wb") as target:
            shutil.copyfileobj(file, target)
        yield copy


def _files(path: str) -> Iterator[str]:
    if path == STDIN:
        yield path
    elif not path:
        raise OomctlError("an empty path", "check the shell variable that it came from")
    elif Path(path).is_dir():
        yield from [path] if _is_recording(Path(path)) else _folder(path)
    elif has_magic(path) and not os.path.lexists(path):
        matches = sorted(glob(path, recursive=True))  # noqa: PTH207 - Path.glob takes no absolute pattern
        if not matches:
            raise OomctlError(f"no file matches ({label(path)})", "check the pattern, and quote it for the shell")
        for match in matches:
            if Path(match).is_dir():
                yield from _folder(match)
            elif Path(match).is_file():
                yield match
    else:
        yield path


def _folder(path: str) -> Iterator[str]:
    """Files and recordings in it and in its direct subfolders: one pod's folder of logs, not a whole disk."""
    empty = True
    for folder in [Path(path), *_visible(Path(path), Path.is_dir)]:
        if _is_recording(folder):
            empty = False
            yield str(folder)
            continue
        for file in _visible(folder, Path.is_file):
            empty = False
            yield str(file)
    if empty:
        raise OomctlError(f"no files in folder ({label(path)})", "give the folder that holds the logs")


def _is_recording(folder: Path) -> bool:
    from oomctl.collectors.recorder.folder import is_recording

    return is_recording(folder)


def _visible(folder: Path, wanted: Callable[[Path], bool]) -> list[Path]:
    return sorted(entry for entry in folder.iterdir() if not entry.name.startswith(".") and wanted(entry))
