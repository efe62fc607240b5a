"""What begins in a step, or goes on with its prompt: prompt tokens, prefix hits, and what preemptions cost."""

import struct
from collections.abc import Callable
from typing import Any

_COUNTERS = struct.Struct("<qqqq")


class Admissions:
    """Follows every request while it is in its prompt or preempted. Knows vLLM's objects, but wraps none of them.

    Args:
        scheduler: vLLM's Scheduler, constructed.
        tell: Gets the last four values of KV_POOL, packed, when they change.

    Attributes:
        prompting: Requests in the midst of their prompt, by id.
        prompt_logprobs: Ids of those that asked for the logits of their whole prompt.
        preempted_requests: So far.
    """

    __slots__ = (
        "_preempted", "_preempted_tokens", "_prefix_hit_tokens", "_recomputed_tokens", "_scheduler", "_tell",
        "preempted_requests", "prompt_logprobs", "prompting",
    )  # fmt: skip

    def __init__(self, scheduler: Any, tell: Callable[[bytes], None]) -> None:
        self._scheduler = scheduler
        self._tell = tell
        self._preempted: dict[str, int] = {}
        self.prompting: dict[str, Any] = {}
        self.prompt_logprobs: set[str] = set()
        self.preempted_requests = 0
        self._preempted_tokens = 0
        self._recomputed_tokens = 0
        self._prefix_hit_tokens = 0
        self._count()

    def forget(self) -> None:
        """Follow nobody; the totals go on from where they are."""
        for kept in (self._preempted, self.prompting, self.prompt_logprobs):
            kept.clear()

    def adopt(self) -> None:
        """Requests that were there before: who is in the midst of its prompt."""
        for request in list(self._scheduler.requests.values()):
            if request.num_computed_tokens and not request.num_output_tokens:
                self._note_prompt(request)

    def preempted(self, request_id: str, computed_tokens: int) -> None:
        """A running request went back to the queue, and lost what was computed."""
        self.prompting.pop(request_id, None)
        self.preempted_requests += 1
        self._preempted_tokens += computed_tokens
        self._preempted[request_id] = computed_tokens
        self._count()

    def ended(self, request_id: str) -> None:
        """A request finished or was aborted."""
        if self.prompting or self._preempted or self.prompt_logprobs:
            self.prompting.pop(request_id, None)
            self._preempted.pop(request_id, None)
            self.prompt_logprobs.discard(request_id)

    def was_preempted(self, request_id: str) -> bool:
        """Whether it waits to be scheduled again."""
        return request_id in self._preempted

    def scheduled(self, output: Any) -> tuple[int, int]:
        """A step was scheduled.

        Args:
            output: The scheduler's SchedulerOutput.

        Returns:
            Its prefill tokens, and besides them those of its new requests that were in the prefix cache.
        """
        tokens, cached = output.num_scheduled_tokens, output.scheduled_cached_reqs
        hits = prefill = 0
        if self.prompting:
            prefill += self._prompt_tokens(tokens)
        for new in output.scheduled_new_reqs:
            request_id = new.req_id
            scheduled, computed = tokens[request_id], new.num_computed_tokens
            prefill += scheduled
            request = self._scheduler.requests[request_id]
            if self._preempted and request_id in self._preempted:
                # The V2 runner has it among the new ones again.
                self._note_prompt(request)
                self._recompute(request_id, computed)
                continue
            if computed + scheduled < request.num_prompt_tokens:
                self.prompting[request_id] = request
            if computed:
                hits += computed
            if new.sampling_params is not None and new.sampling_params.prompt_logprobs is not None:
                self.prompt_logprobs.add(request_id)
        if hits:
            self._prefix_hit_tokens += hits
            self._count()
        if cached.resumed_req_ids:
            for request_id, computed in zip(cached.req_ids, cached.num_computed_tokens, strict=True):
                if request_id in cached.resumed_req_ids:
                    prefill += tokens[request_id]
                    self._recompute(request_id, computed)
                    self._note_prompt(self._scheduler.requests[request_id])
        return prefill, hits

    def _note_prompt(self, request: Any) -> None:
        """Its next steps are prefill too, if its prompt did not fit into this one."""
        if request.num_output_tokens == 0 and request.num_computed_tokens < request.num_prompt_tokens:
            self.prompting[request.request_id] = request

    def _prompt_tokens(self, scheduled: dict[str, int]) -> int:
        """Scheduled tokens of requests that began before with a part of their prompt."""
        tokens = 0
        for request_id, request in list(self.prompting.items()):
            tokens += scheduled.get(request_id, 0)
            if request.num_computed_tokens >= request.num_prompt_tokens:
                del self.prompting[request_id]
        return tokens

    def _recompute(self, request_id: str, computed: int) -> None:
        self._recomputed_tokens += max(self._preempted.pop(request_id, computed) - computed, 0)
        self._count()

    def _count(self) -> None:
        values = self.preempted_requests, self._preempted_tokens, self._recomputed_tokens, self._prefix_hit_tokens
        self._tell(_COUNTERS.pack(*values))
