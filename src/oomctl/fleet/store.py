"""A folder on a file system or in an object store, as far as a fleet needs it.

`pyarrow.fs` reaches local folders, s3://, gs://, abfss:// and hdfs:// without anything else installed. What lies there
appears whole or not at all: a local file is moved to its place, and an object is there when its upload is complete.
"""

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from oomctl.schemas.errors import ExitCode, OomctlError
from oomctl.schemas.whole import beside

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
_MAGIC = re.compile(r"[*?[]")
CONNECT_S, REQUEST_S = 10, 60
"""How long an object store may take to answer."""


@dataclass(frozen=True)
class Entry:
    """A file in a store.

    Attributes:
        path: Below the store's root.
        bytes: Its size.
        modified_us: When it was written, in microseconds since 1970.
    """

    path: str
    bytes: int
    modified_us: int

    @property
    def identity(self) -> str:
        """Another one means that the file may have changed."""
        return f"{self.bytes}-{self.modified_us}"


class Store:
    """A folder.

    Args:
        root: A local path, or a URL such as s3://bucket/rec.

    Attributes:
        root: A name of it that holds whatever the working folder is.
        local: Whether it is a folder of this machine.

    Raises:
        OomctlError: If its scheme is none that can be reached.
    """

    def __init__(self, root: str) -> None:
        self.local = not is_url(root)
        self.root = str(Path(root).absolute()) if self.local else root.rstrip("/")
        if not self.local:
            self._files  # noqa: B018 - whether the scheme is known shows at once

    def entries(self, wanted: "re.Pattern[str] | None" = None) -> list[Entry]:
        """The files in it and below, in order of path; a folder that is not there has none.

        Args:
            wanted: Only folders of such names are looked into; the others may hold years.
        """
        from pyarrow.fs import FileSelector, FileType

        files, base = self._files
        with self._told("cannot list"):
            found = files.get_file_info(FileSelector(base, recursive=wanted is None, allow_not_found=True))
            if wanted is not None:
                chosen = [
                    info.path for info in found if info.type == FileType.Directory and wanted.fullmatch(info.base_name)
                ]
                for path in chosen:
                    found += files.get_file_info(FileSelector(path, recursive=True, allow_not_found=True))
        return sorted(
            (
                Entry(info.path[len(base) :].lstrip("/"), info.size, info.mtime_ns // 1000)
                for info in found
                if info.type == FileType.File
            ),
            key=lambda entry: entry.path,
        )

    def fetch(self, path: str, target: Path) -> bool:
        """Copy a file of it to a local place; False where there is none.

        Raises:
            OomctlError: If it cannot be read.
        """
        if self.local:
            try:
                shutil.copyfile(Path(self.root, path), target)
            except FileNotFoundError:
                return False
            except OSError as error:
                raise self._problem("cannot read", error, path) from error
            return True
        files, base = self._files
        with self._told("cannot read", path):
            try:
                with files.open_input_stream(f"{base}/{path}") as source, target.open("wb") as copy:
                    while chunk := source.read(1 << 22):
                        copy.write(chunk)
            except FileNotFoundError:
                return False
        return True

    def put(self, path: str, source: Path) -> None:
        """Write a local file to a place in it, over what is there.

        Raises:
            OomctlError: If nothing can be written there.
        """
        if self.local:
            place = Path(self.root, path)
            try:
                place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as error:
                raise self._problem("cannot write", error, path) from error
            with beside(place) as scratch:
                shutil.copyfile(source, scratch)
            return
        files, base = self._files
        with self._told("cannot write", path):
            data = source.read_bytes()  # read first: a stream that is left half-written would be closed, and so be there
            with files.open_output_stream(f"{base}/{path}") as target:
                target.write(data)

    def url(self, path: str) -> str:
        """The full name of a file of it."""
        return f"{self.root}/{path}"

    @cached_property
    def _files(self) -> tuple[Any, str]:
        """(file system, path of the root in it)."""
        from pyarrow import fs

        if self.local:
            return fs.LocalFileSystem(), self.root
        with self._told("cannot open"):
            try:
                if urlsplit(self.root).scheme in ("s3", "s3a", "s3n"):
                    return _s3(self.root)
                files, base = fs.FileSystem.from_uri(self.root)
            except (ValueError, ImportError) as error:
                reason = str(error).splitlines()[0][:200]
                raise OomctlError(f"cannot open ({_shown(self.root)}): {reason}", "", ExitCode.USAGE) from error
        return files, base.rstrip("/")

    @contextmanager
    def _told(self, what: str, path: str = "") -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._problem(what, error, path) from error

    def _problem(self, what: str, error: OSError, path: str) -> OomctlError:
        reason = (error.strerror or str(error)).splitlines()[0][:200]
        where = _shown(self.root) + (f"/{path}" if path else "")
        return OomctlError(f"{what} ({where}): {reason}", "check the address and the credentials", ExitCode.ENVIRONMENT)


def is_url(path: str) -> bool:
    """Whether it names a place in a store and no local file."""
    return _SCHEME.match(path) is not None


def split_pattern(path: str) -> tuple[str, str]:
    """(root, pattern below it): what stands before the first part with a wildcard, and the rest; "**" for all below it."""
    found = _SCHEME.match(path)
    head = found[0] if found else ""
    parts = path[len(head) :].split("/")
    first = next((n for n, part in enumerate(parts) if _MAGIC.search(part)), len(parts))
    root = "/".join(parts[:first]) or ("" if head else "/" if path.startswith("/") else ".")
    return head + root, "/".join(parts[first:]) or "**"


def matcher(pattern: str) -> "re.Pattern[str]":
    """A glob's regular expression: * and ? stay within a folder, ** does not."""
    out, place = "", 0
    while place < len(pattern):
        if pattern.startswith("**/", place):
            out, place = out + "(?:[^/]+/)*", place + 3
        elif pattern.startswith("**", place):
            out, place = out + ".*", place + 2
        elif pattern[place] == "[" and (end := pattern.find("]", place + 2)) > 0:
            body = pattern[place + 1 : end].replace("\\", "\\\\").replace("[", "\\[")
            out, place = out + f"[{'^' + body[1:] if body[0] == '!' else body}]", end + 1
        else:
            char = pattern[place]
            out, place = out + {"*": "[^/]*", "?": "[^/]"}.get(char, re.escape(char)), place + 1
    return re.compile(out)


def _s3(root: str) -> tuple[Any, str]:
    """Amazon's store, or one that speaks its language at AWS_ENDPOINT_URL."""
    from pyarrow import fs

    parts = urlsplit(root)
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    options: dict[str, Any] = {"connect_timeout": CONNECT_S, "request_timeout": REQUEST_S}
    if endpoint:
        told = urlsplit(endpoint)
        options |= {"endpoint_override": told.netloc, "scheme": told.scheme, "region": region or "us-east-1"}
    else:
        options["region"] = region or fs.resolve_s3_region(parts.netloc)
    return fs.S3FileSystem(**options), f"{parts.netloc}{parts.path}".rstrip("/")


def _shown(root: str) -> str:
    """A root for a message, without what may be a secret in it."""
    return re.sub(r"//[^/@]*@", "//", root) if is_url(root) else root
