"""Which files this version reads: apart from the table, whose declaration takes longer than a look at a file's head."""

import re

from oomctl.schemas.errors import OomctlError

SCHEMA_VERSION = 1
"""Of the event table. Older files are read: what they lack is NULL. A newer one is refused before a row is read, since
its new fields would be dropped in silence. No version renames, retypes or removes a field (`tests/upgrade`)."""
VERSION_KEY = "oomctl.schema_version"
"""Of a Parquet file's metadata."""
PARQUET_MAGIC = b"PAR1"


def check_version(version: str | None, name: str) -> None:
    """Refuse what this version cannot read.

    Raises:
        OomctlError: If the version, as found in a file, is none of ours (None: there is none), or newer.
    """
    if version is None:
        raise OomctlError(f"Parquet, but not written by oomctl ({name})", "give a file that `oomctl import` wrote")
    if not re.fullmatch("[0-9]{1,9}", version):
        raise OomctlError(
            f"{version[:20]!r} is not a schema version of oomctl ({name})", "give a file that `oomctl import` wrote"
        )
    if int(version) > SCHEMA_VERSION:
        raise OomctlError(
            f"schema version {version} is newer than this oomctl reads, {SCHEMA_VERSION} ({name})",
            "upgrade oomctl: pip install -U oomctl",
        )
