"""Known vulnerabilities of what oomctl runs with: `python -m tests.audit`, a part of `make check`.

What is installed here of the dependencies that pyproject.toml declares, and of theirs, is looked up by pip-audit. What was
not looked up, all of it where there is no network, is not audited, and that is said: it is no failure.
"""

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Any

from tests.working_tree import ROOT

LIMIT_S = 60
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def installed() -> dict[str, str]:
    """Name to version of all that oomctl needs, as it is installed here; without extras."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    found: dict[str, str] = {}
    waiting = list(_names(declared))
    while waiting:
        name = waiting.pop()
        try:
            if name not in found:
                found[name] = version(name)
                waiting += _names(requires(name) or ())
        except PackageNotFoundError:
            continue  # of another platform or Python
    return found


def looked_up(packages: dict[str, str]) -> str:
    """What pip-audit prints of them as JSON; nothing where it does not come to an end."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.writelines(f"{name}=={version_}\n" for name, version_ in sorted(packages.items()))
        file.flush()
        command = [sys.executable, "-m", "pip_audit", "--disable-pip", "--no-deps", "--progress-spinner", "off"]
        try:
            done = subprocess.run(
                [*command, "--format", "json", "-r", file.name],
                capture_output=True,
                text=True,
                timeout=LIMIT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return ""
    return done.stdout


def judged(packages: dict[str, str], printed: str) -> tuple[list[str], int]:
    """(lines to print, exit status): 1 if something is known to be vulnerable."""
    try:
        told: list[dict[str, Any]] = json.loads(printed)["dependencies"]
    except (ValueError, KeyError, TypeError):
        return [f"audit: not reachable: not audited ({len(packages)} packages)"], 0
    audited = [one for one in told if "vulns" in one]
    if not audited:
        return [f"audit: not reachable: not audited ({len(packages)} packages)"], 0
    missed = sorted(packages.keys() - {one["name"] for one in audited})
    lines = [
        f"audit: {len(audited)} of {len(packages)} packages looked up" + (f"; not: {', '.join(missed)}" if missed else "")
    ]
    found = [
        f"audit: {one['name']} {one['version']}: {vulnerability['id']}, mended in {vulnerability['fix_versions']}"
        for one in audited
        for vulnerability in one["vulns"]
    ]
    return [*lines, *found], int(bool(found))


def main() -> int:
    """Audit, and print what came of it."""
    packages = installed()
    lines, status = judged(packages, looked_up(packages))
    print("\n".join(lines))
    return status


def _names(requirements: Iterable[str]) -> Iterator[str]:
    for line in requirements:
        requirement, _, marker = line.partition(";")
        if "extra" not in marker and (match := _NAME.match(requirement)):
            yield re.sub(r"[-_.]+", "-", match[0]).lower()


if __name__ == "__main__":
    sys.exit(main())
