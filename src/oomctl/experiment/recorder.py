"""The flight recorder beside one life of a worker: `oomctl attach`, in a process of its own."""

import signal
import subprocess
import sys
import time
from pathlib import Path

SCRAPE = "1s"
ROUND_S = 5.0
"""It writes every second; it scrapes a page that costs much to read less often."""
END_S = 60.0
"""It waits 10 s for what follows a death, then freezes the incident."""


class Recorder:
    """Records a worker until it is stopped, or until the worker is gone and its incident is frozen.

    Args:
        target: Its pid, or its address where it runs elsewhere.
        folder: For the recording, and beside it what the recorder says.
        metrics: Its page.
        rings: Of its agent, or None.
        log: Its log, or None.
    """

    def __init__(self, target: str, folder: Path, metrics: str, rings: Path | None, log: Path | None) -> None:
        self.recording = folder / "recording"
        words = ["attach", target, "-o", str(self.recording), "--metrics", metrics, "--scrape", SCRAPE]
        words += ["--rings", str(rings)] if rings is not None else []
        words += ["--log", str(log)] if log is not None else []
        with (folder / "recorder.log").open("ab") as said:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "oomctl", *words],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )

    def finish(self) -> None:
        """Wait for it to see its worker's end, and to freeze what led to it."""
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self.stop()

    def stop(self) -> None:
        """End it in order."""
        try:
            if self._process.poll() is None:
                self._process.send_signal(signal.SIGTERM)
                self._process.wait(END_S)
        finally:
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait()

    def wait_for_rows(self) -> None:
        """Wait until it has written once more, so that what was just done is in the recording."""
        before, deadline_s = self._written(), time.monotonic() + ROUND_S
        while self._written() == before and time.monotonic() < deadline_s and self._process.poll() is None:
            time.sleep(0.1)

    def _written(self) -> int:
        return sum(path.stat().st_size for path in (self.recording / "live").glob("*.live"))

    @property
    def incidents(self) -> list[Path]:
        """What it froze."""
        return sorted((self.recording / "incidents").glob("*.parquet"))
