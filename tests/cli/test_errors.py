"""Every way to go wrong ends with its status, one line and a hint."""

import subprocess
import sys
from pathlib import Path

import pytest

from oomctl.cli.boundary import guard
from oomctl.schemas.errors import ExitCode, OomctlError
from tests.cli.run import oomctl


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["tirage", "x"], ("no such command 'tirage'", "did you mean 'triage'?")),
        (["triage"], ("missing argument 'PATH'", "oomctl triage --help")),
        (["triage", "x", "--fmt"], ("no such option: --fmt", "did you mean --format?")),
        (["triage", "x", "--format", "xml"], ("'xml' is not one of", "'jsonl'")),
        (["triage", "x", "--json", "--format", "csv"], ("--json and --format csv contradict",)),
        (["triage", "x", "--fail-on", "warmup"], ("does not know 'warmup'", "did you mean warm_up?")),
        (["explain", "OOM7"], ("no class 'OOM7'", "did you mean oom00")),
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


def test_compressed_log_names_the_pipe(tmp_path: Path) -> None:
    (tmp_path / "a.log.gz").write_bytes(b"\x1f\x8b\x08rest")
    oomctl("triage", "a.log.gz", cwd=tmp_path).assert_fails(3, "gzip -dc a.log.gz | oomctl triage -")


def test_reader_that_left_ends_quietly() -> None:
    done = subprocess.run(
        f"'{sys.executable}' -m oomctl schema events --sql | head -n 1; echo ${{PIPESTATUS[0]}}",
        shell=True,
        executable="/bin/bash",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "CREATE TABLE events (\n0\n"
    assert done.stderr == ""


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
