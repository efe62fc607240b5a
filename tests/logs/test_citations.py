"""Every row names its line, and the text of a log row is that line as `sed -n LINEp` shows it."""

import subprocess
from pathlib import Path

import pytest

from oomctl.collectors.artifacts.logs.redact import MAX_TEXT, redact
from oomctl.schemas.rows import Row
from tests import scenarios
from tests.logs.reading import NO_SHARED, read, shared_logs
from tests.logs.samples import SAMPLES

SEPARATORS = "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
"""Where str.splitlines() breaks a line, and sed does not."""


def assert_cited(log: bytes) -> list[Row]:
    rows = read(log)
    there = [line.decode("utf-8", "replace").rstrip("\r") for line in log.split(b"\n")]
    logged = {row["line"]: row["log"]["text"] for row in rows if row["kind"] == "log"}
    for line, text in logged.items():
        assert text == redact(there[line - 1])
    assert len(logged) == sum(row["kind"] == "log" for row in rows), "a line is logged once"
    cited = {row["line"] for row in rows if row["kind"] != "loss"}
    assert cited == set(logged), "every fact's line is a log row too"
    assert [row["seq"] for row in rows] == list(range(1, len(rows) + 1))
    return rows


@pytest.mark.parametrize("scenario", [scenario.name for scenario in scenarios.catalogue()])
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_scenarios(scenario: str, ending: str) -> None:
    for engine, ranks in (("vllm", 1), ("vllm", 4), ("sglang", 2)):
        log = scenarios.render_log(scenario, engine=engine, ranks=ranks)
        assert_cited(log.replace("\n", ending).encode())


LOGS = shared_logs("oom_logs/logs/*", "engine/*/*.log", "engine/*.log", "vllm_logs/*")


@pytest.mark.parametrize("path", LOGS or NO_SHARED, ids=lambda path: path and path.stem[:50])
def test_shared_logs(path: Path) -> None:
    assert_cited(path.read_bytes())


@pytest.mark.parametrize("engine", SAMPLES)
def test_against_sed(engine: str, tmp_path: Path) -> None:
    """GIVEN progress bars, carriage returns and odd separators THEN sed shows what the rows cite."""
    bars = "\r".join(f"Loading safetensors checkpoint shards: {n}% Completed | {n // 50}/2" for n in (0, 50, 100))
    odd = f"\r{bars}\rINFO 03-14 15:09:40 [a.py:1] Model loading took 1.25 GiB memory\n\n{SEPARATORS}{SEPARATORS}\n"
    log = (odd + SAMPLES[engine] + odd + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.00 MiB.").encode()
    path = tmp_path / "odd.log"
    path.write_bytes(log)
    rows = [row for row in assert_cited(log) if row["kind"] == "log"]
    assert rows
    for row in rows:
        shown = subprocess.run(["sed", "-n", f"{row['line']}p", str(path)], capture_output=True, check=True).stdout
        assert shown.decode().removesuffix("\n").rstrip("\r") == row["log"]["text"]


def test_a_line_is_cut_at_8_kib() -> None:
    log = "ERROR 03-14 15:09:40 [a.py:1] " + "x" * 20_000 + "\n"
    (row,) = assert_cited(log.encode())
    assert row["log"]["text"] == log[:MAX_TEXT]


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_lines_are_counted_as_wc_does_and_a_last_one_without_its_end(end: str) -> None:
    rows = read(f"a\r\rb\x0bc\n\nKilled{end}")
    assert [row["line"] for row in rows] == [3, 3]
