"""A real vLLM server on the CPU: started, asked, ended."""

import contextlib
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO

READY_S = 480
"""Over a loaded machine's slowest start; a start takes about 25 s."""
STOP_S = 30

ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    # The model is tiny: more threads would only wait for each other, all the longer where others use the machine.
    "OMP_NUM_THREADS": "1",
    "VLLM_LOGGING_COLOR": "0",
}
BLOCK_TOKENS = 32
"""The CPU's attention takes multiples of 32 only."""


MAX_NUM_SEQS = 16


class ServerError(Exception):
    """The server did not start; carries the end of its log."""


class Server:
    """`vllm serve` as a context manager. Ready when entered; everything that it started is ended when left.

    Args:
        engine: The virtual environment that holds vLLM.
        model: The model's folder.
        log: Where its output goes.
        kv_blocks: Size of the KV pool; one of them is the engine's null block.
        arguments: More arguments of `vllm serve`.
        environment: More environment variables.
        limits: A command that the server is run by, such as `prlimit`.
    """

    def __init__(
        self,
        engine: Path,
        model: Path,
        log: Path,
        kv_blocks: int = 48,
        arguments: tuple[str, ...] = (),
        environment: Mapping[str, str] | None = None,
        limits: tuple[str, ...] = (),
    ) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        # The pool has to hold one request of the longest length.
        longest = str(min(1024, (kv_blocks - 1) * BLOCK_TOKENS))
        self.log = log
        self.command = [
            *limits, str(engine / "bin" / "vllm"), "serve", str(model), "--served-model-name", "tiny",
            "--host", "127.0.0.1", "--port", str(self.port), "--max-model-len", longest,
            "--max-num-seqs", str(MAX_NUM_SEQS),
            "--block-size", str(BLOCK_TOKENS), "--kv-cache-memory-bytes", str(kv_blocks * BLOCK_TOKENS * 1024),
            "--enforce-eager", "--enable-prefix-caching", *arguments,
        ]  # fmt: skip
        path = f"{engine / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "OOMCTL"))}
        self.environment = {**inherited, **ENVIRONMENT, "PATH": path, **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self._output: IO[bytes] | None = None

    def __enter__(self) -> "Server":
        self.start()
        try:
            self.wait_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The API server."""
        assert self._process is not None, "not started"
        return self._process

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and return at once."""
        self._output = self.log.open("wb")
        self._process = subprocess.Popen(
            self.command,
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            env=self.environment,
            start_new_session=True,
        )

    def wait_ready(self) -> None:
        """Wait until it serves.

        Raises:
            ServerError: If it ends first, or takes too long.
        """
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise ServerError(f"the server ended with status {self.process.returncode}:\n{self.log_end()}")
            try:
                with urllib.request.urlopen(f"{self.url}/health", timeout=5):
                    return
            except (OSError, urllib.error.URLError):
                time.sleep(0.25)
        raise ServerError(f"not ready after {READY_S} s:\n{self.log_end()}")

    def stop(self) -> int:
        """End it in order, then by force whatever of its session is left. Returns the server's exit status."""
        process = self.process
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
        status = process.wait()
        # A killed server can leave its core and workers behind for many minutes.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        if self._output is not None:
            self._output.close()
        return status

    def pid_of(self, name: str) -> int:
        """The one process of the server's session whose title holds `name`: "EngineCore" or "Worker".

        Raises:
            LookupError: If there is none, or more than one.
        """
        found = [
            int(folder.name)
            for folder in Path("/proc").iterdir()
            if folder.name.isdigit() and name in _title(folder) and _session(folder) == self.process.pid
        ]
        if len(found) != 1:
            raise LookupError(f"{len(found)} processes named {name}")
        return found[0]

    def cpu_s(self) -> float:
        """Processor time of all its processes so far, in ticks of 10 ms."""
        ticks = 0
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit() and _session(folder) == self.process.pid:
                with contextlib.suppress(OSError):
                    after_name = (folder / "stat").read_bytes().rpartition(b")")[2].split()
                    ticks += int(after_name[11]) + int(after_name[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def metrics(self) -> dict[str, float]:
        """/metrics: each name with the sum over its labels."""
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=30) as answer:
            text = answer.read().decode("utf-8")
        found: dict[str, float] = {}
        for line in text.splitlines():
            if line and not line.startswith("#"):
                series, _, value = line.rpartition(" ")
                name = series.partition("{")[0]
                found[name] = found.get(name, 0) + float(value)
        return found

    def log_end(self, lines: int = 40) -> str:
        """The last lines of its log."""
        return "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])


def _title(folder: Path) -> str:
    try:
        return (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return ""


def _session(folder: Path) -> int:
    try:
        return int((folder / "stat").read_bytes().rpartition(b")")[2].split()[3])
    except (OSError, IndexError):
        return -1
