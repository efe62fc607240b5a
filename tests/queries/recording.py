"""One recording of everything, small enough to be checked by hand: a worker runs out of KV blocks, then of memory.

Made for the postmortem queries; nothing in it comes from a real system. Two ranks on one node; the first life was killed,
and its process stayed for a while. `at(s)` is so many seconds after 10:00:00, when the second life began to serve; the
device fails at 65. Every source has its own stream, as the collectors name them.
"""

from collections import defaultdict
from datetime import UTC, datetime
from typing import Any

from oomctl.schemas.rows import Row, make_row

START = datetime(2026, 5, 4, 10, tzinfo=UTC)
MIB = 1 << 20
GIB = 1 << 30
OLD, NEW = "boot-90-1", "boot-100-1"


def at(seconds: float) -> int:
    """Microseconds since 1970."""
    return int((START.timestamp() + seconds) * 1_000_000)


class Recording:
    """Rows, to be numbered by stream in the order of their times."""

    def __init__(self) -> None:
        self._rows: list[tuple[Row, int]] = []

    def rows(self) -> list[Row]:
        """Numbered from 1 in each stream; a gap is numbers that are left out before a row."""
        seqs: dict[str, int] = defaultdict(int)
        for row, gap in sorted(self._rows, key=lambda each: each[0]["ts"]):
            seqs[row["stream"]] += 1 + gap
            row["seq"] = seqs[row["stream"]]
        return [row for row, _ in self._rows]

    def add(self, stream: str, kind: str, seconds: float, life: str | None = NEW, *, gap: int = 0, **fields: Any) -> None:
        """One row; `rank` among the fields is a common column where the stream is a rank's."""
        common: dict[str, Any] = {
            "ts": at(seconds), "ts_quality": "exact", "stream": stream, "seq": 0, "node": "n0",
            "worker": "w0", "incarnation": life, "source": SOURCES[stream], "quality": "measured",
        }  # fmt: skip
        if stream in RANKS:
            common |= {"rank": RANKS[stream], "rank_name": f"TP{RANKS[stream]}", "device_id": RANKS[stream]}
        if "device" in fields:
            common["device_id"] = fields.pop("device")
        self._rows.append((make_row(kind, fields, common), gap))


RANKS = {"old0": 0, "rank0": 0, "rank1": 1}
SOURCES = {
    "old0": "agent", "core": "agent", "rank0": "agent", "rank1": "agent", "w0/nvml": "nvml", "n0/host": "host",
    "w0/metrics": "prometheus", "w0/kv_events": "kv_events", "w0/otlp": "otlp", "n0/recorder": "host",
    "w0/trace": "trace",
}  # fmt: skip


def recording() -> list[Row]:
    """All rows."""
    made = Recording()
    for tell in (lives, memory, steps, requests, devices, host, metrics, cache, spans, recorder, trace):
        tell(made)
    return made.rows()


def lives(made: Recording) -> None:
    """Two lives, which overlap from -90 to -60; the second starts with other arguments."""
    for key, value in {"version": "0.19.0", "name": "vllm"}.items():
        made.add("old0", "manifest", -600, OLD, section="engine", key=key, value=value)
    for key, value in {"gpu_memory_utilization": "0.90", "max_model_len": "8192", "enable_lora": "True"}.items():
        made.add("old0", "manifest", -600, OLD, section="argument", key=key, value=value)
    for second, phase in [
        (-600, "spawned"),
        (-590, "loading"),
        (-560, "weights_loaded"),
        (-540, "ready"),
        (-530, "serving"),
    ]:
        made.add("old0", "lifecycle", second, OLD, phase=phase)
    made.add("old0", "memory", -560, OLD, component="weights", lifetime="worker", owner="loaded", bytes=30 * GIB)
    made.add("old0", "kv_pool", -545, OLD, tier="device", total_blocks=120, bytes_per_block=64 * MIB)
    made.add("n0/recorder", "lifecycle", -60, OLD, phase="killed", detail="pid 90 is gone: signal 9", signal=9)
    for key, value in {"version": "0.20.0", "name": "vllm"}.items():
        made.add("rank0", "manifest", -90, section="engine", key=key, value=value)
    for key, value in {"gpu_memory_utilization": "0.95", "max_model_len": "8192", "max_num_seqs": "64"}.items():
        made.add("rank0", "manifest", -90, section="argument", key=key, value=value)
    for rank in ("rank0", "rank1"):
        for second, phase in [
            (-90, "spawned"), (-80, "loading"), (-50, "weights_loaded"), (-40, "profiling"), (-30, "kv_allocated"),
            (-20, "capturing"), (-10, "ready"), (0, "serving"),
        ]:  # fmt: skip
            made.add(rank, "lifecycle", second, phase=phase)


def memory(made: Recording) -> None:
    """Components of both ranks, graphs, adapters, and the allocator, whose allocated bytes grow by 6 MiB a second."""
    for rank, weights in (("rank0", 30 * GIB), ("rank1", 28 * GIB)):
        made.add(rank, "memory", -50, component="weights", lifetime="worker", owner="loaded", bytes=weights)
        made.add(rank, "memory", -40, component="activation", lifetime="iteration", owner="profiled", bytes=2 * GIB)
        made.add(rank, "memory", -40, component="non_torch", lifetime="worker", owner="profiled", bytes=GIB)
        made.add(rank, "memory", -30, component="kv_pool", lifetime="worker", owner="allocated", bytes=6400 * MIB)
    for shape, before, after in [("1", 40000, 40010), ("8", 40010, 40050), ("32", 40050, 40250)]:
        made.add(
            "rank0", "graph", -15, shape=shape, before_bytes=before * MIB, after_bytes=after * MIB,
            bytes=(after - before) * MIB,
            mode="FULL", pool_id="g1",
        )  # fmt: skip
    made.add("rank0", "memory", -12, component="graph_pool", lifetime="worker", owner="captured", bytes=250 * MIB)
    for second, op, name, slots, resident in [
        (2, "loaded", "law", 1, 100), (12, "loaded", "med", 2, 300), (42, "evicted", "law", 1, 200), (60, "loaded",
        "code", 2, 250),
    ]:  # fmt: skip
        size = {"law": 100, "med": 200, "code": 50}[name] * MIB
        made.add(
            "rank0",
            "adapter",
            second,
            op=op,
            name=name,
            lora_rank=16,
            bytes=size,
            resident_bytes=resident * MIB,
            slots=slots,
        )
    noise = (0, 2, -2, 1, -1, 2, -2)
    for n in range(7):
        allocated = (40_000 + 60 * n + noise[n]) * MIB
        made.add(
            "rank0", "allocator", 10 * n, allocated_bytes=allocated, reserved_bytes=(41_000 + 100 * n) * MIB,
            inactive_split_bytes=(500 + 50 * n) * MIB, largest_free_block_bytes=(300 - 40 * n) * MIB,
            num_alloc_retries=(0, 0, 0, 0, 1, 2, 4)[n], num_ooms=0,
        )  # fmt: skip
        made.add(
            "rank1",
            "allocator",
            10 * n,
            allocated_bytes=38_000 * MIB,
            reserved_bytes=39_000 * MIB,
            num_alloc_retries=0,
            num_ooms=0,
        )
    for depth, (file, line, function) in enumerate(
        [
            ("vllm/v1/engine/core.py", 900, "run_busy_loop"),
            ("vllm/model_executor/layers/logits_processor.py", 80, "_get_logits"),
        ]
    ):
        made.add("rank0", "stack", 65, stack_id="100-1", depth=depth, file=file, line=line, function=function)
    made.add(
        "rank0", "oom", 65, resource="device", api="torch", error_type="torch.OutOfMemoryError",
        message="CUDA out of memory. Tried to allocate 600.00 MiB.", requested_bytes=600 * MIB, total_bytes=80 * GIB,
        free_bytes=300 * MIB, allocated_bytes=40_360 * MIB, reserved_unallocated_bytes=1_240 * MIB, fatal=True,
        stack_id="100-1",
    )  # fmt: skip
    made.add(
        "rank0",
        "allocator",
        65.1,
        allocated_bytes=40_360 * MIB,
        reserved_bytes=41_600 * MIB,
        num_alloc_retries=5,
        num_ooms=1,
    )


def steps(made: Recording) -> None:
    """A step and the pool every ten seconds: one block a second more, 100 of them. A preemption at 55."""
    for n in range(7):
        made.add(
            "core", "step", 10 * n, step_id=n + 1, mode="mixed", prefill_tokens=(0, 320, 640, 1600, 0, 2048, 16)[n],
            decode_tokens=4, cached_tokens=0, running_requests=4, waiting_requests=(0, 0, 1, 1, 1, 2, 3)[n],
            logits_positions=5, duration_us=(20, 25, 30, 60, 20, 90, 25)[n] * 1000,
        )  # fmt: skip
        preempted = n > 5
        made.add(
            "core", "kv_pool", 10 * n, tier="device", block_size_tokens=16, bytes_per_block=64 * MIB, total_blocks=100,
            free_blocks=60 - 10 * n, used_blocks=40 + 10 * n, usage_ratio=(40 + 10 * n) / 100, total_tokens=1600,
            allocated_blocks=40 + 10 * n, freed_blocks=0, preempted_requests=int(preempted),
            preempted_tokens=800 if preempted else 0, recomputed_tokens=480 if preempted else 0,
            prefix_hit_tokens=(0, 160, 160, 1440, 1440, 1440, 1760)[n],
        )  # fmt: skip
    made.add("core", "transfer", 14, op="receive", peer="prefill-0", bytes=64 * MIB, tokens=320, duration_us=500_000)
    made.add("core", "transfer", 66, op="send", peer="decode-1", bytes=128 * MIB, tokens=640, duration_us=4_000_000)
    made.add("core", "transfer", 40, op="send", peer="decode-1", tokens=160)
    made.add("core", "collector", 30, name="agent", state="ok", errors=0, cost_us=1200)


def requests(made: Recording) -> None:
    """What five requests went through. a ends, b is preempted and comes back, c is cancelled, d waits, e is alive."""

    def tell(second: float, request_id: str, event: str, **fields: Any) -> None:
        fields = {"sampled_by": "all", "sample_weight": 1.0, **fields}
        made.add("core", "request", second, request_id=request_id, event=event, **fields)

    a: dict[str, Any] = {"prompt_tokens": 320, "max_output_tokens": 512, "adapter": "law"}
    tell(1, "a", "queued", **a)
    tell(2, "a", "admitted", cached_tokens=160, scheduled_tokens=160, kv_blocks=20, kv_blocks_delta=20, **a)
    tell(4, "a", "first_token", output_tokens=1, kv_blocks=20, **a)
    tell(20, "a", "blocks_changed", kv_blocks=22, kv_blocks_delta=2, output_tokens=40, **a)
    tell(40, "a", "blocks_changed", kv_blocks=26, kv_blocks_delta=4, output_tokens=90, **a)
    tell(50, "a", "finished", output_tokens=96, kv_blocks=26, **a)
    tell(51, "a", "blocks_freed", output_tokens=96, kv_blocks=0, kv_blocks_delta=-26, **a)
    b: dict[str, Any] = {"prompt_tokens": 640, "max_output_tokens": 1024}
    tell(5, "b", "queued", **b)
    tell(6, "b", "admitted", cached_tokens=0, scheduled_tokens=640, kv_blocks=40, kv_blocks_delta=40, **b)
    tell(9, "b", "first_token", output_tokens=1, kv_blocks=40, **b)
    tell(30, "b", "blocks_changed", kv_blocks=50, kv_blocks_delta=10, output_tokens=160, **b)
    tell(55, "b", "preempted", computed_tokens=800, output_tokens=160, kv_blocks=0, kv_blocks_delta=-50, **b)
    made.add(
        "core", "oom", 55.5, resource="kv_blocks", api="engine", error_type="preemption", fatal=False, requests=1,
        message="1 of the running requests preempted; 5 of 100 KV blocks free after the step",
    )  # fmt: skip
    tell(
        58,
        "b",
        "resumed",
        cached_tokens=320,
        scheduled_tokens=480,
        computed_tokens=320,
        kv_blocks=50,
        kv_blocks_delta=50,
        **b,
    )
    c: dict[str, Any] = {"prompt_tokens": 1600, "max_output_tokens": 256}
    tell(10, "c", "queued", **c)
    tell(12, "c", "admitted", cached_tokens=1280, scheduled_tokens=320, kv_blocks=100, kv_blocks_delta=100, **c)
    tell(45, "c", "cancelled", output_tokens=0, kv_blocks=100, **c)
    tell(48, "c", "blocks_freed", kv_blocks=0, kv_blocks_delta=-100, **c)
    tell(20, "d", "queued", prompt_tokens=2400, max_output_tokens=64)
    e: dict[str, Any] = {"prompt_tokens": 160, "max_output_tokens": 2048}
    tell(31, "e", "queued", **e)
    tell(32, "e", "admitted", cached_tokens=0, scheduled_tokens=160, kv_blocks=10, kv_blocks_delta=10, **e)
    made.add(
        "core",
        "step",
        64.9,
        step_id=8,
        prefill_tokens=480,
        decode_tokens=1,
        running_requests=2,
        waiting_requests=1,
        dumped=True,
    )
    made.add(
        "core", "oom", 65.2, resource="device", api="torch", error_type="torch.OutOfMemoryError", requests=2, fatal=True,
        message="CUDA out of memory. Tried to allocate 600.00 MiB.",
    )  # fmt: skip
    tell(
        65.3,
        "b",
        "scheduled",
        sampled_by="oom",
        scheduled_tokens=480,
        computed_tokens=320,
        output_tokens=160,
        kv_blocks=50,
        **b,
    )
    tell(
        65.3,
        "e",
        "scheduled",
        sampled_by="oom",
        scheduled_tokens=1,
        computed_tokens=460,
        output_tokens=300,
        kv_blocks=29,
        **e,
    )
    tell(
        65.3, "d", "queued", sampled_by="oom", prompt_tokens=2400, max_output_tokens=64, scheduled_tokens=0,
        computed_tokens=0,
        output_tokens=0, kv_blocks=0,
    )  # fmt: skip


def devices(made: Recording) -> None:
    """The driver's view two seconds after each allocator's; a neighbour that grows,
    and the first life's process until 12."""
    for second in (-70, -30):
        made.add("w0/nvml", "device", second, device=0, total_bytes=80 * GIB, used_bytes=50 * GIB, free_bytes=30 * GIB)
        made.add(
            "w0/nvml", "process", second, device=0, pid=90, name="python3",
            used_bytes=36 * GIB if second < -60 else 2 * GIB,
            own=True, owner_incarnation=OLD,
        )  # fmt: skip
    for n in range(7):
        second, own, other = 10 * n + 2, (44_000 + 120 * n) * MIB, (35_100 + 300 * n) * MIB
        left = 2 * GIB if n < 2 else 0
        used = own + other + left
        made.add(
            "w0/nvml", "device", second, device=0, total_bytes=80 * GIB, used_bytes=used, free_bytes=80 * GIB - used,
            reserved_bytes=512 * MIB,
        )  # fmt: skip
        made.add(
            "w0/nvml", "process", second, device=0, pid=100, name="vllm", used_bytes=own, own=True, owner_incarnation=NEW
        )
        made.add("w0/nvml", "process", second, device=0, pid=555, name="trainer", used_bytes=other, own=False)
        if left:
            made.add(
                "w0/nvml",
                "process",
                second,
                device=0,
                pid=90,
                name="python3",
                used_bytes=left,
                own=True,
                owner_incarnation=OLD,
            )
        made.add("w0/nvml", "device", second, device=1, total_bytes=80 * GIB, used_bytes=42 * GIB, free_bytes=38 * GIB)


def host(made: Recording) -> None:
    """The cgroup fills to 90% of its limit."""
    for second, current in [(0, 40), (30, 50), (60, 54)]:
        made.add(
            "n0/host", "host", second, cgroup_current_bytes=current * GIB, cgroup_limit_bytes=60 * GIB,
            cgroup_peak_bytes=54 * GIB,
            cgroup_oom_kills=1, total_bytes=512 * GIB, free_bytes=(400 - second) * GIB, pressure_ratio=second / 100,
        )  # fmt: skip
        made.add("n0/host", "process", second, pid=100, name="vllm", rss_bytes=20 * GIB, own=True, owner_incarnation=NEW)


def metrics(made: Recording) -> None:
    """An engine's page: tokens as requests see them and as they are stored, the queue."""
    for second, logical, physical in [(0, 600, 600), (30, 1600, 1000), (60, 2400, 1500)]:
        made.add(
            "w0/metrics", "kv_pool", second, logical_tokens=logical, physical_tokens=physical, evictable_tokens=160,
            total_tokens=1600, prefix_query_tokens=second * 40, prefix_hit_tokens=second * 30,
            usage_ratio=physical / 1600,
        )  # fmt: skip
        made.add(
            "w0/metrics", "throughput", second, running_requests=4, waiting_requests=second // 20,
            generation_tokens_per_s=50.0,
            prompt_tokens_per_s=float(second),
        )  # fmt: skip


def cache(made: Recording) -> None:
    """Blocks 01 and 02 are stored, evicted and stored again; 03 is evicted for good."""
    for second, op, found in [
        (5, "stored", "01"), (5, "stored", "02"), (6, "stored", "03"), (25, "removed", "01"), (26, "removed", "03"),
        (27, "removed", "02"), (35, "stored", "01"), (57, "stored", "02"),
    ]:  # fmt: skip
        tokens = 16 if op == "stored" else None
        made.add("w0/kv_events", "kv_block", second, op=op, block_hash=found, tokens=tokens, medium="device")
    made.add("w0/kv_events", "kv_pool", 27, tier="device", prefix_evicted_tokens=48)


def spans(made: Recording) -> None:
    """Tool calls of two conversations; the second never ended."""
    made.add("w0/otlp", "request", 15, session_id="s1", request_id="call-1", event="tool_wait_started")
    made.add("w0/otlp", "request", 23, session_id="s1", request_id="call-1", event="tool_wait_ended")
    made.add("w0/otlp", "request", 50, session_id="s2", request_id="call-2", event="tool_wait_started")


def recorder(made: Recording) -> None:
    """A ring that was overwritten, an nvml that did not answer, and a hole in a stream's numbers."""
    made.add("n0/recorder", "loss", 44, reason="ring overwritten", count=7, detail="rank1")
    made.add("n0/recorder", "collector", 20, name="recorder", state="ok", detail="nvml answers")
    made.add("n0/recorder", "collector", 46, name="recorder", state="degraded", detail="nvml: timeout")
    made.add("rank1", "device", 61, gap=7, total_bytes=80 * GIB, used_bytes=42 * GIB, free_bytes=38 * GIB)


def trace(made: Recording) -> None:
    """Requests as a gateway tells them, with tenant, cohort and prefix; f stands for three."""
    for n, (request_id, cohort, tenant, prefix, prompt, cached, reserved, output, weight) in enumerate(
        [
            ("t1", "chat", "acme", "p1", 1000, 800, 512, 100, 1.0),
            ("t2", "chat", "acme", "p1", 1000, 800, 512, 200, 1.0),
            ("t3", "chat", "zeta", "p1", 1000, 0, 512, 300, 1.0),
            ("t4", "batch", "zeta", "p2", 4000, 1000, 2048, 2000, 3.0),
            ("t5", "batch", "zeta", None, 500, 0, 2048, 48, 1.0),
        ]
    ):
        known: dict[str, Any] = {
            "request_id": request_id, "cohort": cohort, "tenant": tenant, "prefix_id": prefix, "prompt_tokens": prompt,
            "reserved_output_tokens": reserved, "max_output_tokens": reserved, "sample_weight": weight,
        }  # fmt: skip
        made.add("w0/trace", "request", n, event="admitted", cached_tokens=cached, **known)
        made.add("w0/trace", "request", 30 + n, event="finished", output_tokens=output, cached_tokens=cached, **known)
    made.add(
        "w0/trace", "request", 33, request_id="t6", session_id="s1", event="tool_wait_started", tool_action="offload",
        kv_blocks=12,
        computed_tokens=192,
    )  # fmt: skip
    made.add("w0/trace", "request", 37, request_id="t6", session_id="s1", event="tool_wait_ended", tool_action="offload")
