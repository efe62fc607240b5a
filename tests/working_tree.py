"""The files of the working tree as a commit of it would hold them."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def paths() -> list[Path]:
    """Tracked and not ignored files, relative to the root; the calling test is skipped outside a git checkout."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, capture_output=True, check=False
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    names = listed.stdout.decode("utf-8").split("\0")
    return [Path(name) for name in sorted(set(names)) if name and os.path.lexists(ROOT / name)]


def copy_to(target: Path) -> Path:
    """Copy these files, symlinks as symlinks.

    Returns:
        The target.
    """
    for path in paths():
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / path, target / path, follow_symlinks=False)
    return target
