"""`--help` is cheap, complete, and loads nothing that it does not need."""

import subprocess
import sys

import pytest

from tests.cli.run import oomctl

COMMANDS = (
    "triage",
    "attach",
    "doctor",
    "freeze",
    "import",
    "export",
    "query",
    "report",
    "top",
    "fleet",
    "snapshot",
    "explain",
    "schema",
    "ledger",
    "capacity",
    "config",
)
HEAVY = ("tomllib", "duckdb", "polars", "altair", "pyarrow", "numpy", "rich", "msgspec", "pydantic", "opentelemetry")

PROBE = """
import sys
from oomctl.cli.app import main
try:
    main(sys.argv[2:])
except SystemExit as end:
    heavy = [name for name in sys.argv[1].split(",") if name in sys.modules]
    sys.exit(f"loaded {heavy}" if heavy else end.code)
"""


@pytest.mark.parametrize("arguments", [(), *((command,) for command in COMMANDS)], ids=lambda words: " ".join(words))
def test_help_loads_nothing_heavy(arguments: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROBE, ",".join(HEAVY), *arguments, "--help"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"Usage: {' '.join(('oomctl', *arguments))}")
    assert done.stderr == ""


def test_help_lists_the_commands_that_exist() -> None:
    lines = oomctl("--help").out.split("Commands:\n")[1].split("\n\n")[0].splitlines()
    assert tuple(line.split()[0] for line in lines) == COMMANDS
    assert not any(line.endswith("...") for line in lines)


def test_bare_command_is_a_usage_error_with_help_on_stderr() -> None:
    ran = oomctl()
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == oomctl("-h").out


def test_version() -> None:
    ran = oomctl("--version")
    assert (ran.code, ran.out, ran.err) == (0, "oomctl 0.1.0\n", "")


def test_usage_shows_that_several_paths_are_taken() -> None:
    for command in ("triage", "import"):
        assert "PATH..." in oomctl(command, "--help").out.splitlines()[0]
