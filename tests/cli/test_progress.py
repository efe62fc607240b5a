"""The note while reading: on a terminal only, and wiped out at the end."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from oomctl import progress

SCRIPT = """
import sys
from oomctl import progress
progress.AFTER_S = 0.01
progress.EVERY_S = 0.01
with progress.noted() as watch, open(sys.argv[1], "rb") as file:
    watch("a\\x1b[2J.log", file)
    file.read(10)
    import threading
    threading.Event().wait(float(sys.argv[2]))
print("data")
"""


def on_a_terminal(folder: Path, seconds: str) -> tuple[str, str]:
    """(stdout, what the terminal was sent)."""
    (folder / "a.log").write_bytes(b"x" * 2048)
    ours, theirs = pty.openpty()
    arguments = [sys.executable, "-c", SCRIPT, str(folder / "a.log"), seconds]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=theirs) as process:
        out, _ = process.communicate(timeout=100)
    os.close(theirs)
    sent = b""
    os.set_blocking(ours, False)
    try:
        while piece := os.read(ours, 65536):
            sent += piece
    except OSError:
        pass
    os.close(ours)
    return out.decode(), sent.decode()


def test_a_terminal_is_told_and_wiped(tmp_path: Path) -> None:
    out, sent = on_a_terminal(tmp_path, "1")
    assert out == "data\n"
    assert "oomctl: reading a\\x1b[2J.log, 2.00 KiB of 2.00 KiB" in sent
    assert "\x1b" not in sent and "\n" not in sent
    assert sent.endswith("\r" + " " * progress.WIDTH + "\r")


def test_what_is_quick_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    said: list[str] = []
    monkeypatch.setattr(progress, "_write", said.append)
    monkeypatch.setattr(progress, "AFTER_S", 3600.0)
    (tmp_path / "a.log").write_text("x")
    with progress.noted() as watch, (tmp_path / "a.log").open("rb") as file:
        watch("a.log", file)
    assert said == []


def test_a_pipe_is_never_told(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"x")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "a.log"), "0.3"], capture_output=True, timeout=100, check=True
    )
    assert (done.stdout, done.stderr) == (b"data\n", b"")
