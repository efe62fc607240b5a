"""One life of the worker under experiment: its server, the recorder and the guard beside it, and what it says of itself."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Event

from oomctl.analyzers.capacity.experiment.breaks import Floors
from oomctl.analyzers.capacity.experiment.observed import Look
from oomctl.collectors.artifacts.logs.redact import redact
from oomctl.collectors.live.http import FetchError, get
from oomctl.experiment.recorder import Recorder
from oomctl.experiment.server import Server
from oomctl.experiment.watch import DeviceMemory, Watch
from oomctl.schemas.errors import ExitCode, OomctlError

QUIET_S = 60.0
"""Longest wait for a worker to have nothing to do."""
LOOK_S = 0.2
USUAL_LENGTH = 2048


@dataclass
class Life:
    """A worker that serves.

    Attributes:
        url: Where.
        folder: Of its log and its recording.
        server: The process; None where somebody else started it.
        recorder: Beside it.
        watch: The guard.
        ready_s: From its start until it served; None where it served already.
    """

    url: str
    folder: Path
    server: Server | None
    recorder: Recorder
    watch: Watch
    ready_s: float | None = None

    @cached_property
    def model(self) -> tuple[str, int]:
        """What it calls its model, and the most tokens that it takes.

        Raises:
            OomctlError: If it does not say.
        """
        try:
            told = json.loads(get(f"{self.url}/v1/models", 5.0).body)["data"][0]
            return str(told["id"]), int(told.get("max_model_len") or USUAL_LENGTH)
        except (FetchError, ValueError, LookupError, TypeError) as error:
            raise OomctlError(f"names no model ({self.url}/v1/models)", None, ExitCode.ENVIRONMENT) from error

    def quiet(self, timeout_s: float = QUIET_S) -> Look | None:
        """Wait until nothing runs or waits; the look that shows it, or None where it does not come to that."""
        deadline_s = time.monotonic() + timeout_s
        while time.monotonic() < deadline_s and not self.watch.gone:
            look = self.watch.look()
            if look is not None and not look.running and not look.waiting:
                return look
            time.sleep(LOOK_S)
        return None


@contextmanager
def launched(
    command: str, folder: Path, rings: Path, floors: Floors, say: Callable[[str], None], stop: Event | None = None
) -> Iterator[Life]:
    """A life that begins here, and ends with all its processes when it is left; `stop` ends it while it still loads.

    Its worker is called as its folder is, without the number: two at once are two, and one restarted is the same.

    Raises:
        DiedEarly: If it does not come to serve.
    """
    log = folder / "server.log"
    server = Server(command, log, rings, folder.name.partition("-")[2])
    with ExitStack() as ending:
        ending.callback(server.stop)
        say(f"launching {redact(command)}")
        server.start()
        recorder = Recorder(str(server.pid), folder, f"{server.url}/metrics", rings, log)
        ending.callback(recorder.stop)
        ready_s = server.wait_ready(stop=stop)
        if ready_s is None:
            server.stop()
            recorder.finish()
            raise DiedEarly(recorder, log)
        say(f"it serves after {ready_s:.1f} s ({server.url})")
        memory = DeviceMemory(server.environment.get("CUDA_VISIBLE_DEVICES"))
        watch = Watch(f"{server.url}/metrics", floors, lambda: server.alive, memory)
        with watch:
            yield Life(server.url, folder, server, recorder, watch, ready_s)


@contextmanager
def attached(url: str, folder: Path, floors: Floors) -> Iterator[Life]:
    """A life that began before, and goes on.

    Raises:
        OomctlError: If nothing serves there.
    """
    from oomctl.targets import find

    target = find(url)
    page = target.metrics or f"{url}/metrics"
    here = target.pid is not None
    memory = DeviceMemory(target.visible_devices) if here else dict
    watch = Watch(page, floors, None, memory)
    look = watch.look()
    if look is None:
        raise OomctlError(f"no page of metrics, without which nothing is guarded ({page})", None, ExitCode.ENVIRONMENT)
    if look.running or look.waiting:
        busy = (look.running or 0) + (look.waiting or 0)
        raise OomctlError(
            f"serves {busy} requests of others, which an experiment would disturb ({url})",
            "take it out of service first",
            ExitCode.ENVIRONMENT,
        )
    recorder = Recorder(str(target.pid) if here else url, folder, page, target.rings, None)
    try:
        with watch:
            yield Life(url, folder, None, recorder, watch)
    finally:
        recorder.stop()


class DiedEarly(Exception):
    """A server that was launched never served; carries what recorded it."""

    def __init__(self, recorder: Recorder, log: Path) -> None:
        super().__init__(f"it never served ({log})")
        self.recorder = recorder
        self.log = log
