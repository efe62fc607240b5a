"""What a policy could do that knew every output and the time each ends: the measure for all others."""

from oomctl.analyzers.capacity.admission.request import Request, blocks_of
from oomctl.analyzers.capacity.admission.state import Outlook, Policy, Running, State


class Oracle(Policy):
    """Follows all running requests to their known ends, at the pool's pace, and takes the highest point.

    Blocks only fall when a request ends, so the highest point lies just before an end. The first point above the limit
    decides, and is not followed further.
    """

    name = "oracle"

    def outlook(self, state: State, request: Request, found_blocks: int) -> Outlook:
        begin_s = state.now_s + state.prefill_s(request, found_blocks)
        output_tokens = _known(request)
        limit = state.limit_blocks
        now = state.used_blocks + blocks_of(request.prompt_tokens, 0, request.branches, state.block_tokens) - found_blocks
        if now > limit:
            return now, output_tokens
        courses = [each.kept for each in state.running.values()]
        courses.append((begin_s + output_tokens * state.tpot_s, begin_s, request, found_blocks))
        apart = state.used_blocks - state.named_blocks
        top = apart + sum(blocks_of(each.prompt_tokens, _known(each), each.branches, state.block_tokens) - found
                          for _, _, each, found in courses)  # fmt: skip
        if top <= limit:
            return top, output_tokens  # even if all reached their ends together
        courses.sort(key=lambda course: course[0])
        tpot_s, block_tokens, peak = state.tpot_s, state.block_tokens, 0
        for place, (end_s, _, _, _) in enumerate(courses):
            held = 0
            for _, each_begin_s, each, found in courses[place:]:
                generated = min(_known(each), int((end_s - each_begin_s) / tpot_s + 1e-6))
                held += blocks_of(each.prompt_tokens, generated, each.branches, block_tokens) - found
            peak = max(peak, held)
            if apart + peak > limit:
                break
        return apart + peak, output_tokens

    def entered(self, state: State, running: Running) -> None:
        self._keep(state, running, state.now_s + state.prefill_s(running.request, running.found_blocks))

    def produced(self, state: State, running: Running, before_blocks: int) -> None:
        self._keep(state, running, state.now_s - running.output_tokens * state.tpot_s)

    def _keep(self, state: State, running: Running, begin_s: float) -> None:
        end_s = begin_s + _known(running.request) * state.tpot_s
        running.kept = (end_s, begin_s, running.request, running.found_blocks)


def _known(request: Request) -> int:
    return request.max_output_tokens if request.output_tokens is None else request.output_tokens
