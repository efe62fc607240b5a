"""The shared data that some tests use: read-only, never part of the project, and not there for a stranger."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SHARED = Path(os.environ.get("OOMCTL_SHARED", ROOT.parent / "shared"))


def shared(*parts: str) -> Path:
    """A path below OOMCTL_SHARED; skips the test, saying so, where it is not there."""
    path = SHARED.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"no {'/'.join(parts)}: set OOMCTL_SHARED to the shared data")
    return path
