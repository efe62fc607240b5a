"""What is set outside a command line: a file in TOML, and the environment. Flags count more than both.

This module is all that a run without either loads of it.
"""

import os
from collections.abc import Sequence
from pathlib import Path

FILE = Path("oomctl.toml")
"""Taken from the working folder where no other is named."""
FILE_VARIABLE = "OOMCTL_CONFIG"
PREFIX = "OOMCTL_"


def is_set(words: Sequence[str]) -> bool:
    """Whether a file or the environment sets anything for a command line."""
    begins = tuple(f"{PREFIX}{word.replace('-', '_').upper()}_" for word in words[:1])
    return FILE_VARIABLE in os.environ or FILE.is_file() or any(name.startswith(begins) for name in os.environ)
