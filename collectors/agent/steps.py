"""What a scheduler's steps and block pools were, as records."""

import time
from typing import Any

from oomctl.collectors.agent.admissions import Admissions
from oomctl.collectors.agent.guard import Guard
from oomctl.collectors.agent.kinds import COLLECTOR, OOM, RESOURCES, TRANSFER, TRANSFER_OPS
from oomctl.collectors.agent.layout import NULL_I64, pack_texts
from oomctl.collectors.agent.pools import PoolTotals, find_pools
from oomctl.collectors.agent.ring import Ring
from oomctl.collectors.agent.step_slots import StepSlots
from oomctl.collectors.agent.tables import BlockTables
from oomctl.collectors.agent.timelines import Timelines

CLOCK_NS = 10_000_000_000
"""How often a ring is told what the wall clock shows."""


class StepRecorder:
    """Turns what the scheduler did into records. Knows vLLM's objects, but wraps none of them.

    It goes through no list of the whole batch, and leaves what is rare to others: see `StepSlots`.

    Args:
        scheduler: vLLM's Scheduler, constructed.
        ring: Of the thread that runs it.
        guard: Counts the agent's own exceptions.
        timelines: Of the requests that are followed.
        tables: Of all requests.

    Attributes:
        pools: The block pools, the main one first.
        plain: Nobody who ended waits for a transfer.
        end: A step is over, or failed (`StepSlots.end`).
        ended: A request finished or was aborted (`Admissions.ended`).
    """

    # Slots lie in one piece.
    __slots__ = (
        "_admissions", "_clock_due_ns", "_counts", "_due", "_followed", "_guard", "_main", "_others", "_prompt_logprobs",
        "_prompting", "_ring", "_scheduler", "_slots", "_tables", "_timelines", "_told_preempted", "_transfers", "end",
        "ended", "plain", "pools",
    )  # fmt: skip

    def __init__(self, scheduler: Any, ring: Ring, guard: Guard, timelines: Timelines, tables: BlockTables) -> None:
        self._scheduler = scheduler
        self._ring = ring
        self._guard = guard
        self._timelines = timelines
        self._tables = tables
        self._due = tables.due
        self._followed = timelines.followed
        self._told_preempted = 0
        self._clock_due_ns = 0
        # A version without the attribute may have a connector somewhere else.
        self._transfers = getattr(scheduler, "connector", True) is not None
        # With one, who ended may wait for a transfer among `requests`.
        self.plain = not self._transfers and getattr(scheduler, "ec_connector", None) is None
        self._counts = self.plain and hasattr(scheduler, "running")
        self.pools = find_pools(scheduler)
        self._main, *self._others = self.pools
        self._slots = StepSlots(ring, self.pools, self.tell_mismatch, self._tell_more)
        self.end = self._slots.end
        self._admissions = Admissions(scheduler, self._slots.count)
        self.ended = self._admissions.ended
        self._prompting = self._admissions.prompting
        self._prompt_logprobs = self._admissions.prompt_logprobs

    def forget(self) -> None:
        """Nothing is in flight any more; the totals go on from where they are."""
        self._slots.forget()
        self._admissions.forget()

    def adopt(self) -> None:
        """Requests that were there before."""
        self._slots.more_due_ns = 0
        self._admissions.adopt()

    def preempted(self, request_id: str, computed_tokens: int) -> None:
        """A running request went back to the queue, and lost what was computed."""
        self._slots.more_due_ns = 0
        self._admissions.preempted(request_id, computed_tokens)

    def begin(self, output: Any, started_ns: int) -> None:
        """A step was scheduled. A request that begins is told now, for the batch may not come back.

        Args:
            output: The scheduler's SchedulerOutput.
            started_ns: When its scheduling began, on the monotonic clock.
        """
        pool = self._main
        pool.expected_free = pool.queue.num_free_blocks
        if self._others:
            for pool in self._others:
                pool.expected_free = pool.queue.num_free_blocks
        timelines = self._timelines
        step_id = timelines.step_id = timelines.step_id + 1
        new, resumed = output.scheduled_new_reqs, output.scheduled_cached_reqs.resumed_req_ids
        prefill = hits = 0
        if new or resumed or self._prompting:
            followed = self._followed
            for one in new:
                if one.req_id in followed:
                    self._began(one, output)
            for request_id in resumed:
                if request_id in followed:
                    self._tables.look(followed[request_id], step_id)
            prefill, hits = self._admissions.scheduled(output)
        if step_id in self._due:
            self._tables.grown(step_id, output)
        positions = len(output.num_scheduled_tokens)
        if self._prompt_logprobs or output.scheduled_spec_decode_tokens:
            positions += self._more_positions(output)
        scheduler = self._scheduler
        if self._counts:
            # What `get_request_counts` says; to call it costs 2.5 us when the caches are cold.
            running = len(scheduler.running)
            waiting = len(scheduler.requests) - running
        else:
            running, waiting = scheduler.get_request_counts()
        slots, decode = self._slots, output.total_num_scheduled_tokens - prefill
        if slots.flight is not None:
            slots.overlap(slots.flight)
        slots.flight = output, step_id, prefill, decode, hits, running, waiting, positions, started_ns

    def _began(self, new: Any, output: Any) -> None:
        """One that is followed, of the scheduled_new_reqs."""
        self._slots.more_due_ns = 0
        again = self._admissions.was_preempted(new.req_id)
        self._timelines.began(new, again, output.num_scheduled_tokens[new.req_id])

    def _more_positions(self, output: Any) -> int:
        """Logits positions beside the one that each request has."""
        scheduled = output.num_scheduled_tokens
        more = sum(map(len, output.scheduled_spec_decode_tokens.values()))
        more += sum(scheduled[request_id] - 1 for request_id in self._prompt_logprobs & scheduled.keys())
        return int(more)

    def _tell_more(self, step_id: int, result: Any, now_ns: int) -> None:
        """What few steps have, behind one test: to look for each of it in every step costs 1 us."""
        self._timelines.first_tokens(step_id)
        if self._admissions.preempted_requests != self._told_preempted:
            self._tell_preemptions()
        if self._transfers:
            self._tell_transfers(getattr(result, "kv_connector_output", None))
        if now_ns > self._clock_due_ns:
            self._clock_due_ns = now_ns + CLOCK_NS
            self._ring.write(COLLECTOR, pack_texts("agent", "ok"), NULL_I64, self._guard.errors, time.time_ns())
        again = self._timelines.awaiting or self._transfers
        self._slots.more_due_ns = 0 if again else self._clock_due_ns

    def _tell_preemptions(self) -> None:
        """The KV blocks ran out, and the engine went on: that is an out-of-memory event too."""
        count = self._admissions.preempted_requests - self._told_preempted
        self._told_preempted += count
        free, total = self.pools[0].free, self.pools[0].total
        text = f"{count} of the running requests preempted; {free} of {total} KV blocks free after the step"
        tail = pack_texts("engine", "preemption", text)
        self._ring.write(OOM, tail, RESOURCES.index("kv_blocks"), 0, count, *OOM.nulls[3:])

    def tell_mismatch(self, pool: PoolTotals) -> None:
        """A pool's blocks moved on a way that is not known here."""
        counted, says = pool.total - pool.expected_free, pool.total - pool.free
        text = f"counted {counted} used blocks, the pool says {says}: counted anew"
        self._ring.write(COLLECTOR, pack_texts("kv_pool", "degraded", text), NULL_I64, self._guard.errors, NULL_I64)
        pool.rebase()

    def _tell_transfers(self, moved: Any) -> None:
        for op, names in (("send", "finished_sending"), ("receive", "finished_recving")):
            for request_id in getattr(moved, names, None) or ():
                request = self._scheduler.requests.get(request_id)
                tokens = getattr(request, "num_computed_tokens", NULL_I64)
                self._ring.write(TRANSFER, b"", TRANSFER_OPS.index(op), NULL_I64, tokens, NULL_I64)
