"""What a probe finds."""

from dataclasses import dataclass
from typing import Literal

State = Literal["there", "partly", "missing"]


@dataclass(frozen=True)
class Finding:
    """One source, as seen from here.

    Attributes:
        source: Which.
        state: there, partly or missing.
        detail: What was found.
        needs: What would make it better (a permission, an option, a version); None where nothing would.
    """

    source: str
    state: State
    detail: str
    needs: str | None = None
