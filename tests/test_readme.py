"""The README shows parts of what `make demo` prints and figures of `make bench`; OOMCTL_GOLDEN=write updates both."""

import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

from benchmarks.table import result_of

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
EXAMPLE = "examples/vllm-graph-capture.log"
BLOCK = re.compile(r"(<!-- demo output -->\n)(?:```text\n.*?```\n)?", re.DOTALL)

FIGURES = ROOT / "benchmarks" / "figures.json"
"""What `python -m benchmarks -o FILE` wrote."""
SHOWN = {
    "oomctl --help / python -c pass": "`--help` {} times a bare `python`",
    "oomctl triage, 42 lines / python -c pass": "triage of 42 lines {}",
    "oomctl triage, 200 MB / one pass of re": "of 200 MB {} passes of `re`",
}
COSTS = re.compile(r"- There: what it costs.*?\n(?=- |\n)", re.DOTALL)


def _costs() -> str:
    """A paragraph of the figures that one run measured."""
    document = json.loads(FIGURES.read_text(encoding="utf-8"))
    machine = document["machine"]
    rows = {row["name"]: result_of(row) for row in document["results"]}
    told = [
        f"{words.format(row.shown)} ({row.limit:g})"
        for name, words in SHOWN.items()
        if (row := rows.get(name)) is not None and row.value is not None
    ]
    assert told, "figures.json has none of the figures that are shown"
    where = f"{machine['cores']} cores under a load of {machine['load']:.0f} to {machine['load_at_end']:.0f}"
    text = f"- There: what it costs, by `make bench` ({where}; limits in brackets): {', '.join(told)}."
    return textwrap.fill(text, 126, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False) + "\n"


def test_the_figures_are_those_of_a_run_of_the_benchmarks() -> None:
    text = README.read_text(encoding="utf-8")
    expected = COSTS.sub(lambda _: _costs(), text)
    if os.environ.get("OOMCTL_GOLDEN") == "write":
        README.write_text(expected, encoding="utf-8", newline="\n")
    assert COSTS.search(text) is not None
    assert text == expected


def _printed() -> str:
    environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        [sys.executable, "-m", "oomctl", "triage", EXAMPLE],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        check=True,
        timeout=120,
    )
    verdict, *sections = done.stdout.decode("utf-8").split("\n\n")
    shown = [section for section in sections if section.startswith(("DO NOW", "WHAT TO CHANGE"))]
    return "\n\n[...]\n\n".join([verdict, *shown]) + "\n"


def test_the_readme_shows_parts_of_what_the_demo_prints() -> None:
    text = README.read_text(encoding="utf-8")
    expected = BLOCK.sub(lambda match: f"{match[1]}```text\n{_printed()}```\n", text)
    if os.environ.get("OOMCTL_GOLDEN") == "write":
        README.write_text(expected, encoding="utf-8", newline="\n")
    assert text == expected
