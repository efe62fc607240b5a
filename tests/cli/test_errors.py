"""Every way to go wrong ends with its status, one line and a hint."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from oomctl.cli.boundary import guard
from oomctl.schemas.errors import ExitCode, OomctlError
from tests.cli.run import oomctl
from tests.cli.test_triage import FAILURE, LOG


def bash(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/bash", "-c", command], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["tirage", "x"], ("no such command 'tirage'", "did you mean 'triage'?")),
        (["triage"], ("missing argument 'PATH...'", "oomctl triage --help")),
        (["triage", "x", "--fmt"], ("no such option: --fmt", "did you mean --format?")),
        (["triage", "x", "--format", "xml"], ("'xml' is not one of", "'jsonl'")),
        (["triage", "x", "--json", "--format", "csv"], ("--json and --format csv contradict",)),
        (["triage", "x", "--fail-on", "warmup"], ("does not know 'warmup'", "did you mean warm_up?")),
        (["triage", "x", "--fail-on", "OOM009"], ("does not know 'OOM009'", "did you mean oom00", "warm_up", "OOM002")),
        (["explain", "OOM7"], ("no class, engine or word of a verdict 'OOM7'", "did you mean oom00")),
        (["schema", "verdict", "--sql"], ("the verdict is not a table",)),
        (["schema", "events", "--sql", "--json"], ("contradict",)),
        (["query", "x", "name", "-c", "SELECT 1"], ("both a named query and -c",)),
        (["query", "x", "no_such_query"], ("no query named 'no_such_query'",)),
        (["import", "x"], ("missing option",)),
    ],
)
def test_usage_errors_exit_2(arguments: list[str], said: tuple[str, ...]) -> None:
    oomctl(*arguments).assert_fails(2, *said)


def test_missing_file_exits_3(tmp_path: Path) -> None:
    oomctl("triage", "gone.log", cwd=tmp_path).assert_fails(3, "no such file (gone.log)")


def test_control_characters_of_a_path_are_shown(tmp_path: Path) -> None:
    oomctl("triage", "\x1b[31mgone\n.log", cwd=tmp_path).assert_fails(3, r"(\x1b[31mgone\x0a.log)")


def test_parquet_of_others_exits_3(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_bytes(b"PAR1 and nothing more")
    oomctl("triage", "x.parquet", cwd=tmp_path).assert_fails(3, "x.parquet")


@pytest.mark.parametrize(
    "arguments", ["schema events --sql", "explain OOM001", "triage --json a.log", "query a.log phases"]
)
@pytest.mark.parametrize("reader", ["true", "head -n 1"])
def test_reader_that_left_ends_quietly(tmp_path: Path, arguments: str, reader: str) -> None:
    (tmp_path / "a.log").write_text(LOG + FAILURE)
    done = bash(f"'{sys.executable}' -m oomctl {arguments} | {reader} >/dev/null; echo ${{PIPESTATUS[0]}}", tmp_path)
    assert (done.stdout, done.stderr) == ("0\n", "")


def test_reader_that_left_changes_no_other_status(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(LOG + FAILURE)
    for arguments, code in (("triage a.log --json --fail-on any", 1), ("triage gone", 3)):
        done = bash(f"'{sys.executable}' -m oomctl {arguments} 2>&1 | true; echo ${{PIPESTATUS[0]}}", tmp_path)
        assert (done.stdout, done.stderr) == (f"{code}\n", "")


def test_closed_stdin(tmp_path: Path) -> None:
    done = bash(f"'{sys.executable}' -m oomctl triage - <&-", tmp_path)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("oomctl: error: standard input is closed (stdin)\nhint: ")


def test_device_is_refused_and_a_pipe_is_read(tmp_path: Path) -> None:
    oomctl("triage", "/dev/zero").assert_fails(3, "a device, not a log (/dev/zero)")
    (tmp_path / "a.log").write_text(LOG)
    done = bash(f"'{sys.executable}' -m oomctl triage <(cat a.log)", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_terminated_leaves_nothing_behind(tmp_path: Path) -> None:
    """It waits for more of its standard input, with the rows so far in a temporary folder."""
    with subprocess.Popen(
        [sys.executable, "-m", "oomctl", "triage", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    ) as process:
        assert process.stdin is not None
        process.stdin.write((LOG * 100).encode())
        process.stdin.flush()
        deadline = time.monotonic() + 60
        # The folder alone is not enough: a signal may come between its making and its owner's hearing of it.
        while not list(tmp_path.glob("oomctl-*/*")) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert list(tmp_path.glob("oomctl-*/*"))
        process.terminate()
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (143, b"", b"")
    assert list(tmp_path.iterdir()) == []


def test_closed_stdout_is_no_crash() -> None:
    command = f"'{sys.executable}' -m oomctl schema events >&-"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_full_disk_is_an_environment_error() -> None:
    command = f"'{sys.executable}' -m oomctl schema events > /dev/full"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert done.returncode == ExitCode.ENVIRONMENT
    assert done.stderr.startswith("oomctl: error: cannot write (standard output or TMPDIR): No space left")


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (OomctlError("what (where)", "fix"), 3, "oomctl: error: what (where)\nhint: fix\n"),
        (OomctlError("what", None, ExitCode.ENVIRONMENT), 4, "oomctl: error: what\n"),
        (ValueError("a\nb"), 70, "oomctl: error: internal error: ValueError: a b\nhint: run it again with --debug"),
        (MemoryError(), 70, "oomctl: error: internal error: MemoryError\nhint: "),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_boundary(error: BaseException, code: int, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    def body() -> int:
        raise error

    assert guard(body, debug=False) == code
    captured = capsys.readouterr()
    assert captured.err.startswith(said)
    assert "Traceback" not in captured.err
    assert captured.out == ""


def test_debug_shows_the_traceback_wherever_it_stands(tmp_path: Path) -> None:
    for arguments in (["--debug", "triage", "gone"], ["triage", "gone", "--debug"]):
        ran = oomctl(*arguments, cwd=tmp_path)
        assert ran.code == 3
        assert ran.err.startswith("Traceback")
        assert "oomctl: error: no such file (gone)" in ran.err


def test_data_is_utf8_whatever_the_locale() -> None:
    ran = oomctl("explain", "OOM001", PYTHONIOENCODING="ascii", LC_ALL="C")
    assert ran.code == 0
    assert ran.out == oomctl("explain", "load_time").out
