"""This oomctl as `pip install --no-deps` leaves it in a worker, in a folder for PYTHONPATH."""

import subprocess
import sys
from pathlib import Path

from tests import working_tree


def install_agent(folder: Path) -> Path:
    """Install it below a folder; where it lies."""
    tree, site = working_tree.copy_to(folder / "tree"), folder / "site"
    install = ["pip", "install", "--no-deps", "--no-index", "--no-build-isolation", "-qq", "--target", str(site), str(tree)]
    subprocess.run([sys.executable, "-m", *install], check=True)
    return site
