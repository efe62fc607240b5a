"""The adapter of aiperf, which sends the load: planned calls become a trace that it replays, its records become answers.

Facts of aiperf 0.13.0, tried: a trace of whole payloads is sent as it is, at the times that it tells; turns of a session
after their delay; a record is written as each request ends. A tokenizer is loaded although the server counts the tokens, so
a small one is put where it looks. SIGINT takes it three seconds; so its process group is killed.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

from oomctl.analyzers.capacity.experiment.observed import Answer
from oomctl.experiment.load.calls import Call, turns
from oomctl.experiment.load.records import Records
from oomctl.experiment.load.tokenizer import NAME, write_tokenizer
from oomctl.schemas.errors import ExitCode, OomctlError

EXECUTABLE = "OOMCTL_AIPERF"
"""Names the program, where it is not on PATH and not beside this Python."""
TRACE = "trace.jsonl"
LOOK_S = 0.1
START_S = 300.0
"""It starts ten processes before it sends anything: seconds, and on a busy machine half a minute."""


@dataclass(frozen=True)
class Cancel:
    """Clients that hang up.

    Attributes:
        ratio: Of the requests, drawn.
        after_s: Seconds after they were sent.
    """

    ratio: float
    after_s: float


@dataclass(frozen=True)
class Sent:
    """What became of a load.

    Attributes:
        answers: Of each request that was sent.
        begun_s: Where their times count from, on the monotonic clock; None where nothing was answered.
    """

    answers: list[Answer]
    begun_s: float | None


@dataclass
class Aiperf:
    """Sends calls to a server.

    Attributes:
        url: The server.
        model: What it calls its model.
        folder: For traces, records and logs of aiperf.
        seed: Of which requests are given up.
    """

    url: str
    model: str
    folder: Path
    seed: int = 0

    def run(
        self,
        calls: Sequence[Call],
        patience_s: float,
        stop: Event,
        seen: Callable[[Answer], None],
        cancel: Cancel | None = None,
    ) -> Sent:
        """Send all of them.

        Args:
            calls: In order of time.
            patience_s: Longest wait for answers after the last was due; what is under way then is hung up on.
            stop: Once it is set, every connection is closed.
            seen: Called with each answer as it comes.
            cancel: Who hangs up.

        Raises:
            OomctlError: If aiperf is not there, or does not come to send anything.
        """
        program = find()
        folder = _numbered(self.folder)
        trace = folder / TRACE
        with trace.open("w", encoding="utf-8") as file:
            file.writelines(_trace(calls, self.model))
        records = Records(folder / "out" / "profile_export.jsonl", calls)
        with (folder / "aiperf.log").open("wb") as said:
            process = subprocess.Popen(
                [program, *self._words(folder, cancel)],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                env={**os.environ, **write_tokenizer(self.folder)},
                start_new_session=True,
            )
        try:
            return self._follow(process, records, patience_s, stop, seen, folder)
        finally:
            # Its workers are in its group; a server sees their connections close at once.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            # The same seed makes it again.
            trace.unlink()

    def _follow(
        self,
        process: "subprocess.Popen[bytes]",
        records: Records,
        patience_s: float,
        stop: Event,
        seen: Callable[[Answer], None],
        folder: Path,
    ) -> Sent:
        """Take its records as they come, until all are there or it is enough."""
        launched_s, begun = time.monotonic(), False
        while not stop.is_set():
            ended = process.poll() is not None
            new = records.take()
            begun = begun or bool(new)
            for answer in new:
                seen(answer)
            now_s = time.monotonic()
            if records.complete or (begun and records.latest_s(patience_s) < now_s):
                break
            if ended or (not begun and now_s - launched_s > START_S):
                if not begun:
                    raise _failed(folder / "aiperf.log", process.returncode)
                break
            stop.wait(LOOK_S)
        return Sent(records.answers(), records.begun_s)

    def _words(self, folder: Path, cancel: Cancel | None) -> Iterator[str]:
        yield from ("profile", "--model", self.model, "--url", self.url, "--endpoint-type", "completions", "--streaming")
        yield from ("--custom-dataset-type", "mooncake_trace", "--input-file", str(folder / TRACE))
        yield from ("--fixed-schedule", "--use-server-token-count", "--tokenizer", NAME, "--export-level", "records")
        yield from ("--artifact-dir", str(folder / "out"), "--ui", "none", "--no-server-metrics", "--no-gpu-telemetry")
        # A server closes idle connections (uvicorn after 5 s), and one that is just then used again is a failed request.
        yield from ("--random-seed", str(self.seed), "--connection-reuse-strategy", "never")
        if cancel is not None:
            yield from ("--request-cancellation-rate", f"{cancel.ratio * 100:g}")
            yield from ("--request-cancellation-delay", f"{cancel.after_s:g}")


def find() -> str:
    """The program.

    Raises:
        OomctlError: If it is not installed.
    """
    beside = Path(sys.executable).with_name("aiperf")
    named = os.environ.get(EXECUTABLE) or shutil.which("aiperf") or (str(beside) if beside.exists() else None)
    if named is None:
        raise OomctlError(
            "aiperf, which sends the load, is not installed",
            f"pip install 'oomctl[experiment]', or name the program in {EXECUTABLE}",
            ExitCode.ENVIRONMENT,
        )
    return named


def _trace(calls: Sequence[Call], model: str) -> Iterator[str]:
    """A line per request: when, of which session, and the body as it is sent."""
    for number, call in enumerate(calls):
        before: Call | None = None
        for turn in turns(call):
            body = {
                "model": model, "prompt": list(turn.prompt), "max_tokens": turn.output_tokens, "ignore_eos": True,
                "temperature": 1.0, "stream": True, "stream_options": {"include_usage": True},
            }  # fmt: skip
            when: dict[str, Any] = {"timestamp": turn.due_s * 1000} if before is None else {"delay": before.pause_s * 1000}
            yield json.dumps({**when, "session_id": str(number), "payload": body}) + "\n"
            before = turn


def _numbered(folder: Path) -> Path:
    taken = [int(path.name) for path in folder.iterdir() if path.name.isdecimal()] if folder.exists() else []
    made = folder / f"{max(taken, default=0) + 1:03}"
    made.mkdir(mode=0o700, parents=True)
    return made


def _failed(log: Path, status: int | None) -> OomctlError:
    lines = [line for line in log.read_text("utf-8", "replace").splitlines() if "ERROR" in line or "Error" in line]
    why = lines[-1].strip()[:200] if lines else f"status {status}"
    return OomctlError(f"aiperf sent nothing: {why}", f"see {log}", ExitCode.ENVIRONMENT)
