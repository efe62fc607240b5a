"""Event tables to triage: labelled scenarios, and small ones made by hand, row by row."""

from typing import TYPE_CHECKING, Any

from oomctl import queries
from oomctl.analyzers.triage import triage
from oomctl.analyzers.triage.case import Case
from oomctl.analyzers.triage.evidence import Answers
from oomctl.analyzers.triage.groups import incidents
from oomctl.schemas import storage
from oomctl.schemas.rows import Row, make_row
from oomctl.schemas.verdict import Incident
from tests.scenarios.connected import connected

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MIB = 2**20
GIB = 2**30

LOADING = ("spawned", "loading")
WARMING = (*LOADING, "weights_loaded")
SERVING = (*WARMING, "kv_allocated", "ready")

LOAD_FRAME = ("/pkg/vllm/model_executor/model_loader/base_loader.py", "load_weights")
STAGING_FRAME = ("/pkg/vllm/model_executor/layers/quantization/fp8.py", "process_weights_after_loading")
CAPTURE_FRAME = ("/pkg/vllm/v1/worker/gpu_model_runner.py", "capture_model")
AUTOTUNE_FRAME = ("/pkg/triton/runtime/autotuner.py", "run")
STEP_FRAME = ("/pkg/vllm/v1/engine/core.py", "run_busy_loop")
LOGITS_FRAME = ("/pkg/vllm/v1/sample/sampler.py", "compute_logprobs")
DECODE_FRAME = ("/pkg/sglang/srt/managers/schedule_batch.py", "prepare_for_decode")
WAKE_FRAME = ("/pkg/vllm/device_allocator/cumem.py", "wake_up")
UNKNOWN_FRAME = ("/pkg/somebody/else.py", "hello")
RETRACTION: dict[str, Any] = {"resource": "kv_blocks", "api": "engine", "error_type": "retraction", "fatal": False}


class Table:
    """Rows made by hand: `seq` and `line` are counted, and each row's line is kept as a `log` row.

    Args:
        stream: Their stream.
        phases: Phases of the worker's life with which it begins.
    """

    def __init__(self, *phases: str, stream: str = "hand") -> None:
        self.rows: list[Row] = []
        self.stream = stream
        self.incarnation = "1"
        self.line = 0
        for phase in phases:
            self.add("lifecycle", phase=phase)

    def add(self, kind: str, *, rank: int | None = None, text: str | None = None, **fields: Any) -> "Table":
        """One row on a line of its own."""
        self.line += 1
        common = {
            "stream": self.stream, "worker": "w0", "incarnation": self.incarnation, "line": self.line, "rank": rank,
            "rank_name": None if rank is None else f"TP{rank}", "source": "log",
        }  # fmt: skip
        self.rows.append(make_row(kind, fields, common | {"seq": len(self.rows)}))
        shown = {"file": "hand.log", "text": text or f"line {self.line}"}
        self.rows.append(make_row("log", shown, common | {"seq": len(self.rows)}))
        return self

    def restart(self) -> "Table":
        """What follows is the next life of the worker."""
        self.incarnation = str(int(self.incarnation) + 1)
        return self

    def stack(self, *frames: tuple[str, str], stack_id: str = "s1", rank: int | None = None) -> "Table":
        """A traceback, outermost frame first."""
        for depth, (file, function) in enumerate(frames):
            self.add("stack", rank=rank, stack_id=stack_id, depth=depth, file=file, line=1, function=function)
        return self

    def oom(self, *, rank: int | None = None, **fields: Any) -> "Table":
        """The framework's failed allocation, with the traceback before it; figures as given."""
        base: dict[str, Any] = {
            "resource": "device",
            "api": "torch",
            "error_type": "OutOfMemoryError",
            "stack_id": "s1",
            "fatal": True,
        }
        return self.add("oom", rank=rank, **(base | fields))

    def arguments(self, section: str = "argument", **values: Any) -> "Table":
        """Manifest rows."""
        for key, value in values.items():
            self.add("manifest", section=section, key=key, value=str(value))
        return self

    def report(
        self, usage: float, running: int, waiting: int = 0, *, prompt: float = 0.0, generation: float = 50.0
    ) -> "Table":
        """The periodic report: KV use and throughput of one line."""
        self.add("kv_pool", usage_ratio=usage)
        throughput = {
            "prompt_tokens_per_s": prompt, "generation_tokens_per_s": generation,
            "running_requests": running, "waiting_requests": waiting,
        }  # fmt: skip
        common = {key: value for key, value in self.rows[-1].items() if key not in ("log", "kind")}
        self.rows.append(make_row("throughput", throughput, common | {"seq": len(self.rows)}))
        return self

    def connection(self) -> "DuckDBPyConnection":
        """The rows in a database, with the derived views."""
        connection = storage.connect()
        storage.load_rows(connection, self.rows)
        queries.install(connection)
        return connection

    def case(self) -> Case:
        """Everything about the first root failure."""
        connection = self.connection()
        members = incidents(connection)[0]
        return Case(Answers(connection), members[0], members)

    def triage(self) -> list[Incident]:
        """The incidents."""
        return triage(self.connection())

    def root(self) -> Incident:
        """The root incident."""
        return self.triage()[0]


def of(scenario: str, *, seed: int = 1, ranks: int = 1, engine: str | None = None) -> list[Incident]:
    """Triage of a scenario's table."""
    with connected(scenario, seed=seed, ranks=ranks, engine=engine) as connection:
        return triage(connection)


def first(scenario: str, *, seed: int = 1, ranks: int = 1, engine: str | None = None) -> Incident:
    """Its root incident."""
    return of(scenario, seed=seed, ranks=ranks, engine=engine)[0]


def causes(incident: Incident) -> list[str]:
    """The chain of causes, by name."""
    return [cause.cause for cause in incident.causes]


def figures(total: int = 80 * GIB, requested: int = 2 * GIB, free: int = GIB, cached: int = 100 * MIB) -> dict[str, int]:
    """Figures of a message that add up: this process holds all but what is free, 1 GiB of it outside the framework."""
    own = total - free
    return {
        "requested_bytes": requested,
        "total_bytes": total,
        "free_bytes": free,
        "own_process_bytes": own,
        "allocated_bytes": own - GIB - cached,
        "reserved_unallocated_bytes": cached,
    }
