"""The workers of a node: processes grouped by the server that they belong to."""

from dataclasses import dataclass, field
from pathlib import Path

from oomctl.collectors.artifacts.logs.redact import redact
from oomctl.collectors.live.discover.ports import listening
from oomctl.collectors.live.discover.process import Process, every
from oomctl.collectors.live.discover.published import Published, of_arguments
from oomctl.collectors.live.discover.signs import Sign, sign_of
from oomctl.collectors.live.processes import PROC, descendants


@dataclass(frozen=True)
class Worker:
    """An engine that runs here.

    Attributes:
        engine: vllm, sglang, ...
        pid: Its server; of an orphan the process itself.
        orphan: A part of an engine whose server is gone: it holds its memory for nobody.
        command: Its command line, without what may be a secret.
        members: Process to the name it gave itself, of all that belong to it.
        container: Container id, or "".
        pod: Pod uid, or "".
        ports: On which it listens.
        devices: CUDA_VISIBLE_DEVICES (or the like) as it was set; None where it was not, or may not be read.
        rings: Folder of the agent's rings, or None.
        published: Where it is told to publish KV events: (endpoint, replay or None), a wildcard for its own address.
        readable: Whether its environment and files may be read from here.
    """

    engine: str
    pid: int
    orphan: bool
    command: str
    members: dict[int, str] = field(default_factory=dict)
    container: str = ""
    pod: str = ""
    ports: tuple[int, ...] = ()
    devices: str | None = None
    rings: str | None = None
    published: tuple[Published, ...] = ()
    readable: bool = True


def workers(proc: Path = PROC) -> list[Worker]:
    """All engines of this node, by pid.

    An engine inside another's tree (Triton's Python backend that starts vLLM, Dynamo) is part of the outermost one's
    processes and is named by its own.
    """
    processes = every(proc)
    signs = {pid: sign for pid, process in processes.items() if (sign := sign_of(process.command)) is not None}
    roots = [pid for pid in sorted(signs) if not _inside(pid, processes, signs)]
    return [_worker(pid, signs, processes, proc) for pid in roots]


def _inside(pid: int, processes: dict[int, Process], signs: dict[int, Sign]) -> bool:
    """Whether an ancestor is an engine's process too."""
    seen = {pid}
    at = processes[pid].parent
    while at in processes and at not in seen:
        if at in signs:
            return True
        seen.add(at)
        at = processes[at].parent
    return False


def _worker(root: int, signs: dict[int, Sign], processes: dict[int, Process], proc: Path) -> Worker:
    members = descendants(root, {pid: process.parent for pid, process in processes.items()})
    process = processes[root]
    inner = [signs[pid] for pid in members if pid in signs]
    # What listens for others (Triton, Dynamo) is named by the engine that it runs.
    named = next((sign for sign in inner if sign.engine not in ("triton", "dynamo")), signs[root])
    environment = process.environment
    own = environment or {}
    return Worker(
        engine=named.engine,
        pid=root,
        orphan=signs[root].part == "worker",
        command=redact(process.command)[:500],
        members={pid: processes[pid].arguments[0][:80] for pid in members},
        container=process.container,
        pod=process.pod,
        ports=tuple(listening(members, proc)),
        devices=next((own[name] for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES") if name in own), None),
        rings=own.get("OOMCTL_RING"),
        published=tuple(dict.fromkeys(found for pid in members for found in of_arguments(processes[pid].arguments))),
        readable=environment is not None,
    )
