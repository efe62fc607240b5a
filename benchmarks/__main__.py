"""`make bench`: every benchmark in a process of its own, one table of what they measured, and the same as JSON.

python -m benchmarks [PART...] [-o FILE | -u FILE]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.machine import ROOT, load, machine, words
from benchmarks.table import END, FIGURES_VARIABLE, HEADER, Result, line
from tests.engine.install import folder as engine_folder

SCHEMA = "oomctl.bench/1"
STDERR = 2
"""The descriptor: what a part prints is shown while it comes, and the table of all parts goes to stdout."""
FAILED = "the benchmark ended with status"
RESULTS = ROOT / "benchmarks" / "results"
"""Ignored by git."""
PARTS = {
    "command": ["benchmarks.command"],
    "live": ["benchmarks.live", "--day"],
    "recorder": ["benchmarks.recorder"],
    "snapshot": ["benchmarks.snapshot"],
    "capacity": ["benchmarks.capacity"],
}
AGENT_PARTS = ("record", "scheduler", "step", "throughput")


def measure(names: list[str]) -> Iterator[tuple[str, Result]]:
    """Each part's figures, once the part has ended."""
    for name in names:
        print(f"\n{name}", file=sys.stderr, flush=True)
        found = _agent() if name == "agent" else _run([sys.executable, "-m", *PARTS[name]])
        yield from ((name, result) for result in found)


def _run(command: list[str], environment: dict[str, str] | None = None) -> list[Result]:
    """What a part measured, and that it failed where it did."""
    with tempfile.TemporaryDirectory(prefix="oomctl-bench-") as scratch:
        figures = Path(scratch) / "figures.jsonl"
        variables = os.environ | (environment or {}) | {FIGURES_VARIABLE: str(figures)}
        status = subprocess.run(command, cwd=ROOT, env=variables, stdout=STDERR, check=False).returncode
        lines = figures.read_text(encoding="utf-8").splitlines() if figures.exists() else []
    found = [Result(**json.loads(text)) for text in lines if text != END]
    if END not in lines:
        found.append(Result("what else there is to measure", None, note=f"{FAILED} {status}"))
    return found


def _agent() -> list[Result]:
    """In the Python of a real engine, where there is one."""
    engine = Path(os.environ.get("OOMCTL_ENGINE") or engine_folder())
    python = engine / "bin" / "python"
    if not python.exists():
        return [Result("the agent inside a real engine", None, note="no engine is installed: make engine")]
    with tempfile.TemporaryDirectory(prefix="oomctl-bench-") as model:
        subprocess.run([python, "tests/engine/make_model.py", model], cwd=ROOT, check=True, stdout=STDERR)
        path = {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
        return [
            result for part in AGENT_PARTS for result in _run([str(python), "-m", "benchmarks.agent", model, part], path)
        ]


def _updated(earlier: dict[str, Any], later: dict[str, Any]) -> dict[str, Any]:
    """An earlier run with the later figures of the parts that were measured again, each with the machine of that time."""
    parts = {row["part"] for row in later["results"]}
    kept = [row for row in earlier["results"] if row["part"] not in parts]
    return earlier | {"results": kept + [row | {"machine": later["machine"]} for row in later["results"]]}


def main() -> int:
    """Print the table; 1 if a limit is missed or a part failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join([*PARTS, 'agent'])}; without, all")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="where the JSON goes, not into benchmarks/results"
    )
    parser.add_argument(
        "-u", "--update", type=Path, metavar="FILE", help="an earlier run whose figures of these parts are measured again"
    )
    args = parser.parse_args()
    if args.output and args.update:
        parser.error("-o or -u, not both")
    if unknown := set(args.parts) - {*PARTS, "agent"}:
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    facts = machine()
    found = list(measure(args.parts or [*PARTS, "agent"]))
    facts |= {"load_at_end": load()}
    rows = [{"part": part, **vars(result), "status": result.status} for part, result in found]
    document: dict[str, Any] = {"schema": SCHEMA, "machine": facts, "results": rows}
    if args.update:
        document = _updated(json.loads(args.update.read_text(encoding="utf-8")), document)
    output = args.output or args.update or RESULTS / f"{facts['begun'].replace(':', '')}.json"
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(words(facts))
    print(f"\n{'part':<9} {HEADER}")
    for part, result in found:
        print(f"{part:<9} {line(result)}")
    print(f"\n{output}", file=sys.stderr)
    return int(any(result.status == "missed" or result.note.startswith(FAILED) for _, result in found))


if __name__ == "__main__":
    sys.exit(main())
