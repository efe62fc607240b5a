"""Files that are there whole, or not at all."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from oomctl.schemas.errors import ExitCode, OomctlError


@contextmanager
def beside(path: Path) -> Iterator[Path]:
    """A file beside a place, that only its owner may read, and that is moved there if all went well.

    Raises:
        OomctlError: If nothing can be written there.
    """
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise OomctlError(
            f"cannot write ({path}): {error.strerror}",
            "choose a folder that you may write to",
            ExitCode.ENVIRONMENT,
        ) from error
    os.close(descriptor)
    scratch = Path(name)
    try:
        yield scratch
        scratch.chmod(0o600)
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)


def write(path: Path, content: bytes) -> None:
    """Write a file.

    Raises:
        OomctlError: If nothing can be written there.
    """
    with beside(path) as scratch:
        scratch.write_bytes(content)
