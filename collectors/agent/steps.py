"""What a scheduler's steps, requests and block pools were, as records."""

import time
from itertools import compress
from typing import Any

from oomctl.collectors.agent.guard import Guard
from oomctl.collectors.agent.layout import (
    COLLECTOR,
    KV_POOL,
    NULL_I32,
    NULL_I64,
    NULL_U8,
    OOM,
    RESOURCES,
    STEP,
    TRANSFER,
    TRANSFER_OPS,
    pack_texts,
)
from oomctl.collectors.agent.pools import PoolTotals, find_pools
from oomctl.collectors.agent.requests import EVENT, Followed, Sampler, count_blocks, follow
from oomctl.collectors.agent.ring import Ring
from oomctl.collectors.agent.settings import Settings

CLOCK_NS = 10_000_000_000
"""How often a ring is told what the wall clock shows."""

_monotonic_ns = time.monotonic_ns


class Flight:
    """A step between its scheduling and its output; the counts hold once it is described."""

    __slots__ = (
        "cached_tokens", "decode_tokens", "described", "logits_positions", "output", "prefill_tokens", "started_ns",
        "step_id",
    )  # fmt: skip

    def __init__(self, output: Any, started_ns: int, step_id: int) -> None:
        self.output = output
        self.started_ns = started_ns
        self.step_id = step_id
        self.described = False
        self.prefill_tokens = self.decode_tokens = self.cached_tokens = self.logits_positions = 0


class StepRecorder:
    """Turns what the scheduler did into records. Knows vLLM's objects, but wraps none of them.

    Args:
        scheduler: vLLM's Scheduler, constructed.
        ring: Of the thread that runs it.
        guard: Counts the agent's own exceptions.
        settings: What is wanted.

    Attributes:
        followed: The requests whose time line is recorded, by id.
        steps: Steps so far, counted by the agent.
    """

    def __init__(self, scheduler: Any, ring: Ring, guard: Guard, settings: Settings) -> None:
        self._scheduler = scheduler
        self._ring = ring
        self._guard = guard
        self._sampler = Sampler(settings.tracked_requests)
        self.followed: dict[str, Followed] = {}
        self.steps = 0
        self._awaiting: list[Followed] = []
        self._preempted: dict[str, int] = {}
        self._prompt_logprobs: set[str] = set()
        self._preempted_requests = 0
        self._preempted_tokens = 0
        self._recomputed_tokens = 0
        self._prefix_hit_tokens = 0
        self._told_preempted = 0
        self._clock_ns = 0
        self.pools = [PoolTotals(pool) for pool in find_pools(scheduler.kv_cache_manager)]
        self._pool_tails = [pack_texts("device", str(n) if len(self.pools) > 1 else None) for n in range(len(self.pools))]
        self._block_size = int(getattr(scheduler, "block_size", 0)) or NULL_I32
        self._bytes_per_block = _bytes_per_block(getattr(scheduler, "kv_cache_config", None))

    def forget(self) -> None:
        """Follow nobody; the totals go on from where they are."""
        for kept in (self.followed, self._awaiting, self._preempted, self._prompt_logprobs):
            kept.clear()

    def adopt(self) -> None:
        """Requests that were there before: their time line begins here."""
        alive = len(self._scheduler.requests)
        for request in list(self._scheduler.requests.values()):
            followed = self._sampler.draw(request, alive)
            if followed is not None:
                self.followed[request.request_id] = followed
                held = self._held(request)
                followed.write(self._ring, EVENT["scheduled" if held else "queued"], self.steps, delta=held)
                if followed.awaits_token:
                    self._awaiting.append(followed)

    def arrived(self, request: Any) -> None:
        """A request came; whether it is followed is drawn now."""
        if request.request_id not in self.followed:
            followed = self._sampler.draw(request, len(self._scheduler.requests))
            if followed is not None:
                self.followed[request.request_id] = followed
                self._awaiting.append(followed)
                followed.write(self._ring, EVENT["queued"], NULL_I64)

    def preempted(self, request: Any, computed_tokens: int) -> None:
        """A running request went back to the queue, and lost its blocks and what was computed."""
        self._preempted_requests += 1
        self._preempted_tokens += computed_tokens
        self._preempted[request.request_id] = computed_tokens
        followed = self.followed.get(request.request_id)
        if followed is not None:
            followed.write(self._ring, EVENT["preempted"], self.steps, delta=-followed.blocks)

    def ended(self, request: Any) -> None:
        """A request finished or was aborted; its blocks may come back now or later."""
        self._preempted.pop(request.request_id, None)
        self._prompt_logprobs.discard(request.request_id)
        followed = self.followed.get(request.request_id)
        if followed is not None:
            event = "cancelled" if "ABORT" in request.status.name else "finished"
            followed.write(self._ring, EVENT[event], self.steps)

    def alive(self, output: Any) -> None:
        """Every request in the engine, followed or not: for an OOM.

        Args:
            output: The failing step's SchedulerOutput, or None.
        """
        scheduled = getattr(output, "num_scheduled_tokens", None)
        for request in list(self._scheduler.requests.values()):
            followed = follow(request, "oom")
            followed.blocks = self._held(request)
            event = "scheduled" if request.status.name == "RUNNING" else "queued"
            tokens = NULL_I32 if scheduled is None else scheduled.get(request.request_id, 0)
            followed.write(self._ring, EVENT[event], self.steps, scheduled=tokens)

    def _held(self, request: Any) -> int:
        return count_blocks(self._scheduler.kv_cache_manager.get_block_ids(request.request_id))

    def describe(self, flight: Flight) -> None:
        """Who is in the batch, and with how many new blocks."""
        if flight.described:
            return
        flight.described = True
        output, step_id, ring = flight.output, flight.step_id, self._ring
        scheduled = output.num_scheduled_tokens
        cached = output.scheduled_cached_reqs
        positions = len(scheduled)
        for new in output.scheduled_new_reqs:
            self._begin(new, scheduled[new.req_id], flight)
        resumed = cached.resumed_req_ids
        if resumed:
            for request_id, computed in zip(cached.req_ids, cached.num_computed_tokens, strict=True):
                if request_id in resumed:
                    self._recompute(request_id, computed)
        followed_ids = self.followed
        blocks = cached.new_block_ids
        # Of hundreds of requests a few got blocks; the others are passed over in C.
        for request_id, groups in zip(compress(cached.req_ids, blocks), filter(None, blocks), strict=True):
            followed = followed_ids.get(request_id)
            if followed is not None:
                event = EVENT["resumed" if request_id in resumed else "blocks_changed"]
                delta = count_blocks(groups)
                followed.write(ring, event, step_id, delta, scheduled=scheduled[request_id])
        if output.scheduled_spec_decode_tokens:
            positions += sum(map(len, output.scheduled_spec_decode_tokens.values()))
        if self._prompt_logprobs:
            positions += sum(scheduled[request_id] - 1 for request_id in self._prompt_logprobs & scheduled.keys())
        flight.prefill_tokens = prefill_tokens(output)
        flight.decode_tokens = output.total_num_scheduled_tokens - flight.prefill_tokens
        flight.logits_positions = positions

    def _begin(self, new: Any, tokens: int, flight: Flight) -> None:
        """A request is scheduled for the first time, or (the V2 runner) again after a preemption."""
        request_id, computed = new.req_id, new.num_computed_tokens
        resumed = request_id in self._preempted
        if resumed:
            self._recompute(request_id, computed)
        else:
            flight.cached_tokens += computed
            self._prefix_hit_tokens += computed
            if getattr(new.sampling_params, "prompt_logprobs", None) is not None:
                self._prompt_logprobs.add(request_id)
        followed = self.followed.get(request_id)
        if followed is not None:
            event = EVENT["resumed" if resumed else "admitted"]
            followed.write(self._ring, event, flight.step_id, count_blocks(new.block_ids), computed, tokens)

    def _recompute(self, request_id: str, computed: int) -> None:
        self._recomputed_tokens += max(self._preempted.pop(request_id, computed) - computed, 0)

    def end(self, flight: Flight, result: Any) -> None:
        """The step is over: its figures, and those of the pool."""
        self.write_step(flight, dumped=NULL_U8)
        ring = self._ring
        if self._awaiting:
            self._first_tokens(flight.step_id)
        if self._preempted_requests != self._told_preempted:
            self._tell_preemptions()
        moved = getattr(result, "kv_connector_output", None)
        if moved is not None:
            self._write_transfers(moved)
        now = _monotonic_ns()
        if now - self._clock_ns > CLOCK_NS:
            self._clock_ns = now
            ring.write(COLLECTOR, pack_texts("agent", "ok"), NULL_I64, self._guard.errors, time.time_ns())

    def write_step(self, flight: Flight, dumped: int) -> None:
        """The step's own figures and those of each pool.

        Args:
            flight: The step, described.
            dumped: 1 if it failed, else NULL.
        """
        ring = self._ring
        running, waiting = self._scheduler.get_request_counts()
        ring.put(STEP, STEP.pack(
            flight.step_id, flight.prefill_tokens, flight.decode_tokens, flight.cached_tokens, running, waiting,
            flight.logits_positions, (_monotonic_ns() - flight.started_ns) // 1000, dumped, b"",
        ))  # fmt: skip
        for pool, tail in zip(self.pools, self._pool_tails, strict=True):
            free, total = pool.free, pool.total
            if pool.allocated - pool.freed != total - free:
                self._tell_mismatch(pool)
            ring.put(KV_POOL, KV_POOL.pack(
                self._block_size, total, free, total - free, self._bytes_per_block, total * self._block_size,
                pool.allocated, pool.freed, self._preempted_requests, self._preempted_tokens, self._recomputed_tokens,
                self._prefix_hit_tokens, tail,
            ))  # fmt: skip

    def returned(self, followed: Followed | None) -> None:
        """All blocks of a request that ended are back in the pool."""
        if followed is not None:
            followed.write(self._ring, EVENT["blocks_freed"], self.steps, delta=-followed.blocks)

    def _first_tokens(self, step_id: int) -> None:
        waiting: list[Followed] = []
        for followed in self._awaiting:
            if followed.request.num_output_tokens:
                followed.awaits_token = False
                followed.write(self._ring, EVENT["first_token"], step_id)
            elif not followed.request.is_finished():
                waiting.append(followed)
        self._awaiting = waiting

    def _tell_preemptions(self) -> None:
        """The KV blocks ran out, and the engine went on: that is an out-of-memory event too."""
        count = self._preempted_requests - self._told_preempted
        self._told_preempted = self._preempted_requests
        free, total = self.pools[0].free, self.pools[0].total
        text = f"{count} of the running requests preempted; {free} of {total} KV blocks free after the step"
        nulls = OOM.nulls[3:]
        tail = pack_texts("engine", "preemption", text)
        self._ring.write(OOM, tail, RESOURCES.index("kv_blocks"), 0, count, *nulls)

    def _tell_mismatch(self, pool: PoolTotals) -> None:
        text = f"counted {pool.allocated - pool.freed} used blocks, the pool says {pool.total - pool.free}: counted anew"
        self._ring.write(COLLECTOR, pack_texts("kv_pool", "degraded", text), NULL_I64, self._guard.errors, NULL_I64)
        pool.rebase()

    def _write_transfers(self, moved: Any) -> None:
        for op, names in (("send", "finished_sending"), ("receive", "finished_recving")):
            for request_id in getattr(moved, names, None) or ():
                request = self._scheduler.requests.get(request_id)
                tokens = getattr(request, "num_computed_tokens", NULL_I64)
                self._ring.write(TRANSFER, b"", TRANSFER_OPS.index(op), NULL_I64, tokens, NULL_I64)


def prefill_tokens(output: Any) -> int:
    """Scheduled tokens of a SchedulerOutput that are prompt, or computed again after a preemption."""
    scheduled, cached = output.num_scheduled_tokens, output.scheduled_cached_reqs
    found = 0
    for new in output.scheduled_new_reqs:
        found += scheduled[new.req_id]
    outputs, resumed = cached.num_output_tokens, cached.resumed_req_ids
    if resumed or 0 in outputs:
        for request_id, output_tokens in zip(cached.req_ids, outputs, strict=True):
            if output_tokens == 0 or request_id in resumed:
                found += scheduled[request_id]
    return found


def _bytes_per_block(config: Any) -> int:
    """Over all layers of one rank; NULL where the engine does not tell."""
    tensors, blocks = getattr(config, "kv_cache_tensors", None), getattr(config, "num_blocks", 0)
    if not tensors or not blocks:
        return NULL_I64
    return sum(int(tensor.size) for tensor in tensors) // int(blocks)
