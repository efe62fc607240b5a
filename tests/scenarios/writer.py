"""What every engine can say, in words that no engine owns: plots are written against this class."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from tests.scenarios import facts
from tests.scenarios.entries import Background, Entry, Fact, Process, Script, Value
from tests.scenarios.figures import Figures
from tests.scenarios.message import Shortage
from tests.scenarios.stacks import Frame, Site


class Writer(ABC):
    """Collects the lines of one scenario in one engine's words.

    Attributes:
        figures: The seeded figures.
        script: The lines so far.
        incarnation: Which start of the worker, from 1.
        tracebacks: How many tracebacks were printed, for their ids.
    """

    engine: str

    def __init__(self, figures: Figures) -> None:
        self.figures = figures
        self.script = Script()
        self.incarnation = 1
        self.now_us = 0
        self.tracebacks = 0

    def say(
        self,
        text: str,
        *facts: Fact,
        process: Process = "core",
        where: str = "",
        level: str = "INFO",
        rank: int | None = None,
        exception: bool = False,
    ) -> None:
        """Print one line, now."""
        entry = Entry(self.now_us, text, process, level, where, rank, self.incarnation, facts, exception)
        self.script.entries.append(entry)
        self.now_us += 3_000

    def wait(self, low_s: float, high_s: float | None = None) -> None:
        """Let time pass."""
        self.now_us += round(self.figures.random.uniform(low_s, high_s or low_s) * 1e6)

    def fill(self, background: Background) -> None:
        """Put the filler here. A scenario does so once."""
        self.script.fill_at = len(self.script.entries)
        self.script.background = background
        self.wait(2, 6)

    def new_stack(self, frames: Sequence[Frame]) -> tuple[str, list[tuple[Frame, int, Fact]]]:
        """Give a traceback its id, and each frame its line number and its `stack` row."""
        self.tracebacks += 1
        stack_id = f"scenario-{self.tracebacks}"
        rows = []
        for depth, frame in enumerate(frames):
            line = 40 + (len(frame[2]) * 37 + len(frame[0]) * 11 + self.figures.line_shift) % 2_900
            fields: dict[str, Value] = {
                "stack_id": stack_id,
                "depth": depth,
                "file": self.path(frame[0]),
                "line": line,
                "function": frame[1],
                "code": frame[2],
            }
            rows.append((frame, line, Fact("stack", fields)))
        return stack_id, rows

    def restart(self) -> None:
        """The service manager starts the worker again."""
        self.wait(5, 15)
        text = "inference.service: Scheduled restart job, restart counter is at 1."
        self.say(text, facts.lifecycle("stopped", f"restart: {text}"), process="system", level="")
        self.incarnation += 1

    def kernel_kills(self, victim: str, pid: int, rss_kib: int) -> None:
        """The kernel's own words on a kill for lack of host memory."""
        text = f"{victim} invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE|__GFP_COMP), order=0, oom_score_adj=0"
        invoked = Fact("fault", {"code": "oom_killer", "detail": text})
        self.say(text, invoked, process="system", level="KERNEL", exception=True)
        text = f"Out of memory: Killed process {pid} ({victim}) total-vm:{rss_kib * 3}kB, anon-rss:{rss_kib}kB, "
        text += "file-rss:1180kB, shmem-rss:0kB, UID:0 pgtables:130560kB oom_score_adj:0"
        fields: dict[str, Value] = {"resource": "host", "api": "kernel", "error_type": "oom_kill", "message": text}
        fields |= {"victim": victim, "victim_pid": pid}
        rss = (rss_kib + 1180) * 1024
        oom = Fact("oom", fields | {"own_process_bytes": rss, "fatal": True})
        held = Fact("process", {"pid": pid, "name": victim, "rss_bytes": rss})
        self.say(text, oom, Fact("host", {"rss_bytes": rss}), held, process="system", level="KERNEL", exception=True)

    def killed(self, text: str) -> None:
        """A bare word of the shell or the supervisor on a SIGKILL."""
        killed = facts.lifecycle("killed", text, signal=9)
        self.say(text, killed, process="system", level="", exception=True)

    @abstractmethod
    def path(self, file: str) -> str:
        """A frame's file as this engine's installation prints it."""

    @abstractmethod
    def line(self, entry: Entry, ts_us: int) -> str:
        """The whole line with the engine's prefix."""

    @abstractmethod
    def start(self, **arguments: object) -> None:
        """Banner, arguments, configuration."""

    @abstractmethod
    def load(self) -> None:
        """The load begins."""

    @abstractmethod
    def weights(self) -> None:
        """Weights are loaded."""

    @abstractmethod
    def profile(self) -> None:
        """Memory profiling begins."""

    @abstractmethod
    def cache(self) -> None:
        """Memory is profiled and the KV pool allocated."""

    @abstractmethod
    def capture(self, *, ends: bool = True) -> None:
        """Device graphs are captured, or begin to be."""

    @abstractmethod
    def ready(self) -> None:
        """The server takes requests."""

    @abstractmethod
    def report(self, usage_tenths: int, running: int, waiting: int = 0, **rates: float) -> None:
        """The periodic report. `rates`: prompt, generation (tokens per second), preempted (requests)."""

    @abstractmethod
    def prefill(self, tokens: int, usage_tenths: int, running: int, waiting: int = 0) -> None:
        """A prefill batch ran, or is about to."""

    @abstractmethod
    def fail(self, site: Site, shortage: Shortage | str, *, wraps: str = "", step_tokens: int = 0) -> None:
        """The engine dies of an exception in all ranks, root first.

        Args:
            site: Where.
            shortage: The allocation that failed, or the exception as printed, where it carries no figures.
            wraps: A second exception that the engine raises from the first.
            step_tokens: Prompt tokens of the step that failed, where the engine dumps them.
        """

    @abstractmethod
    def reload(self) -> None:
        """New weights are put in the place of the old ones, in a running server."""

    @abstractmethod
    def rank_name(self, rank: int | None) -> str | None:
        """The rank or process as printed."""

    @abstractmethod
    def printed_by(self, entry: Entry) -> str | None:
        """The process whose name stands before a line, or None."""

    @abstractmethod
    def refuse(self, site: Site, text: str, gate: Fact) -> None:
        """The engine refuses to start: an exception that is a verdict of its own, not a failed allocation."""

    def up(self, **arguments: object) -> None:
        """The whole start, without a hitch."""
        self.start(**arguments)
        self.load()
        self.wait(15, 60)
        self.weights()
        self.wait(8, 20)
        self.cache()
        self.wait(1, 2)
        self.capture()
        self.wait(1, 2)
        self.ready()
        self.wait(5, 20)
