"""What kubectl, the kubelet's events and container runtimes say of a container's end and of its limits."""

import re

from oomctl.collectors.artifacts.logs.fact import Fact, phase
from oomctl.collectors.artifacts.logs.pattern import Pattern
from oomctl.collectors.artifacts.logs.system import ends
from oomctl.collectors.artifacts.logs.system.block import Block

_OOM_KILLED = Pattern(
    r"\bOOMKilled\b(?![\"']?\s*[:=]\s*[\"']?(?:false|False|0|null|no\b))"
    r"|\bOOM Killed\b|\bTaskOOM\b|\bcontainer oom\b|OutOfMemoryError: Container killed due to memory usage"
)
_EVICTED = Pattern(
    r"low on resource: (?P<resource>[\w-]{1,40}(?:\.\w{1,20})?)|node had condition: \[(?P<condition>\w{1,40})\]"
    r"|(?P<disk>ephemeral (?:local )?storage usage exceeds|exceeded its local ephemeral storage limit)"
    r"|Usage of EmptyDir volume [\"'](?P<volume>[^\"']{1,100})[\"'] exceeds"
    r"|(?P<memory>Evicted.{0,120}\bmemory\b|exceed(?:s|ed) (?:its |total )?(?:local )?memory limit"
    r"|Container \S+ was using [\d.]+\w*, (?:which exceeds its request|request is) of? ?[\d.]+\w*.{0,60}memory)"
)
"""Why the kubelet ends a pod to relieve the node (pkg/kubelet/eviction): memory, or something else that ran out."""
_CONDITIONS = {"MemoryPressure": "memory", "DiskPressure": "ephemeral-storage", "PIDPressure": "pids"}
_IN_MEMORY = Pattern(r"(?i)shm|mem|ram")
"""A volume called so is most likely kept in memory, as /dev/shm is."""
_USING = Pattern(r"Container (\S{1,100}) was using (\d+(?:\.\d+)?)([KMGTP]i?)?")
_STOPPING = Pattern(r"\bStopping container \S|\bKilling\b.{0,80}\bStopping container")
_PROBE = Pattern(r"failed (?:liveness|startup) probe|(?:Liveness|Startup) probe failed")
_WILL_RESTART = Pattern(
    r"failed (?:liveness|startup) probe, will be restarted|Killing container with a grace period override"
)
_RESTART = Pattern(r"Back-off restarting failed container|\bCrashLoopBackOff\b|Restart Count:\s+[1-9]")

_SUFFIXES = {
    "": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15,
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50,
}  # fmt: skip


def quantity(number: str, suffix: str | None) -> int:
    """Bytes of a Kubernetes quantity such as 64Gi or 1.5G."""
    return round(float(number) * _SUFFIXES[suffix or ""])


def facts(text: str) -> list[Fact]:
    """What a line of a description, a list of pods, or an event tells."""
    if _OOM_KILLED.search(text) is not None:
        return [ends.oom_kill("supervisor", text)]
    evicted = _EVICTED.search(text)
    if evicted is not None:
        return [_eviction(evicted, text)]
    if _WILL_RESTART.search(text) is not None:
        return [Fact("fault", {"code": "probe_kill", "detail": text[: ends.MAX_DETAIL]})]
    if _PROBE.search(text) is not None:
        return []
    if _STOPPING.search(text) is not None:
        return [phase("draining", text)]
    if _RESTART.search(text) is not None:
        return [phase("stopped", f"restart: {text[:480]}")]
    return []


def _eviction(match: re.Match[str], text: str) -> Fact:
    """The end of a pod for memory; or, for another resource, a fault that says which."""
    resource = match["resource"] or _CONDITIONS.get(match["condition"] or "", match["condition"])
    if match["disk"]:
        resource = "ephemeral-storage"
    elif match["volume"]:
        resource = "memory" if _IN_MEMORY.search(match["volume"]) else f"volume {match['volume']}"
    if resource not in (None, "memory"):
        return Fact("fault", {"code": "evicted", "detail": f"{resource}: {text}"[: ends.MAX_DETAIL], "fatal": True})
    using = _USING.search(text)
    held = quantity(using[2], using[3]) if using is not None else None
    return ends.oom_kill("kubelet", text, own_process_bytes=held)


class Limits(Block):
    """The limits of a container, as `kubectl describe` and manifests list them."""

    heading = Pattern(r"^\s*[\"']?[Ll]imits[\"']?:\s*\{?$")
    _MEMORY = Pattern(r"^\s*[\"']?memory[\"']?:\s+[\"']?(\d+(?:\.\d+)?)([KMGTP]i?)?[\"']?,?$")
    _OTHER = Pattern(r"^\s*[\"']?[\w./-]+[\"']?:\s+\S+$")

    def row(self, text: str) -> list[Fact] | None:
        """The limit of memory; other resources are passed over."""
        memory = self._MEMORY.match(text)
        if memory is not None:
            self.close()
            return [Fact("host", {"cgroup_limit_bytes": quantity(memory[1], memory[2])})]
        if self._OTHER.match(text) is None:
            self.close()
            return None
        return []
