"""The host's side of a log: what the kernel, the container runtime, supervisors and the drivers' tools say.

Each says it wherever it stands: in a file of its own, pasted into an engine's log, or merged with it line by line.
"""

from collections.abc import Callable

from oomctl.collectors.artifacts.logs.fact import Fact
from oomctl.collectors.artifacts.logs.system import crashes, devices, kernel, kubernetes, pods, ray, supervisors, telemetry
from oomctl.collectors.artifacts.logs.system.allocations import host_failure
from oomctl.collectors.artifacts.logs.system.block import Block
from oomctl.collectors.artifacts.logs.system.crashes import peer_lost

LITERALS = (
    "illed", "KILL", "oom", "OOM", "Oom", "xit", "status=", "eturned", "emory", "ENOMEM", "bad_alloc", "aligned_alloc",
    "iB", "died unexp", "has died", "is dead", "estart", "OUT_OF_ME", "Out Of Memory", "MEMLIMIT", "signal", "Signal",
    "SIG", "egfault", "egmentation", "us error", "bort", "eset by peer", "losed by", "emote", "socket closed",
    "got 0 bytes", "terminated", "total_vm", "NVIDIA-SMI", "nvidia-smi", "imits", "CrashLoop", "low on resource",
    "Stopping", " probe", "Xid", "DCGM_", "node_mem", "container_", "nvidia_gpu_", "mem_", "_mem", "memory", "MEM(GB)",
    "fb_used", "fb_free", "FBUSD", "FBFRE", "# gpu", "VRAM", "Watchdog", "eft-over", "Evict", "had condition",
    "ephemeral", "EmptyDir", "protection fault", "aging file", "error 1455", "No space left", "ontainers:", " READY ",
    "temporarily unavailable", "pthread_create", "new thread", "thread:", "OS thread", "fork rejected",
)  # fmt: skip
"""A line that tells one of these facts holds one of these texts, or stands below a heading that does."""

_ALONE: tuple[Callable[[str], list[Fact]], ...] = (
    kernel.facts, kubernetes.facts, ray.facts, supervisors.facts, crashes.facts, devices.facts, telemetry.facts,
)  # fmt: skip
"""In the order in which they are asked about a line; the first that knows it has it."""


def looks_like(text: str) -> bool:
    """A cheap first look; the patterns decide."""
    return any(map(text.__contains__, LITERALS))


def ordered(text: str) -> list[Fact]:
    """What an engine's own line, below WARNING, says of an order to end."""
    found = supervisors.facts(text) if "SIGTERM" in text or "signal 15" in text or "SIGINT" in text else []
    return [fact for fact in found if fact.fields.get("phase") == "draining"]


class System:
    """Reads the host's lines of one stream, keeping in mind under which heading a line stands."""

    def __init__(self) -> None:
        self._blocks: tuple[Block, ...] = (
            pods.Containers(),
            pods.Pods(),
            kernel.TaskTable(),
            kubernetes.Limits(),
            devices.NvidiaSmi(),
            devices.Monitor(),
            devices.RocmProcesses(),
            telemetry.Csv(),
            ray.TopUsers(),
        )

    @property
    def open(self) -> bool:
        """Whether the next line may stand below a heading, and matters whatever it holds."""
        return any(block.open for block in self._blocks)

    def facts(self, text: str) -> list[Fact]:
        """What a line that is no part of a traceback tells.

        Args:
            text: Without its outer prefix, redacted.
        """
        for block in self._blocks:
            found = block.take(text)
            if found or (found is not None and block.alone):
                return found
        stripped = text.strip()
        for facts in _ALONE:
            alone = facts(stripped)
            if alone:
                return alone
        return []


def surroundings(message: str) -> list[Fact]:
    """What a failure's message tells of the host around it."""
    return ray.surroundings(message)


__all__ = ["LITERALS", "System", "host_failure", "looks_like", "ordered", "peer_lost", "surroundings"]
