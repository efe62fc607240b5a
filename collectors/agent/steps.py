"""What a scheduler's steps and block pools were, as records."""

import time
from itertools import compress
from typing import Any

from oomctl.collectors.agent.guard import Guard
from oomctl.collectors.agent.kinds import COLLECTOR, EVENT, KV_POOL, OOM, RESOURCES, STEP, TRANSFER, TRANSFER_OPS
from oomctl.collectors.agent.layout import NULL_I32, NULL_I64, NULL_U8, pack_texts
from oomctl.collectors.agent.pools import PoolTotals, find_pools
from oomctl.collectors.agent.requests import Followed, count_blocks
from oomctl.collectors.agent.ring import Ring
from oomctl.collectors.agent.timelines import Timelines

CLOCK_NS = 10_000_000_000
"""How often a ring is told what the wall clock shows."""
MAX_FLIGHTS = 16
"""Steps that may be between schedule and update_from_output; more have lost their end."""

_NUMBERS = tuple(range(1024))
"""For batches up to this size; to make the numbers anew takes longer than to look at what they number."""
_monotonic_ns = time.monotonic_ns


Growth = list[tuple[Followed, int, int, int]]
"""Requests that got blocks: who, the event, how many, and the tokens that it was scheduled for."""
Flight = tuple[int, int, int, int, int, int, int, int, Growth]
"""A step between its scheduling and its output: step_id, prefill, decode and cached tokens, running and waiting requests,
logits positions, when it began, and who grew. Bare, because a class of its own is slow to make."""


class StepRecorder:
    """Turns what the scheduler did into records. Knows vLLM's objects, but wraps none of them.

    Args:
        scheduler: vLLM's Scheduler, constructed.
        ring: Of the thread that runs it.
        guard: Counts the agent's own exceptions.
        timelines: Of the requests that are followed.

    Attributes:
        pools: The block pools, the main one first.
    """

    # Slots lie in one piece: after a model's step nothing is in the caches any more, and each piece of memory costs.
    __slots__ = (
        "_block_size", "_bytes_per_block", "_clock_due_ns", "_counts", "_flights", "_followed", "_guard", "_preempted",
        "_preempted_requests", "_preempted_tokens", "_prefix_hit_tokens", "_prompt_logprobs", "_prompting",
        "_recomputed_tokens", "_ring", "_scheduler", "_timelines", "_told_preempted", "pools",
    )  # fmt: skip

    def __init__(self, scheduler: Any, ring: Ring, guard: Guard, timelines: Timelines) -> None:
        self._scheduler = scheduler
        self._ring = ring
        self._guard = guard
        self._timelines = timelines
        self._followed = timelines.followed
        self._flights: dict[int, Flight] = {}
        self._preempted: dict[str, int] = {}
        self._prompting: dict[str, Any] = {}
        self._prompt_logprobs: set[str] = set()
        self._counts: tuple[int, int] | None = None
        self._preempted_requests = 0
        self._preempted_tokens = 0
        self._recomputed_tokens = 0
        self._prefix_hit_tokens = 0
        self._told_preempted = 0
        self._clock_due_ns = 0
        self.pools = find_pools(scheduler.kv_cache_manager)
        self._block_size = int(getattr(scheduler, "block_size", 0)) or NULL_I32
        self._bytes_per_block = _bytes_per_block(getattr(scheduler, "kv_cache_config", None))

    def forget(self) -> None:
        """Nothing is in flight any more; the totals go on from where they are."""
        for kept in (self._flights, self._preempted, self._prompting, self._prompt_logprobs):
            kept.clear()
        self._counts = None

    def adopt(self) -> None:
        """Requests that were there before: who is in the midst of its prompt."""
        for request in list(self._scheduler.requests.values()):
            if request.num_computed_tokens and not request.num_output_tokens:
                self._note_prompt(request)

    def arrived(self) -> None:
        """A request came."""
        self._counts = None

    def preempted(self, request: Any, computed_tokens: int) -> None:
        """A running request went back to the queue, and lost what was computed."""
        self._leave(request)
        self._preempted_requests += 1
        self._preempted_tokens += computed_tokens
        self._preempted[request.request_id] = computed_tokens

    def ended(self, request: Any) -> None:
        """A request finished or was aborted."""
        self._leave(request)
        self._preempted.pop(request.request_id, None)
        self._prompt_logprobs.discard(request.request_id)

    def _leave(self, request: Any) -> None:
        """A request does not run any more."""
        self._counts = None
        self._prompting.pop(request.request_id, None)
        if request.request_id in self._followed:
            # Before its next event.
            self._tell_growth()

    def begin(self, output: Any, started_ns: int) -> None:
        """A step was scheduled: who is in the batch, and with how many new blocks.

        All that needs a look at each request is looked at here, where the scheduler has just had it in its hands. What is
        written of it can wait for the end, where the code that writes is needed anyway; a request that begins cannot.

        Args:
            output: The scheduler's SchedulerOutput.
            started_ns: When its scheduling began, on the monotonic clock.
        """
        for pool in self.pools:
            pool.allocated = pool.freed + pool.total - pool.pool.free_block_queue.num_free_blocks
        timelines = self._timelines
        step_id = timelines.step_id = timelines.step_id + 1
        scheduled, cached = output.num_scheduled_tokens, output.scheduled_cached_reqs
        new, resumed = output.scheduled_new_reqs, cached.resumed_req_ids
        hits = prefill = 0
        if self._prompting:
            prefill += self._prompt_tokens(scheduled)
        for one in new:
            prefill += scheduled[one.req_id]
            hits += self._begin_request(one, scheduled[one.req_id])
        if resumed:
            prefill += self._resume(cached, scheduled)
        growth: Growth = []
        blocks, ids, followed_ids = cached.new_block_ids, cached.req_ids, self._followed
        # Of hundreds of requests a few got blocks; the others are passed over in C, and without a look at their ids.
        for at in compress(_NUMBERS if len(ids) <= len(_NUMBERS) else range(len(ids)), blocks):
            followed = followed_ids.get(ids[at])
            if followed is not None:
                event = EVENT["resumed" if ids[at] in resumed else "blocks_changed"]
                growth.append((followed, event, count_blocks(blocks[at]), scheduled[ids[at]]))
        positions = len(scheduled)
        if output.scheduled_spec_decode_tokens:
            positions += sum(map(len, output.scheduled_spec_decode_tokens.values()))
        if self._prompt_logprobs:
            positions += sum(scheduled[request_id] - 1 for request_id in self._prompt_logprobs & scheduled.keys())
        if self._counts is None or new or resumed:
            self._counts = self._scheduler.get_request_counts()
        running, waiting = self._counts
        flights = self._flights
        if len(flights) >= MAX_FLIGHTS:
            flights.clear()
        decode = output.total_num_scheduled_tokens - prefill
        flights[id(output)] = step_id, prefill, decode, hits, running, waiting, positions, started_ns, growth
        if resumed:
            self._tell_growth()

    def _begin_request(self, new: Any, tokens: int) -> int:
        """A request is scheduled for the first time, or (the V2 runner) again after a preemption.

        Returns:
            Its tokens that were in the prefix cache.
        """
        request_id, computed = new.req_id, new.num_computed_tokens
        resumed = request_id in self._preempted
        self._timelines.began(new, resumed, tokens)
        self._note_prompt(self._scheduler.requests[request_id])
        if resumed:
            self._recompute(request_id, computed)
            return 0
        self._prefix_hit_tokens += computed
        if getattr(new.sampling_params, "prompt_logprobs", None) is not None:
            self._prompt_logprobs.add(request_id)
        return int(computed)

    def _resume(self, cached: Any, scheduled: dict[str, int]) -> int:
        """Requests are scheduled again after a preemption; returns for how many tokens."""
        tokens = 0
        for request_id, computed in zip(cached.req_ids, cached.num_computed_tokens, strict=True):
            if request_id in cached.resumed_req_ids:
                tokens += scheduled[request_id]
                self._recompute(request_id, computed)
                self._note_prompt(self._scheduler.requests[request_id])
        return tokens

    def _note_prompt(self, request: Any) -> None:
        """Its next steps are prefill too, if its prompt did not fit into this one."""
        if request.num_output_tokens == 0 and request.num_computed_tokens < request.num_prompt_tokens:
            self._prompting[request.request_id] = request

    def _prompt_tokens(self, scheduled: dict[str, int]) -> int:
        """Scheduled tokens of requests that began before with a part of their prompt."""
        tokens = 0
        for request_id, request in list(self._prompting.items()):
            tokens += scheduled.get(request_id, 0)
            if request.num_computed_tokens >= request.num_prompt_tokens:
                del self._prompting[request_id]
        return tokens

    def _recompute(self, request_id: str, computed: int) -> None:
        self._recomputed_tokens += max(self._preempted.pop(request_id, computed) - computed, 0)

    def end(self, output: Any, result: Any, dumped: int = NULL_U8) -> None:
        """A step is over, or failed: its figures, and those of the pools.

        Args:
            output: As it began; one that never began is passed over.
            result: The model runner's output.
            dumped: 1 if it failed, else NULL.
        """
        flight = self._flights.pop(id(output), None)
        if flight is None:
            return
        ring = self._ring
        step_id, prefill, decode, cached, running, waiting, positions, started_ns, growth = flight
        for followed, event, blocks, tokens in growth:
            followed.write(ring, event, step_id, blocks, scheduled=tokens)
        now_ns = _monotonic_ns()
        step = STEP.pack(
            step_id, prefill, decode, cached, running, waiting, positions, (now_ns - started_ns) // 1000, dumped, b""
        )
        for pool in self.pools:
            total, allocated, freed = pool.total, pool.allocated, pool.freed
            free = pool.pool.free_block_queue.num_free_blocks
            used = total - free
            if allocated - freed != used:
                self.tell_mismatch(pool)
            body = KV_POOL.pack(
                self._block_size, total, free, used, self._bytes_per_block, total * self._block_size, allocated, freed,
                self._preempted_requests, self._preempted_tokens, self._recomputed_tokens, self._prefix_hit_tokens,
                pool.tail,
            )  # fmt: skip
            if step:
                ring.put_two(STEP, step, KV_POOL, body)
                step = b""
            else:
                ring.put(KV_POOL, body)
        if self._timelines.awaiting:
            self._timelines.first_tokens(step_id)
        if self._preempted_requests != self._told_preempted:
            self._tell_preemptions()
        moved = getattr(result, "kv_connector_output", None)
        if moved is not None:
            self._write_transfers(moved)
        if now_ns > self._clock_due_ns:
            self._clock_due_ns = now_ns + CLOCK_NS
            ring.write(COLLECTOR, pack_texts("agent", "ok"), NULL_I64, self._guard.errors, time.time_ns())

    def _tell_growth(self) -> None:
        """Write who got blocks in the steps that are in flight, if it was not written yet."""
        for flight in self._flights.values():
            for followed, event, blocks, tokens in flight[-1]:
                followed.write(self._ring, event, flight[0], blocks, scheduled=tokens)
            flight[-1].clear()

    def _tell_preemptions(self) -> None:
        """The KV blocks ran out, and the engine went on: that is an out-of-memory event too."""
        count = self._preempted_requests - self._told_preempted
        self._told_preempted = self._preempted_requests
        free, total = self.pools[0].free, self.pools[0].total
        text = f"{count} of the running requests preempted; {free} of {total} KV blocks free after the step"
        tail = pack_texts("engine", "preemption", text)
        self._ring.write(OOM, tail, RESOURCES.index("kv_blocks"), 0, count, *OOM.nulls[3:])

    def tell_mismatch(self, pool: PoolTotals) -> None:
        """A pool's blocks moved on a way that is not known here."""
        text = f"counted {pool.allocated - pool.freed} used blocks, the pool says {pool.total - pool.free}: counted anew"
        self._ring.write(COLLECTOR, pack_texts("kv_pool", "degraded", text), NULL_I64, self._guard.errors, NULL_I64)
        pool.rebase()

    def _write_transfers(self, moved: Any) -> None:
        for op, names in (("send", "finished_sending"), ("receive", "finished_recving")):
            for request_id in getattr(moved, names, None) or ():
                request = self._scheduler.requests.get(request_id)
                tokens = getattr(request, "num_computed_tokens", NULL_I64)
                self._ring.write(TRANSFER, b"", TRANSFER_OPS.index(op), NULL_I64, tokens, NULL_I64)


def _bytes_per_block(config: Any) -> int:
    """Over all layers of one rank; NULL where the engine does not tell."""
    tensors, blocks = getattr(config, "kv_cache_tensors", None), getattr(config, "num_blocks", 0)
    if not tensors or not blocks:
        return NULL_I64
    return sum(int(tensor.size) for tensor in tensors) // int(blocks)
