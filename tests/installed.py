"""What is shipped, used as a stranger would: `python -m tests.installed wheel|zipapp FILE` (make check-wheel, make zipapp).

From an empty folder, without this tree on its path, it tells its version, triages the example, and records a worker's log
until the incident is frozen, which takes a process of its own.
"""

import os
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path

from tests.working_tree import ROOT

MAX_WHEEL_BYTES = 2_000_000
EXAMPLE = ROOT / "examples" / "vllm-graph-capture.log"
VERDICT = "OUT OF MEMORY, warm_up (OOM002)"
FREEZE_S = 300.0
ALONE = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "OOMCTL_"))}
"""What an installation may know: where the packages come from, and nothing of this tree."""


def wheel(file: Path, folder: Path) -> list[str]:
    """Its size is bounded; it installs without an extra, and nothing that only an extra brings comes with it.

    Returns:
        The command that it installed.
    """
    assert file.stat().st_size < MAX_WHEEL_BYTES, f"{file.stat().st_size} bytes"
    python = folder / "venv" / "bin" / "python"
    _run([sys.executable, "-m", "venv", str(python.parent.parent)], folder, ALONE)
    bare = _installed(python, folder)  # some versions of venv bring setuptools
    _run([str(python), "-m", "pip", "install", "-qq", "--disable-pip-version-check", str(file.resolve())], folder, ALONE)
    came = _installed(python, folder) - bare
    assert only_in_extras(file).isdisjoint(came), only_in_extras(file) & came
    return [str(python.with_name("oomctl"))]


def _installed(python: Path, folder: Path) -> set[str]:
    listed = _run([str(python), "-m", "pip", "list", "--format=freeze", "--disable-pip-version-check"], folder, ALONE)
    return {line.partition("==")[0].replace("_", "-").lower() for line in listed.split()}


def only_in_extras(file: Path) -> set[str]:
    """The packages that a wheel asks for under an extra and not without one."""
    with zipfile.ZipFile(file) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        lines = archive.read(name).decode("utf-8").splitlines()
    wanted = [line.removeprefix("Requires-Dist: ") for line in lines if line.startswith("Requires-Dist: ")]
    names = [(line.replace(";", " ").split()[0], "extra ==" in line) for line in wanted]
    bare = [(name.split("<")[0].split(">")[0].split("=")[0].split("[")[0].lower(), extra) for name, extra in names]
    return {name for name, extra in bare if extra} - {name for name, extra in bare if not extra}


def zipapp(file: Path, folder: Path) -> list[str]:
    """It runs on the Python that built it, without that one's packages.

    Returns:
        The command that it is.
    """
    base = Path(sys.base_prefix) / "bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
    return [str(base), str(file.resolve())]


def tried(command: Sequence[str], folder: Path) -> None:
    """Use it."""
    assert _run([*command, "--version"], folder).startswith("oomctl ")
    assert _run([*command, "triage", str(EXAMPLE)], folder).startswith(VERDICT)
    log, recording = folder / "worker.log", folder / "recording"
    log.write_bytes(EXAMPLE.read_bytes())
    with subprocess.Popen(["sleep", "600"]) as worker:
        words = ["attach", str(worker.pid), "-o", str(recording), "--log", str(log), "--no-devices", "--metrics", "none"]
        with subprocess.Popen([*command, *words], cwd=folder, env=_environment(folder)) as recorder:
            try:
                _wait_for_incident(recording, recorder)
            finally:
                recorder.terminate()
                worker.kill()
    (frozen,) = (recording / "incidents").glob("*.parquet")
    assert _run([*command, "triage", str(frozen)], folder).startswith(VERDICT)


def _wait_for_incident(recording: Path, recorder: "subprocess.Popen[bytes]") -> None:
    until_s = time.monotonic() + FREEZE_S
    while not list((recording / "incidents").glob("*.parquet")):
        assert recorder.poll() is None and time.monotonic() < until_s, "no incident was frozen"
        time.sleep(0.5)


def _environment(folder: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(folder), "COLUMNS": "100"}


def _run(words: Sequence[str], folder: Path, environment: dict[str, str] | None = None) -> str:
    environment = environment or _environment(folder)
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}"
    return done.stdout


def main(kind: str, path: str) -> None:
    """Try it, and say so."""
    file = Path(path)
    with tempfile.TemporaryDirectory(prefix="oomctl-installed-") as name:
        folder = Path(name)
        tried({"wheel": wheel, "zipapp": zipapp}[kind](file, folder), folder)
    print(f"{file}: {file.stat().st_size / 1e6:.1f} MB; version, triage and a recorded incident: as they should be")


if __name__ == "__main__":
    main(*sys.argv[1:3])
