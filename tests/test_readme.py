"""The README shows parts of what `make demo` prints, word for word; OOMCTL_GOLDEN=write brings it up to date."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
EXAMPLE = "examples/vllm-graph-capture.log"
BLOCK = re.compile(r"(<!-- demo output -->\n)(?:```text\n.*?```\n)?", re.DOTALL)


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
