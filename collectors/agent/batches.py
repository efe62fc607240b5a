"""The batches that a worker is given: what each holds, written before it runs, because it may not come back."""

import time
from typing import Any

from oomctl.collectors.agent.kinds import STEP
from oomctl.collectors.agent.ring import Ring
from oomctl.collectors.agent.slot_views import SlotViews
from oomctl.collectors.agent.step_slots import PREFILL, RUNNING, SHIFT, STEP_ID

_monotonic_ns = time.monotonic_ns


class Batches:
    """Writes a STEP for each batch, with what is known before it runs: its tokens and its requests."""

    __slots__ = ("_prompting", "_views", "recording", "step_id")

    def __init__(self) -> None:
        self.step_id = 0
        self.recording = False
        self._prompting = True
        self._views = SlotViews(1, SHIFT)
        self._views.bodies[0][:] = STEP.pack(STEP.word, 0, 0, 0, *STEP.nulls, b"")

    def put(self, ring: Ring, output: Any) -> None:
        """A batch is about to run.

        Args:
            ring: Where to; where it is paused, nothing is counted either.
            output: The scheduler's SchedulerOutput.
        """
        if not self.recording and not ring.active:
            self._prompting = True
            return
        self.step_id = step_id = self.step_id + 1
        decode, requests = output.total_num_scheduled_tokens, len(output.num_scheduled_tokens)
        prefill = 0
        # Who is in the midst of its prompt began in the step before, was in its prompt then, or has several tokens now. To
        # go through the whole batch at each step would cost more than all else here.
        if (
            self._prompting or decode != requests or output.scheduled_new_reqs
            or output.scheduled_cached_reqs.resumed_req_ids
        ):  # fmt: skip
            prefill = _prefill_tokens(output)
            decode -= prefill
            self._prompting = prefill > 0
        views = self._views
        words = views.words
        views.shifted_longs[STEP_ID] = step_id
        words[PREFILL] = prefill
        words[PREFILL + 1] = decode
        words[RUNNING] = requests
        self.recording = views.put(ring, _monotonic_ns())


def _prefill_tokens(output: Any) -> int:
    """Scheduled tokens of a SchedulerOutput that are prompt, or computed again after a preemption."""
    scheduled, cached = output.num_scheduled_tokens, output.scheduled_cached_reqs
    found = 0
    for new in output.scheduled_new_reqs:
        found += scheduled[new.req_id]
    for request_id, output_tokens in zip(cached.req_ids, cached.num_output_tokens, strict=True):
        if output_tokens == 0 or request_id in cached.resumed_req_ids:
            found += scheduled[request_id]
    return found
