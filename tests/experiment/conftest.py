"""Experiments on a stand-in of an engine, with a stand-in of aiperf."""

import os
import shlex
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ENGINE = HERE / "fake_engine.py"


@pytest.fixture(autouse=True)
def aiperf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-in's program, as the adapter finds it."""
    monkeypatch.setenv("OOMCTL_AIPERF", str(stand_in(tmp_path)))


def stand_in(folder: Path) -> Path:
    """A program that does what the adapter asks of aiperf."""
    program = folder / "aiperf"
    words = shlex.join([sys.executable, str(HERE / "stand_in_aiperf.py")])
    program.write_text(f'#!/bin/sh\nexec {words} "$@"\n', encoding="utf-8")
    program.chmod(0o700)
    return program


def command(**options: object) -> str:
    """A command line of the stand-in engine; an option that is True is a flag."""
    words = [sys.executable, str(ENGINE)]
    for name, value in options.items():
        words += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    return shlex.join(words)


def processes(marker: str) -> list[int]:
    """Processes with this in their command line or environment, but for this one; or in what they map, for an engine's core
    writes its title over both, and its agent's rings are mapped."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal() or int(folder.name) == os.getpid():
            continue
        try:
            if any(marker.encode() in (folder / name).read_bytes() for name in ("cmdline", "environ", "maps")):
                found.append(int(folder.name))
        except OSError:
            continue
    return found
