"""The fixed part of `make fuzz`: every reader on its seeds and some mutations, in a process that a hang cannot stop."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.mutate import mutated
from tests.fuzz.run import TooMuch, bounded
from tests.fuzz.targets import TARGETS


def test_no_reader_has_a_finding(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.fuzz.run", "all", str(tmp_path), "quick"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=os.environ)
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.count(" inputs, ") == len(TARGETS)
    assert not list(tmp_path.iterdir())


def test_mutations_are_the_same_for_the_same_seed() -> None:
    data = b"Tried to allocate 48.00 MiB"
    found = [mutated(data, seed, [data, b"other"]) for seed in range(50)]
    assert found == [mutated(data, seed, [data, b"other"]) for seed in range(50)]
    assert len(set(found)) > 40


def test_an_exception_and_too_much_memory_are_findings_and_the_input_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(data: bytes) -> None:
        if data == b"bad":
            raise KeyError("x")

    with pytest.raises(KeyError):
        bounded(fail, [b"good", b"bad", b"never"], tmp_path / "last")
    assert (tmp_path / "last").read_bytes() == b"bad"
    monkeypatch.setattr("tests.fuzz.run.LIMIT_BYTES", 1)
    with pytest.raises(TooMuch):
        bounded(fail, [b"good"], tmp_path / "last")


def test_a_hang_ends_the_process_and_the_input_is_kept(tmp_path: Path) -> None:
    code = (
        "import re, sys; from pathlib import Path; from tests.fuzz import run; run.LIMIT_S = 0.2\n"
        "run.bounded(lambda data: re.match(rb'(a+)+$', data), [b'a' * 60 + b'!'], Path(sys.argv[1]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "last")], capture_output=True, timeout=300, check=False
    )
    assert done.returncode < 0
    assert b"in match" in done.stderr
    assert (tmp_path / "last").read_bytes() == b"a" * 60 + b"!"
