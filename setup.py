"""Refuse to build where the room symlinks came out as plain files.

A checkout without symlink support (git's core.symlinks=false, some Windows tools) turns src/oomctl/collectors into a
text file; setuptools would then build a wheel that silently lacks four packages.
"""

from pathlib import Path

from setuptools import setup

ROOMS = ("collectors", "analyzers", "schemas", "queries")
broken = [room for room in ROOMS if not (Path(__file__).parent / "src" / "oomctl" / room).is_dir()]
if broken:
    raise SystemExit(
        f"oomctl: error: src/oomctl/{broken[0]} is not a directory: this checkout lost its symlinks\n"
        "hint: git config core.symlinks true && git checkout -- src/oomctl"
    )
setup()
