"""`make bench-command`: CPU costs of the command, as ratios to what every machine can do, against their limits."""

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks import biglog, bulk, incident
from benchmarks.cpu import cost, cpu_s, imported, run
from benchmarks.table import Result, show

EXAMPLE = Path(__file__).parent.parent / "examples" / "vllm-graph-capture.log"
BIG_LOG_BYTES = 200_000_000
DIFFERENTIAL_BYTES = 20_000_000
"""Looking at every line of the big log would take minutes."""
DENSE_BYTES = 40_000_000
"""Of reports alone: as many rows as a mixed log of ten times the size has."""
REFERENCE = Path(__file__).with_name("reference.sql")
HEAVY_MODULES = ("duckdb", "polars", "altair")

RE_PASS = """
import re, sys, time
text = open(sys.argv[1], encoding="utf-8").read()
pattern = re.compile(
    "out of memory|KV cache usage|Traceback|Available KV cache memory|Model loading took"
    "|preempt|Retract requests|Killed|memory in use|Free memory on device"
)
before = time.process_time()
sum(1 for _ in pattern.finditer(text))
print(time.process_time() - before)
"""
"""One pass of `re` with a ten-way alternation over the whole text, timed without start-up and reading."""

PLAIN_DUCKDB = """
import duckdb, sys
plain = duckdb.connect()
plain.execute("SET enable_progress_bar = false")
plain.execute(open(sys.argv[1], encoding="utf-8").read(), {"file": sys.argv[2]}).fetchall()
"""


def measure() -> Iterator[Result]:
    """Each ratio as soon as it is known."""
    for arguments in (["-c", "pass"], ["-m", "oomctl", "--help"], ["-m", "oomctl", "triage", str(EXAMPLE)]):
        run(arguments)  # writes the .pyc files and fills the page cache
    bare_s = cpu_s(["-c", "pass"], repeats=20)
    yield Result("oomctl --help / python -c pass", cpu_s(["-m", "oomctl", "--help"], 10) / bare_s, 15)
    heavy = imported(["-m", "oomctl", "--help"]).intersection(HEAVY_MODULES)
    yield Result(f"heavy modules that --help imports ({', '.join(sorted(heavy)) or 'none'})", len(heavy), 0)
    triage_s = cpu_s(["-m", "oomctl", "triage", str(EXAMPLE)], 5)
    yield Result("oomctl triage, 42 lines / python -c pass", triage_s / bare_s, 80)
    with tempfile.TemporaryDirectory(prefix="oomctl-bench-") as folder:
        recording, page = Path(folder) / "incident.parquet", Path(folder) / "report.html"
        incident.write(recording)
        triage_s = cpu_s(["-m", "oomctl", "triage", str(recording)], 3)
        report_s = cpu_s(["-m", "oomctl", "report", str(recording), "-o", str(page), "--force"], 3)
        yield Result("oomctl report, ten minutes of 8 ranks: s of CPU beyond triage", report_s - triage_s, 6)
        yield Result("MB of that page", page.stat().st_size / 1e6, 4)
        yield from _ten_million(recording)
        log = Path(folder) / "big.log"
        biglog.write(log, BIG_LOG_BYTES)
        re_s = min(float(run(["-c", RE_PASS, str(log)]).stdout) for _ in range(3))
        big_s, peak_mib = min(cost(["-m", "oomctl", "triage", str(log)]) for _ in range(2))
        yield Result("oomctl triage, 200 MB / one pass of re", big_s / re_s, 5)
        yield Result("peak resident MiB of that", peak_mib, 400)
        for engine in ("vllm", "sglang"):
            biglog.write_dense(log, DENSE_BYTES, engine=engine)
            re_s = min(float(run(["-c", RE_PASS, str(log)]).stdout) for _ in range(3))
            dense_s, peak_mib = min(cost(["-m", "oomctl", "triage", str(log)]) for _ in range(2))
            yield Result(f"oomctl triage, 40 MB of {engine}'s reports / one pass of re", dense_s / re_s, 60)
            yield Result("peak resident MiB of that", peak_mib, 400)
        biglog.write(log, DIFFERENTIAL_BYTES)
        differing = run(["-m", "benchmarks.unfiltered", str(log)]).stdout
        yield Result("rows that differ when every line of 20 MB is looked at", int(differing), 0)


def _ten_million(recording: Path) -> Iterator[Result]:
    """A verdict on a long recording, beside one state for each of its requests and blocks."""
    # In a process of its own: what this one had held would count as its children's peak.
    rows = int(run(["-m", "benchmarks.bulk", str(recording), str(bulk.REQUESTS)]).stdout)
    reference_s, _ = min(cost(["-c", PLAIN_DUCKDB, str(REFERENCE), str(recording)]) for _ in range(2))
    triage_s, peak_mib = min(cost(["-m", "oomctl", "triage", str(recording)]) for _ in range(2))
    yield Result(f"oomctl triage, {rows / 1e6:.1f} million rows / reference.sql", triage_s / reference_s, 3)
    yield Result("peak resident MiB of that", peak_mib, 1500)
    (found,) = json.loads(run(["-m", "oomctl", "triage", "--json", str(recording)]).stdout)["incidents"]
    wrong = (found["class"], found["resource"], found["survived"]) != bulk.PLANTED
    yield Result("verdicts on it that are not what was planted", int(wrong), 0)


def main() -> int:
    """Print the table; 1 if a limit is missed."""
    return show(measure())


if __name__ == "__main__":
    sys.exit(main())
