"""What the pages tell a reader to type: blocks marked `sh` run as written, every other command exists with its options.

A block that cannot run here (it needs an engine, a GPU, a cluster) has `<!-- not run: why -->` on the line before it; then,
as in running text, its commands are looked up.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from oomctl import queries
from tests.site.made import DOCS, below, help_of
from tests.working_tree import ROOT

FENCE = re.compile(
    r"^(?:<!-- not run: (?P<why>.+) -->\n)?```(?P<language>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
CODE = re.compile(r"^ {4}(.*)$|(?<!`)`([^`\n]+)`(?!`)", re.MULTILINE)
QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")
"""An engine's arguments, SQL, a pattern: no options of ours."""
COMMAND = re.compile(r"(?<![\w./-])oomctl((?: [a-z]\S*)+)(.*)")
PAGES = sorted(
    path
    for path in (
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *DOCS.rglob("*.md"),
        *(ROOT / "analyzers" / "triage").rglob("*.md"),
    )
    if DOCS / "commands" not in path.parents
)
"""All but those that are made of the help itself."""
RUN = [path for path in PAGES if re.search(r"^```sh$", path.read_text(encoding="utf-8"), re.MULTILINE)]


def test_pages_are_run() -> None:
    assert DOCS / "tutorial.md" in RUN


@pytest.mark.slow
@pytest.mark.parametrize("page", RUN, ids=lambda path: path.name)
def test_every_block_runs_and_prints_what_is_shown(page: Path, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    (tmp_path / "bin").mkdir()
    shim = tmp_path / "bin" / "oomctl"
    shim.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m oomctl "$@"\n', encoding="utf-8")
    shim.chmod(0o755)
    environment = os.environ | {"PATH": f"{shim.parent}:{os.environ['PATH']}", "COLUMNS": "100", "NO_COLOR": "1"}
    printed = ""
    for block in FENCE.finditer(page.read_text(encoding="utf-8")):
        if block["language"] == "sh" and block["why"] is None:
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", block["text"]],
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
            )
            assert done.returncode == 0, block["text"] + done.stderr
            printed = done.stdout
        elif block["language"] == "text" and printed:
            for line in block["text"].splitlines():
                assert line == "[...]" or line in printed, f"{line!r} is not in\n{printed}"


def test_the_tutorial_has_no_block_that_nobody_runs() -> None:
    blocks = list(FENCE.finditer((DOCS / "tutorial.md").read_text(encoding="utf-8")))
    assert [block["language"] for block in blocks].count("console") == 1  # what installs
    assert {block["language"] for block in blocks} == {"console", "sh", "text"}
    assert not any(block["why"] for block in blocks)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_command_exists_with_its_options(page: Path) -> None:
    for words, flags, said in _named(page.read_text(encoding="utf-8")):
        told = _help(words)
        assert [flag for flag in flags if not re.search(rf"(?<![\w-]){re.escape(flag)}(?![\w-])", told)] == [], said
        asked = re.match(r"oomctl query (?:--show|[A-Za-z]\S*) ([a-z_]+)(?!\S)", said)
        assert asked is None or asked[1] in queries.names("postmortem"), said


def test_enough_is_looked_up() -> None:
    named = [words for page in PAGES for words, _, _ in _named(page.read_text(encoding="utf-8"))]
    assert len(named) > 150 and {("attach",), ("freeze",), ("report",), ("ledger", "predict")} <= set(named)


def _named(page: str) -> list[tuple[tuple[str, ...], list[str], str]]:
    """(command, its options, the text) of each command in code of a page; what stands behind two spaces is a remark."""
    pieces = [line for block in FENCE.finditer(page) if block["language"] != "text" for line in block["text"].splitlines()]
    pieces += ["".join(found) for found in CODE.findall(FENCE.sub("", page))]
    found = []
    for piece in pieces:
        for said in re.split(r" {2,}| \| |#|`", piece):
            match = COMMAND.search(said)
            if match is not None:
                words = _command(tuple(match[1].split()))
                options = re.findall(r"(?<!\S)\[?(--?[a-z][\w-]*)", QUOTED.sub("", match[0]))
                found.append((words, options, match[0]))
    return found


def _command(words: tuple[str, ...]) -> tuple[str, ...]:
    """The command that some words begin with: `ledger predict` of `ledger predict config.json`."""
    name = words[0].rstrip(".,:;")
    assert name in _known(""), words
    below = words[1] if len(words) > 1 else None
    return (name, below) if below in _known(name) else (name,)


@cache
def _known(name: str) -> frozenset[str]:
    return frozenset(below(name))


@cache
def _help(words: tuple[str, ...]) -> str:
    return help_of(words)
