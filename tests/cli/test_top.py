"""`oomctl top` through its real entry point: once, replayed, and on a real terminal of 80 columns."""

import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

from oomctl.schemas import storage
from oomctl.schemas.rows import make_row
from tests.cli.run import oomctl

START = 1_700_000_000_000_000


def recording(folder: Path) -> Path:
    rows = [
        make_row(
            "kv_pool",
            {"used_blocks": 100 + 20 * second, "total_blocks": 1000},
            {"ts": START + second * 1_000_000, "seq": second, "stream": "s", "worker": "w", "incarnation": "1"},
        )
        for second in range(30)
    ]
    path = folder / "rec.parquet"
    connection = storage.connect()
    storage.load_rows(connection, rows)
    storage.write_parquet(connection, path, "test")
    connection.close()
    return path


def test_the_last_picture_of_a_recording(tmp_path: Path) -> None:
    ran = oomctl("top", "--replay", str(recording(tmp_path)), "--once")
    assert ran.code == 0
    assert "used 68%, full in 16 s" in ran.out


def test_nothing_to_show(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("INFO vllm: hello\n")
    oomctl("top", "--replay", str(log), "--once").assert_fails(3, "nothing with a time to show")
    oomctl("top", "1", "--replay", "x").assert_fails(2, "both a worker and --replay")
    oomctl("top", "--replay", str(recording(tmp_path))).assert_fails(2, "no terminal to draw on")


def test_a_terminal_of_eighty_columns(tmp_path: Path) -> None:
    path = recording(tmp_path)
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": "80", "LINES": "24", "TERM": "xterm"}
    command = [sys.executable, "-m", "oomctl", "top", "--replay", str(path), "--speed", "10"]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        seen = b""
        end_s = time.monotonic() + 60
        while b"full in" not in seen and time.monotonic() < end_s:
            if select.select([ours], [], [], 1)[0]:
                seen += os.read(ours, 65_536)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
    os.close(ours)
    text = seen.decode("utf-8", "replace")
    assert "oomctl top" in text and "full in" in text
    assert "Traceback" not in text
