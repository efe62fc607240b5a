"""A ledger that was kept with a release."""

from pathlib import Path
from typing import TYPE_CHECKING

from oomctl.schemas.errors import OomctlError

if TYPE_CHECKING:
    from oomctl.schemas.ledger import Ledger


def read_ledger(path: Path) -> "Ledger":
    """What `oomctl ledger predict --json` printed.

    Raises:
        OomctlError: The file is unreadable, no ledger, or of another schema.
    """
    import msgspec

    from oomctl.schemas.ledger import SCHEMA, Ledger

    try:
        found = msgspec.json.decode(path.read_bytes(), type=Ledger)
    except OSError as error:
        raise OomctlError(f"{(error.strerror or str(error)).lower()} ({path})") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise OomctlError(
            f"no ledger: {str(error)[:100]} ({path})", "make one with `oomctl ledger predict --json`"
        ) from None
    if found.schema != SCHEMA:
        raise OomctlError(f'a ledger of schema "{found.schema[:40]}", not {SCHEMA} ({path})')
    return found
