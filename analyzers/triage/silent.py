"""Ends without words: what each may have been, the likeliest first, and which record would have told."""

from collections import Counter
from dataclasses import dataclass
from math import prod

from oomctl.analyzers.triage import commands, death, host
from oomctl.analyzers.triage.case import Case
from oomctl.analyzers.triage.evidence import EvidenceRow, statement
from oomctl.schemas.verdict import Alternative, Evidence, Missing


@dataclass(frozen=True)
class Silence:
    """What an end without words may have been.

    Attributes:
        says: What is known.
        readings: (what, confidence, why), the likeliest first.
        records: (record, collector, command) that would have told.
    """

    says: str
    readings: tuple[tuple[str, float, str], ...]
    records: tuple[tuple[str, str, str | None], ...]


_KERNEL = ("the kernel's log: whether it was the OOM killer", "host", commands.KERNEL_LOG)
_POD = ("how the container ended: its last state, reason and exit code", "host", commands.POD)
_CGROUP = ("the container's memory limit and its events", "host", commands.CGROUP)
_TRUE_STACK = ("where on the device it failed: the calls are asynchronous", "agent", commands.TRUE_STACK)
_CORE = ("the stack of the process that broke", "agent", commands.CORE)
_SHM = ("how full /dev/shm was", "host", commands.SHARED_MEMORY)
_OTHER_RANK = ("the log of the rank that fell silent", "agent", None)
_XID = ("what the driver reported", "nvml", commands.XID_LOG)
_NVML = ("what was in use on the device, as its driver counts", "nvml", commands.GPU_PROCESSES)

_OOM_KILLER = "the kernel's OOM killer, for host memory"
_SUPERVISOR = "a supervisor, an operator or a time limit ended it"
_DAEMON = ("a daemon that kills for memory (systemd-oomd, earlyoom)", 0.2, "the kernel does not count its kills")
_WATCHES = {"kernel_log": _KERNEL, "kill_count": _CGROUP}
"""Who looks for a kill, and the record that it stands for."""
_PEER_READINGS = (
    (_OOM_KILLER + ", on the rank that is gone", 0.4, "a rank that leaves no last words was usually killed"),
    ("a crash of that rank", 0.25, "native code that breaks prints nothing into the engine's log"),
    ("the network", 0.2, "a lost connection looks the same from here"),
)

SILENCES: dict[str, Silence] = {
    "sigkill": Silence(
        "the process was killed, and nothing here says by whom",
        (
            (_OOM_KILLER, 0.5, "the commonest SIGKILL that nobody announces"),
            (_SUPERVISOR, 0.3, "a grace period that ended, a failed probe, kill -9"),
        ),
        (_KERNEL, _CGROUP, _POD),
    ),
    "vanished": Silence(
        "the process is gone, and nothing here says how",
        (
            (_OOM_KILLER, 0.4, "it leaves no words in the victim's log"),
            ("a crash in native code", 0.3, "a segmentation fault leaves no traceback"),
            (_SUPERVISOR, 0.15, "a SIGKILL from outside looks the same"),
        ),
        (_KERNEL, _CGROUP, _POD),
    ),
    "segfault": Silence(
        "the process broke with a segmentation fault; nothing here says memory",
        (
            ("a defect in native code, or versions that do not fit", 0.5, "the plainest reading of a segmentation fault"),
            ("an allocation that failed unchecked", 0.25, "native code may use what an allocation did not give"),
        ),
        (_CORE, _TRUE_STACK, _NVML, _KERNEL),
    ),
    "bus_error": Silence(
        "the process broke with a bus error",
        (
            ("shared memory (/dev/shm) was full", 0.5, "a page that the file system cannot give is a bus error"),
            ("a mapped file was cut, or the disk failed", 0.25, "so is one beyond a file's end"),
            (_OOM_KILLER, 0.1, "the container's limit counts shared memory too"),
        ),
        (_SHM, _CGROUP, _KERNEL),
    ),
    "abort": Silence(
        "the process aborted itself; nothing here says why",
        (
            ("an exception in native code that nobody caught", 0.5, "its text stands above an abort, where it was kept"),
            ("a failed allocation in native code", 0.25, "malloc and the CUDA runtime end so where nobody checks"),
        ),
        (_CORE, _TRUE_STACK, _NVML),
    ),
    "peer_lost": Silence(
        "another rank closed the connection; what ended it stands in its own log",
        _PEER_READINGS,
        (_OTHER_RANK, _KERNEL, _POD),
    ),
    "nccl_timeout": Silence("a collective waited in vain for another rank", _PEER_READINGS, (_OTHER_RANK, _KERNEL, _XID)),
    "watchdog": Silence("the worker did not answer in time", _PEER_READINGS, (_OTHER_RANK, _KERNEL, _XID)),
    "engine_dead": Silence(
        "the engine says that it is dead, and nothing here says of what",
        (
            ("one of its processes was killed, or broke, without a word", 0.4, "what it says is what is left then"),
            (_OOM_KILLER, 0.3, "the commonest of such ends"),
            ("an exception whose text the log does not hold", 0.2, "another process may have printed it elsewhere"),
        ),
        (_OTHER_RANK, _KERNEL, _POD),
    ),
    "oom_killer": Silence(
        "the kernel's OOM killer was at work; whom it killed is not here",
        ((_OOM_KILLER, 0.55, "it had been called"), ("another process was its victim", 0.35, "the report is cut off")),
        (_KERNEL, _POD),
    ),
    "probe_kill": Silence(
        "the kubelet ended the container because its probe failed",
        (
            ("the engine hung, or was too slow to start", 0.5, "a probe fails on time, not on memory"),
            ("it was swapping, or waiting for memory", 0.2, "which slows a process down"),
        ),
        (_POD, _KERNEL),
    ),
}  # fmt: skip


MASKED = Silence(
    "an assertion about NVML stands where an out-of-memory message may have been",
    (
        ("device memory ran out, and the allocator could not report it", 0.5, "it asks NVML only when it has to report so"),
        ("NVML is not usable here: MIG, a container, Tegra", 0.3, "then any failed allocation, or none, ends so"),
    ),
    (_NVML, _TRUE_STACK, _XID),
)
"""An NVML assertion in place of the message."""


_GONE = frozenset({"peer_lost", "segfault", "bus_error", "oom_killer", "other_process_killed"})
"""Faults that tell of a process that is gone."""
_ENOUGH = 2
"""Other processes that must be heard, where the log does not tell how many there are."""


HUNG = Silence(
    "a collective waited in vain for ranks that were there",
    (
        ("ranks that wait for each other, in different collectives or kernels", 0.5, "none is gone, and none goes on"),
        ("a link or a device that no longer answers", 0.25, "an Xid, or a fabric's error, would tell"),
        ("a rank that computes, compiles or swaps for longer than the wait", 0.2, "it would have gone on"),
    ),
    (_XID, ("what each rank was doing", "agent", commands.STACKS)),
)
"""The same as a silent rank, where all of them are heard."""


def watched(case: Case) -> list[EvidenceRow]:
    """Who looked for a kill by the kernel as the process went, and saw none."""
    return case.ask("kill_watch") if case.root["what"] in ("killed", "fault", "death") else []


def of(case: Case) -> Silence | None:
    """The silence of a root that is one: a kill without the kernel's word, a crash, a rank that is gone."""
    if masked(case):
        return MASKED
    if case.root["what"] == "death":
        return None if death.told(case.root) else SILENCES["engine_dead"]
    if case.root["what"] not in ("killed", "fault"):
        return None
    return HUNG if all_heard(case) else SILENCES.get(case.root["name"])


def masked(case: Case) -> bool:
    """Whether an assertion about NVML is all there is of an out-of-memory error."""
    told = [member for member in case.members if member["what"] == "oom" and member["resource"] == "device"]
    return case.root["what"] == "oom" and bool(told) and all(member["api"] == "nvml_assert" for member in told)


def all_heard(case: Case) -> list[EvidenceRow]:
    """Lines of the other processes, where a rank gave up waiting and yet none is gone: they hang, or come late.

    They must be as many as the ranks of the worker, where the log tells how many there are, and stand on one node.
    """
    if case.root["name"] != "nccl_timeout" or (case.number("nnodes") or 1) > 1 or host.full(case):
        return []
    if any(row["what"] in ("oom", "killed", "refusal") or row["name"] in _GONE for row in case.members):
        return []
    rows = case.ask("heard")
    heard = max(Counter(row["name"][0] for row in rows).values(), default=0)  # a rank may write under two names
    sizes = [case.number("tensor_parallel_size", "tp_size", "tp"), case.number("pipeline_parallel_size", "pp_size", "pp")]
    ranks = prod(int(number or 1) for number in sizes)
    return rows if heard >= (ranks - 1 if ranks > 1 else _ENOUGH) else []


def about_host(case: Case) -> bool:
    """Whether host memory is what the end is most likely about."""
    if case.root["what"] == "killed":
        return not (ended_otherwise(case) or watched(case))
    return case.root["name"] == "oom_killer" or (of(case) is not None and bool(host.full(case)))


def ended_otherwise(case: Case) -> bool:
    """Whether somebody else than the kernel is known to have ended it."""
    return any(row["what"] == "probe_kill" for row in case.ask("ended_by"))


def others(case: Case) -> list[Evidence]:
    """What does not condemn the engine's memory: no kill was seen, another was its victim, or a probe had failed."""
    found = [statement(row["detail"], "undetermined", 0.5, [row]) for row in watched(case)]
    for row in case.ask("ended_by")[:2]:
        says = f"the kernel killed {row['detail']}, which is none of the engine's processes"
        if row["what"] == "probe_kill":
            says = "the kubelet ended the container because a probe had failed"
        found.append(statement(says, "undetermined", 0.5, [row]))
    return found


def alternatives(case: Case) -> list[Alternative]:
    """What it may have been, the likeliest first."""
    silence = of(case)
    if silence is None:
        return []
    readings = list(silence.readings)
    if watched(case):
        rest = [reading for reading in readings if not reading[0].startswith(_OOM_KILLER)]
        readings = sorted([*rest, _DAEMON], key=lambda reading: -reading[1]) if len(rest) < len(readings) else rest
    if case.root["what"] == "killed" and ended_otherwise(case):
        readings.insert(0, ("the kubelet, because a probe had failed", 0.6, "the pod's events say so"))
        readings = [
            (what, round(confidence / (2 if n else 1), 2), why) for n, (what, confidence, why) in enumerate(readings)
        ]
    return [Alternative(what=what, confidence=confidence, why=why) for what, confidence, why in readings]


def missing(case: Case) -> list[Missing]:
    """Which record would have told, each with the command to run now."""
    silence = of(case)
    if silence is None:
        return []
    known = [_WATCHES[row["name"]] for row in watched(case)]
    return [
        Missing(what=what, collector=by, command=command)
        for what, by, command in silence.records
        if (what, by, command) not in known
    ]
