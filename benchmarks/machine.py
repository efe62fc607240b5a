"""The machine that figures were measured on, and what else it had to do."""

import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("duckdb", "polars", "pyarrow", "numpy", "msgspec", "zstandard", "typer", "altair")
ROOT = Path(__file__).parent.parent


def machine() -> dict[str, Any]:
    """Its facts; None where it does not tell. Loads are means over one minute."""
    return {
        "begun": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _git("rev-parse", "--short=12", "HEAD"),
        "changed_files": len((_git("status", "--porcelain") or "").splitlines()),
        "model": _field(Path("/proc/cpuinfo"), "model name") or platform.machine(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_kib": int((_field(Path("/proc/meminfo"), "MemTotal") or "0").split()[0]) or None,
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        "load": load(),
    }


def load() -> float | None:
    """Processes that want a core, over the last minute."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def words(facts: dict[str, Any]) -> str:
    """The same, for reading."""
    changed = f" and {facts['changed_files']} changed files" if facts["changed_files"] else ""
    packages = ", ".join(f"{name} {found}" for name, found in facts["packages"].items() if found)
    return (
        f"{facts['model']}, {facts['cores']} cores, load {facts['load']}; {facts['system']}; Python {facts['python']}\n"
        f"{packages}\ncommit {facts['commit']}{changed}, {facts['begun']}"
    )


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _field(path: Path, name: str) -> str | None:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), None)


if __name__ == "__main__":
    sys.stdout.write(words(machine()) + "\n")
