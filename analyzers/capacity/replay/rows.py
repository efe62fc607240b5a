"""A replay as rows of the event table, so that triage and queries work on what would have happened."""

from typing import TYPE_CHECKING

from oomctl.analyzers.capacity.replay.watch import Watch
from oomctl.analyzers.capacity.replay.workload import Job
from oomctl.schemas.rows import Row, make_row

if TYPE_CHECKING:
    from oomctl.analyzers.capacity.replay.engine import Engine

SAMPLE_S = 1.0
STREAM = "replay"


class Recorder(Watch):
    """Keeps every event of a request, the pool once a second, and each preemption as the engine's agent would.

    Times count from 1970, and are marked as relative.

    Attributes:
        rows: In the order in which they happened.
    """

    def __init__(self, policy: str) -> None:
        self.rows: list[Row] = []
        self._next_s = 0.0
        self._preemptions = 0
        self._preempted_tokens = 0
        self._hit_tokens = self._query_tokens = 0
        self._pending = 0
        for section, key, value in (("engine", "name", "replay"), ("argument", "admission_policy", policy)):
            self._add(0.0, "manifest", section=section, key=key, value=value)
        self._add(0.0, "lifecycle", phase="serving")

    def saw(self, event: str, at_s: float, job: Job, **tokens: int) -> None:
        """As a row, and counted."""
        self._add(
            at_s,
            "request",
            request_id=job.request.request,
            event=event,
            cohort=job.cohort,
            tenant=job.request.scope.tenant or None,
            adapter=job.request.scope.adapter or None,
            prompt_tokens=job.prompt_tokens,
            max_output_tokens=job.request.max_output_tokens,
            **tokens,
        )
        if event == "preempted":
            self._preemptions += 1
            self._preempted_tokens += job.prompt_tokens + tokens.get("output_tokens", 0)
            self._pending += 1
        elif event == "scheduled":
            self._query_tokens += job.prompt_tokens
            self._hit_tokens += tokens.get("cached_tokens", 0)

    def passed(self, from_s: float, to_s: float, engine: "Engine") -> None:
        """The pool, where it is time for it."""
        if self._pending:
            self._tell_preemptions(from_s, engine)
        if to_s < self._next_s:
            return
        self._next_s = to_s + SAMPLE_S
        self._tell_pool(from_s, engine)

    def _tell_preemptions(self, at_s: float, engine: "Engine") -> None:
        self._tell_pool(at_s, engine)
        count, free = self._pending, engine.pool.available_blocks
        self._add(
            at_s,
            "oom",
            resource="kv_blocks",
            api="engine",
            error_type="preemption",
            message=f"{count} of the running requests preempted; {free} of {engine.pool.total_blocks} KV blocks free",
            fatal=False,
        )
        self._pending = 0

    def _tell_pool(self, at_s: float, engine: "Engine") -> None:
        pool, block_tokens = engine.pool, engine.run.block_tokens
        self._add(
            at_s,
            "kv_pool",
            tier="device",
            block_size_tokens=block_tokens,
            total_blocks=pool.total_blocks,
            free_blocks=pool.available_blocks,
            used_blocks=pool.held_blocks,
            evictable_blocks=pool.cached_blocks,
            usage_ratio=pool.held_blocks / pool.total_blocks,
            total_tokens=pool.total_blocks * block_tokens,
            prefix_query_tokens=self._query_tokens,
            prefix_hit_tokens=self._hit_tokens,
            prefix_evicted_tokens=pool.evicted_blocks * block_tokens,
            preempted_requests=self._preemptions,
            preempted_tokens=self._preempted_tokens,
        )
        waiting = len(engine.waiting) + engine.queued
        self._add(at_s, "step", running_requests=len(engine.running), waiting_requests=waiting)

    def _add(self, at_s: float, kind: str, **fields: object) -> None:
        common = {
            "ts": round(at_s * 1e6),
            "ts_quality": "relative",
            "stream": STREAM,
            "seq": len(self.rows) + 1,
            "worker": "replay",
            "source": "replay",
            "quality": "simulated",
        }
        self.rows.append(make_row(kind, {name: value for name, value in fields.items() if value is not None}, common))
