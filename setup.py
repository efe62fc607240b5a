"""Refuse to build where the room symlinks came out as plain files, and build in the chart code of reports.

A checkout without symlink support (git's core.symlinks=false, some Windows tools) turns src/oomctl/collectors into a
text file; setuptools would then build a wheel that silently lacks four packages.
"""

import sys
from pathlib import Path
from typing import ClassVar

from setuptools import Command, setup
from setuptools.command.build import build

ROOMS = ("collectors", "analyzers", "schemas", "queries")
broken = [room for room in ROOMS if not (Path(__file__).parent / "src" / "oomctl" / room).is_dir()]
if broken:
    raise SystemExit(
        f"oomctl: error: src/oomctl/{broken[0]} is not a directory: this checkout lost its symlinks\n"
        "hint: git config core.symlinks true && git checkout -- src/oomctl"
    )


class BuildCharts(Command):
    """Write the script that draws a report's charts: Vega as vl-convert bundles it, so that a page needs no network."""

    user_options: ClassVar[list[tuple[str, str, str]]] = []
    editable_mode = False

    def initialize_options(self) -> None:
        """Where to is not known yet."""
        self.build_lib = None

    def finalize_options(self) -> None:
        """Where everything is built."""
        self.set_undefined_options("build_py", ("build_lib", "build_lib"))

    def run(self) -> None:
        """Into the tree itself where it is installed editable."""
        source = Path(__file__).parent / "src"
        sys.path.insert(0, str(source))
        from oomctl.report.bundle import FILE, make

        folder = (source if self.editable_mode else Path(self.build_lib)) / "oomctl" / "report"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / FILE).write_text(make(), encoding="utf-8")

    def get_source_files(self) -> list[str]:
        """None: it is made of what vl-convert holds."""
        return []

    def get_outputs(self) -> list[str]:
        """What a wheel gets."""
        return [] if self.editable_mode else [str(Path(self.build_lib) / "oomctl" / "report" / "vega.js")]

    def get_output_mapping(self) -> dict[str, str]:
        """Nothing is copied."""
        return {}


build.sub_commands.append(("build_charts", None))
setup(cmdclass={"build_charts": BuildCharts})
