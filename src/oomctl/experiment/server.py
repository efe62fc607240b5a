"""The server that an experiment launches: started, waited for, and ended with all that it started."""

import contextlib
import os
import shlex
import signal
import socket
import subprocess
import time
from pathlib import Path
from threading import Event

from oomctl.collectors.live.http import FetchError, get
from oomctl.schemas.errors import ExitCode, OomctlError

READY_S = 1800.0
"""A large model loads for many minutes; a server that ends is not waited for."""
STOP_S = 30.0
LOOK_S = 0.25
HEALTH = "/health"


class Server:
    """A command line that serves, on a port that the experiment chooses.

    Args:
        command: As typed; NAME=VALUE words before it are its environment.
        log: Where its output goes.
        rings: Folder for its agent's rings.
        worker: What its agent and its recorder call it, where nobody else has named it.

    Attributes:
        environment: Of its process.
    """

    def __init__(self, command: str, log: Path, rings: Path, worker: str) -> None:
        self.log = log
        self._port, given, self._words = on_port(command)
        self.environment = {"OOMCTL_WORKER": worker, **os.environ, **given, "OOMCTL_RING": str(rings.resolve())}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def pid(self) -> int:
        """Of the process that was started."""
        assert self._process is not None, "not started"
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether that process runs."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it in a session of its own, which a terminal's Ctrl-C does not reach, and return at once.

        Raises:
            OomctlError: If there is no such command.
        """
        with self.log.open("ab") as output:
            try:
                self._process = subprocess.Popen(
                    self._words,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=self.environment,
                    start_new_session=True,
                )
            except OSError as error:
                raise OomctlError(
                    f"cannot launch {self._words[0]!r}: {(error.strerror or str(error)).lower()}",
                    "give the command as a shell would run it, with its path",
                    ExitCode.ENVIRONMENT,
                ) from error

    def wait_ready(self, timeout_s: float = READY_S, stop: Event | None = None) -> float | None:
        """Wait until it serves; the seconds that took, or None if it ended, never came to it, or is not wanted any more."""
        begun_s = time.monotonic()
        while self.alive and time.monotonic() - begun_s < timeout_s and not (stop is not None and stop.is_set()):
            if healthy(self.url):
                return time.monotonic() - begun_s
            time.sleep(LOOK_S)
        return None

    def stop(self) -> None:
        """End it in order, then by force whatever of its session is left: a killed server can leave workers behind."""
        process = self._process
        if process is None:
            return
        try:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(STOP_S)
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def healthy(url: str) -> bool:
    """Whether a server answers that it serves."""
    try:
        return get(f"{url}{HEALTH}", 2.0, 65_536).status == 200
    except FetchError:
        return False


def visible_devices(command: str) -> str | None:
    """CUDA_VISIBLE_DEVICES of a command line, else of this process; None where it is not set."""
    return {**os.environ, **on_port(command)[1]}.get("CUDA_VISIBLE_DEVICES")


def on_port(command: str) -> tuple[int, dict[str, str], list[str]]:
    """A command line with a free port in place of its own, so that two of it run beside each other.

    Returns:
        The port, the variables that stand before the command, and its words.

    Raises:
        OomctlError: If it is no command line.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise _no_command(command, str(error)) from error
    environment = {}
    while words and "=" in words[0] and words[0].partition("=")[0].isidentifier():
        name, _, value = words.pop(0).partition("=")
        environment[name] = value
    if not words:
        raise _no_command(command, "no words")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    for place, word in enumerate(words):
        if word == "--port" and place + 1 < len(words):
            words[place + 1] = str(port)
            break
        if word.startswith("--port="):
            words[place] = f"--port={port}"
            break
    else:
        words += ["--port", str(port)]
    return port, environment, words


def _no_command(command: str, why: str) -> OomctlError:
    return OomctlError(
        f"--launch is no command line: {command[:80]!r} ({why})", 'such as "vllm serve MODEL"', ExitCode.USAGE
    )
