"""What the pages tell a reader to type: the tutorial's commands run as written, the production guide's exist."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.site.made import DOCS, help_of
from tests.working_tree import ROOT

FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TUTORIAL = FENCE.findall((DOCS / "tutorial.md").read_text(encoding="utf-8"))
PRODUCTION = (DOCS / "production.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_every_command_of_the_tutorial_runs_and_prints_what_is_shown(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    (tmp_path / "bin").mkdir()
    shim = tmp_path / "bin" / "oomctl"
    shim.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m oomctl "$@"\n', encoding="utf-8")
    shim.chmod(0o755)
    environment = os.environ | {"PATH": f"{shim.parent}:{os.environ['PATH']}", "COLUMNS": "100", "NO_COLOR": "1"}
    printed, ran = "", 0
    for language, text in TUTORIAL:
        if language == "sh":
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", text],
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
            )
            assert done.returncode == 0, text + done.stderr
            printed, ran = done.stdout, ran + text.count("oomctl ")
        elif language == "text":
            for line in text.splitlines():
                assert line == "[...]" or line in printed, f"{line!r} is not in\n{printed}"
    assert ran >= 10


def test_the_tutorial_has_no_block_that_nobody_runs() -> None:
    assert [language for language, _ in TUTORIAL].count("console") == 1  # what installs
    assert {language for language, _ in TUTORIAL} == {"console", "sh", "text"}


def test_the_commands_of_the_production_guide_exist() -> None:
    lines = re.findall(r"(?<![\w`])oomctl ([a-z]+)((?: [^|\n`]*)?)", PRODUCTION)
    named = [(command, set(re.findall(r"(?<!\S)--?[a-z][\w-]*", rest))) for command, rest in lines]
    assert {"attach", "freeze", "triage"} <= {command for command, _ in named}
    for command, flags in named:
        told = help_of((command,))
        assert [flag for flag in flags if not re.search(rf"(?<![\w-]){flag}\b", told)] == [], command
