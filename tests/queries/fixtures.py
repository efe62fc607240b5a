"""What each query file is run on: a generated scenario, or rows made by hand where none shows the case.

Nothing here comes from a real system: scenarios are those of `tests.scenarios`, seed 1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from oomctl import queries
from oomctl.analyzers.capacity.replay.machine import Machine
from oomctl.analyzers.capacity.replay.policies import Plan, play
from oomctl.analyzers.capacity.replay.rows import Recorder
from oomctl.analyzers.triage.groups import incidents
from oomctl.collectors.artifacts.torch_snapshot.layout import read_document
from oomctl.collectors.artifacts.torch_snapshot.table import load_events
from oomctl.schemas import storage
from oomctl.schemas.rows import Row, make_row
from tests.capacity.played import workload
from tests.queries.heap import snapshot
from tests.queries.recording import recording
from tests.scenarios.connected import connected
from tests.sql_headers import source_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

COMMON = {"stream": "hand", "worker": "w0", "incarnation": "1", "source": "log"}
HEAP = {"stream": "heap", "worker": "heap", "incarnation": "1", "device_id": 0, "source": "snapshot"}


@dataclass(frozen=True)
class Fixture:
    """What a query is run on.

    Attributes:
        scenario: Name in the catalogue; "hand" for HAND's rows, "recording" for those of
            `recording`, "snapshot" for an allocator's, "replay" for a capacity replay's, "empty" for none.
        engine: Whose words.
        ranks: Tensor-parallel workers.
        incident: About which incident an evidence query is asked, counted in the order of their roots.
        given: Parameters of a postmortem query, beside their defaults.
    """

    scenario: str
    engine: str = "vllm"
    ranks: int = 1
    incident: int = 0
    given: Mapping[str, str] = field(default_factory=dict, hash=False)


EVIDENCE = {
    "allocator": Fixture("hand"),
    "arguments": Fixture("warm_up_capture"),
    "batch": Fixture("prefill_long_prompt"),
    "components": Fixture("warm_up_capture", ranks=2),
    "deaths": Fixture("warm_up_capture"),
    "deployment": Fixture("warm_up_capture"),
    "ended_by": Fixture("hand"),
    "device": Fixture("load_staging_copy", "sglang", ranks=2),
    "failures": Fixture("decode_exhausted", "sglang", ranks=2),
    "figures": Fixture("warm_up_capture"),
    "frames": Fixture("warm_up_capture"),
    "gate": Fixture("gate_start_memory"),
    "heaps": Fixture("hand"),
    "heard": Fixture("warm_up_capture", ranks=2),
    "host_lives": Fixture("hand", incident=1),
    "host_memory": Fixture("hand"),
    "host_processes": Fixture("hand"),
    "innermost": Fixture("warm_up_capture"),
    "kill_watch": Fixture("hand", incident=1),
    "kv_pressure": Fixture("decode_silent_stall"),
    "kv_size": Fixture("warm_up_capture", ranks=2),
    "kv_usage": Fixture("decode_exhausted", "sglang"),
    "lines": Fixture("load_staging_copy"),
    "lives": Fixture("recovery_orphan_load"),
    "measured_memory": Fixture("warm_up_capture", ranks=2),
    "neighbours": Fixture("load_foreign_process", ranks=2),
    "other_deaths": Fixture("warm_up_capture"),
    "outcome": Fixture("warm_up_survived"),
    "phases": Fixture("warm_up_capture", ranks=2),
    "requests": Fixture("hand"),
    "restarts": Fixture("recovery_orphan_load"),
    "siblings": Fixture("warm_up_capture", ranks=2),
    "stack_frames": Fixture("warm_up_capture"),
    "tellers": Fixture("recovery_orphan_load", ranks=2),
    "writers": Fixture("recovery_orphan_load", ranks=2),
}
POSTMORTEM = {
    name: Fixture("snapshot" if name.startswith("heap_") else "recording") for name in queries.names("postmortem")
} | {
    "evidence_lines": Fixture("decode_exhausted", "sglang", ranks=2),
    "growth_before_failure": Fixture("decode_exhausted", "sglang"),
    "memory_at_failure": Fixture("warm_up_capture", ranks=2),
    "phases": Fixture("recovery_wake_up", ranks=2),
    "request_timeline": Fixture("recording", given={"request": "b"}),
}
VIEWS = {
    "drained": Fixture("hand"),
    "executable": Fixture("healthy"),
    "failure": Fixture("host_kill_kernel", "sglang"),
    "kv_pressure": Fixture("decode_preemption_storm"),
    "oom_figures": Fixture("load_foreign_process"),
    "phase_marker": Fixture("healthy"),
    "reached": Fixture("recording"),
    "story": Fixture("hand"),
}
CAPACITY = {
    "requests": Fixture("hand"), "tool_waits": Fixture("hand"), "pool": Fixture("warm_up_capture", ranks=2),
    "step_readings": Fixture("recording"),
}  # fmt: skip
FIXTURES: dict[queries.Folder, dict[str, Fixture]] = {
    "views": VIEWS,
    "evidence": EVIDENCE,
    "postmortem": POSTMORTEM,
    "capacity": CAPACITY,
}

HAND: Sequence[Row] = [
    make_row("oom", {"resource": "device", "api": "torch"}, COMMON | {"seq": 5, "line": 4}),
    *(
        make_row(
            "request",
            {
                "request_id": f"r{number}", "event": "scheduled", "prompt_tokens": 900 + number,
                "computed_tokens": 64 * number, "scheduled_tokens": tokens, "sampled_by": reason,
            },
            COMMON | {"seq": 6 + number, "line": 5},
        )
        for number, (tokens, reason) in enumerate(
            [(8, "scheduler_dump"), (2048, "scheduler_dump"), (None, "scheduler_dump"), (4096, "random")]
        )
    ),
    *(
        make_row("process", {"pid": pid, "name": name, "rss_bytes": held}, COMMON | {"seq": seq, "line": seq})
        for seq, pid, name, held in [(20, 41, "python3", 9 << 30), (21, 7, "java", 40 << 30), (22, 41, "python3", 8 << 30)]
    ),
    *(
        make_row("host", {"total_bytes": 64 << 30, "free_bytes": free}, COMMON | {"seq": seq, "line": seq})
        for seq, free in [(30, 2 << 30), (31, 1 << 30), (32, 30 << 30)]
    ),
    make_row("host", {"cgroup_limit_bytes": 48 << 30, "cgroup_current_bytes": 48 << 30}, COMMON | {"seq": 33, "line": 33}),
    make_row("allocator", {"num_alloc_retries": 9, "num_ooms": 9}, COMMON | {"seq": 3, "line": 3}),
    make_row("allocator", {"num_alloc_retries": 4, "num_ooms": 1}, COMMON | {"seq": 16, "line": 16}),
    make_row("allocator", {"num_alloc_retries": 12, "num_ooms": 2}, COMMON | {"seq": 44, "line": 44}),
    make_row("allocator", {"allocated_bytes": 40 << 30}, COMMON | {"seq": 17, "line": 17}),
    make_row("allocator", {"inactive_split_bytes": 4 << 30}, COMMON | {"seq": 18, "line": 18}),
    make_row("lifecycle", {"phase": "draining"}, COMMON | {"seq": 1, "line": 1}),
    make_row("allocator", {"allocated_bytes": 7, "active_bytes": 8, "reserved_bytes": 9}, HEAP | {"seq": 4}),
    *(
        make_row("alloc", {"n": n, "action": action, "size_bytes": 512 * n, "cuda_stream": "0"}, HEAP | {"seq": n})
        for n, action in [(1, "alloc"), (2, "oom"), (3, "oom")]
    ),
    make_row("fault", {"code": "probe_kill", "detail": "probe failed"}, COMMON | {"seq": 40, "line": 40}),
    make_row("request", {"request_id": "early", "sampled_by": "scheduler_dump"}, COMMON | {"seq": 2, "line": 2}),
    *(
        make_row(kind, {}, {"stream": stream, "seq": seq, "ts": ts, "worker": "w1", "incarnation": "1", "source": "agent"})
        for stream, seq, ts, kind in [
            ("core", 1, 10, "step"), ("core", 2, 11, "kv_pool"), ("core", 3, 40, "step"), ("core", 4, 15, "kv_pool"),
            ("rank", 1, 12, "lifecycle"), ("rank", 2, 41, "oom"), ("other", 1, None, "lifecycle"),
        ]
    ),
    *(
        make_row(
            "process", {"pid": pid, "rss_bytes": held, "own": True, "owner_incarnation": life},
            {"stream": "rank", "seq": seq, "ts": ts, "worker": "w1", "incarnation": life, "source": "host"},
        )
        for seq, ts, pid, held, life in [
            (3, 41, 50, 9 << 30, "1"), (4, 41, 51, 6 << 30, "0"), (5, 41, 52, 7 << 30, "0"), (6, 40, 53, 8 << 30, "0"),
        ]
    ),
    *(
        make_row(
            "collector", {"name": name, "state": state, "detail": f"of pid {50 + seq}"},
            {"stream": "rank", "seq": seq, "ts": ts, "worker": "w1", "incarnation": life, "source": "host"},
        )
        for seq, ts, name, state, life in [
            (7, 41, "kill_count", "ok", "1"), (8, 42, "kernel_log", "ok", "1"), (9, 43, "kernel_log", "ok", "1"),
            (10, 41, "kernel_log", "absent", "1"), (11, 41, "kill_count", "ok", "0"),
            (12, 90 * 10**6, "kill_count", "ok", "1"),
        ]
    ),
    *(
        make_row(
            "request", {"session_id": "s", "request_id": name, "event": f"tool_wait_{what}"},
            {"stream": "spans", "seq": seq, "ts": seq * 10**6, "source": "otlp"},
        )
        for seq, name, what in [(1, "t1", "started"), (2, "t2", "started"), (3, "t3", "ended"), (4, "t1", "ended")]
    ),
]  # fmt: skip
"""A dump of three requests after a failure; another after it that is no part of it, and one before it.

Then the host's side: who held its memory, how full it was, and a probe that failed. Then three streams of another worker,
one of whose clocks jumps back. An allocator's snapshot has counters and two failed allocations. The processes of
two lives of that worker come next, who looked for a kill as they went, and of three calls of tools one with its end.
"""


@cache
def database(fixture: Fixture, backwards: bool = False) -> "DuckDBPyConnection":
    """The fixture's event table, with the derived views; made once, and never written to."""
    if fixture.scenario == "snapshot":
        connection = storage.connect()
        load_events(connection, read_document(snapshot(), "heap.pickle", 0), rank=0)
        queries.install(connection)
        return connection
    made = {"hand": HAND, "recording": recording(), "replay": replay(), "empty": ()}
    if fixture.scenario in made:
        rows = made[fixture.scenario]
        connection = storage.connect()
        storage.load_rows(connection, reversed(rows) if backwards else rows)
        queries.install(connection)
        return connection
    return connected(fixture.scenario, engine=fixture.engine, ranks=fixture.ranks, backwards=backwards)


def replay() -> Sequence[Row]:
    """What `oomctl capacity replay --emit` keeps of forty requests for a pool that holds ten."""
    recorder = Recorder("engine")
    play(workload([(0.1 * n, 640, 100) for n in range(40)]), Plan(Machine(450)), recorder)
    return recorder.rows


def answer(folder: queries.Folder, name: str, backwards: bool = False) -> tuple[list[str], list[tuple[Any, ...]]]:
    """The columns and rows that a query returns on its fixture."""
    fixture = FIXTURES[folder][name]
    connection = database(fixture, backwards)
    query = queries.load(folder, name)
    if folder == "views":
        order = "stream, seq" if {"stream", "seq"} <= dict(query.columns).keys() else "ALL"
        cursor = connection.execute(f"SELECT * FROM {source_of(query)} ORDER BY {order}")
    elif query.parameters:
        cursor = connection.execute(query.sql, query.bound(fixture.given))
    else:
        given = parameters(connection, fixture.incident) if query.params else {}
        cursor = connection.execute(query.sql, {key: given[key] for key in query.params})
    return [str(column[0]) for column in cursor.description or ()], cursor.fetchall()


def parameters(connection: "DuckDBPyConnection", incident: int = 0) -> dict[str, Any]:
    """What triage passes to an evidence query about an incident's root, and its first cited lines."""
    members = incidents(connection)[incident]
    lines = [member["line"] for member in members[:4]]
    return {**members[0], "lines": lines}
