"""Mooncake's rule: reject at arrival by the load that is predicted for the moment when the prompt will be done."""

from collections import deque

from oomctl.analyzers.capacity.admission.outputs import Outputs
from oomctl.analyzers.capacity.admission.request import Request, blocks_of
from oomctl.analyzers.capacity.admission.state import Outlook, Policy, Running, State


class EarlyRejection(Policy):
    """Predicts the pool's load at the end of the request's prefill, taking each running one to decode as long as the mean.

    The rule is that of the Mooncake paper (arXiv 2407.00079, early rejection based on prediction): to look at the present
    load instead lets prefill and decode swing against each other. What does not fit is rejected, never queued.

    Args:
        outputs: What past requests took; learns from those that finish.
    """

    name = "early-rejection"
    rejects = True

    def __init__(self, outputs: Outputs) -> None:
        self._outputs = outputs
        # In order of admission, which is nearly that of the expected end; a deque, since only its head is looked at.
        self._ends: deque[tuple[float, Running]] = deque()

    def outlook(self, state: State, request: Request, found_blocks: int) -> Outlook:
        done_s = state.now_s + state.prefill_s(request, found_blocks)
        running = state.running
        going = 0
        for end_s, each in self._ends:
            if end_s > done_s:
                break
            if running.get(each.request.request) is each:
                going += each.blocks
        tokens = self._mean_tokens(state, request, found_blocks)
        whole = blocks_of(request.prompt_tokens, tokens, request.branches, state.block_tokens) - found_blocks
        return state.used_blocks - going + whole, tokens

    def _mean_tokens(self, state: State, request: Request, found_blocks: int) -> int:
        rest = self._outputs.of(request.cohort).rest
        most = state.most_output_tokens(request, found_blocks)
        return min(most, int(rest[0])) if rest else most

    def entered(self, state: State, running: Running) -> None:
        tokens = self._mean_tokens(state, running.request, running.found_blocks)
        end_s = state.now_s + state.prefill_s(running.request, running.found_blocks) + tokens * state.tpot_s
        self._ends.append((end_s, running))

    def left(self, state: State, running: Running, finished: bool) -> None:
        ends, alive = self._ends, state.running
        while ends and alive.get(ends[0][1].request.request) is not ends[0][1]:
            ends.popleft()
        if finished:
            self._outputs.add(running.request.cohort, running.output_tokens)
