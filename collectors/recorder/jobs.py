"""Processes beside the recorder: making Parquet, one at a time; and the hook, which nobody waits for."""

import json
import os
import shlex
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from oomctl.collectors.recorder.clock import Clock

JOB_S = 1800.0
"""A job that takes longer is ended."""
LAST_S = 25.0
"""What all that still wait may take when the recorder ends: an orchestrator's patience is 30 s."""
HOOK_S = 30.0
WAITING_HOOKS = 8


@dataclass
class Job:
    """One run of `oomctl.collectors.recorder.archive`.

    Attributes:
        words: Its command line.
        then: Called with what it printed, or with {"error": ...}.
    """

    words: list[str]
    then: Callable[[dict[str, Any]], None]
    process: "subprocess.Popen[bytes] | None" = field(default=None, repr=False)
    started_s: float = 0.0


class Jobs:
    """A queue of jobs, of which one runs.

    Args:
        clock: For the time that a job may take.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._queue: deque[Job] = deque()

    @property
    def busy(self) -> bool:
        """Whether a job runs or waits."""
        return bool(self._queue)

    def add(self, *words: str, then: Callable[[dict[str, Any]], None], first: bool = False) -> None:
        """Queue a job; `first` puts it before those that wait."""
        job = Job(list(words), then)
        if first and len(self._queue) > 1:
            self._queue.insert(1, job)
        else:
            self._queue.append(job)
        self.poll()

    def poll(self) -> None:
        """Start what waits, take in what has ended, end what takes too long. Never waits."""
        if not self._queue:
            return
        job = self._queue[0]
        if job.process is None:
            job.started_s = self._clock.monotonic_s()
            self._output = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the job
            try:
                job.process = subprocess.Popen(
                    [sys.executable, "-m", "oomctl.collectors.recorder.archive", *job.words],
                    stdin=subprocess.DEVNULL,
                    stdout=self._output,
                    stderr=self._output,
                    start_new_session=True,
                )
            except OSError as error:
                self._ended(job, {"error": f"cannot start it: {error}"})
            return
        code = job.process.poll()
        if code is None and self._clock.monotonic_s() - job.started_s > JOB_S:
            job.process.kill()
            job.process.wait()
            self._ended(job, {"error": f"took longer than {JOB_S:.0f} s"})
        elif code is not None:
            self._ended(job, self._result(code))

    def finish(self) -> None:
        """Wait for the jobs, for LAST_S in all; those that take longer are ended, and nobody is told."""
        end_s = self._clock.monotonic_s() + LAST_S
        while self._queue:
            self.poll()
            process = self._queue[0].process if self._queue else None
            if process is None:
                continue
            try:
                process.wait(max(end_s - self._clock.monotonic_s(), 0.01))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                self._queue.clear()

    def _ended(self, job: Job, result: dict[str, Any]) -> None:
        self._queue.popleft()
        self._output.close()
        job.then(result)
        self.poll()

    def _result(self, code: int) -> dict[str, Any]:
        self._output.seek(0)
        lines = self._output.read().decode("utf-8", "replace").strip().splitlines() or [""]
        try:
            result = json.loads(lines[-1])
        except ValueError:
            result = None
        return result if isinstance(result, dict) else {"error": f"ended with status {code}: {lines[-1][:300]}"}


class Hook:
    """Tells somebody of an incident: a command, or a POST where it is a URL. In its own thread, for at most HOOK_S.

    Args:
        command: Split as a shell would, but run without one. It gets the incident as JSON on its standard input, and its
            main facts as OOMCTL_* variables.
        failed: Called, in that thread, with why it failed.
    """

    def __init__(self, command: str, failed: Callable[[str], None]) -> None:
        self._command = command
        self._failed = failed
        self._waiting: deque[dict[str, Any]] = deque()
        self._wakes = threading.Condition()
        self._thread: threading.Thread | None = None

    def tell(self, incident: dict[str, Any]) -> None:
        """Queue an incident; never waits. One too many is counted as a failure."""
        with self._wakes:
            if len(self._waiting) >= WAITING_HOOKS:
                self._failed("too many incidents wait for the hook")
                return
            self._waiting.append(incident)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="hook", daemon=True)
                self._thread.start()

    def finish(self) -> None:
        """Wait until everybody was told, or it took too long."""
        thread = self._thread
        if thread is not None:
            thread.join(HOOK_S * (WAITING_HOOKS + 1))

    def _run(self) -> None:
        while True:
            with self._wakes:
                if not self._waiting:
                    self._thread = None
                    return
                incident = self._waiting.popleft()
            try:
                self._call(incident)
            except Exception as error:
                self._failed(f"{type(error).__name__}: {error}"[:300])

    def _call(self, incident: dict[str, Any]) -> None:
        body = json.dumps(incident).encode()
        if self._command.startswith(("http://", "https://")):
            request = urllib.request.Request(self._command, body, {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=HOOK_S):
                return
        variables = {f"OOMCTL_{key.upper()}": str(value) for key, value in incident.items()}
        done = subprocess.run(
            shlex.split(self._command),
            input=body,
            capture_output=True,
            env=os.environ | variables,
            timeout=HOOK_S,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"status {done.returncode}: {done.stderr.decode('utf-8', 'replace').strip()[-200:]}")
