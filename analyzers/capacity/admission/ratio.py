"""SGLang's rule: a share of what running requests may still generate, which falls while nothing goes wrong."""

from oomctl.analyzers.capacity.admission.request import Request, blocks_of
from oomctl.analyzers.capacity.admission.state import Outlook, Policy, Running, State

CLIP_TOKENS = 4096
"""SGLang looks no further ahead than this many output tokens (SGLANG_CLIP_MAX_NEW_TOKENS_ESTIMATION)."""
RETRACT_STEPS = 20


class PredictiveRatio(Policy):
    """Reserves a ratio of the running requests' possible outputs, and the whole of the new one's.

    The ratio falls linearly with each decode step. When the pool runs out the engine retracts requests, and the ratio is
    set to what then proves to be needed: (generated + 20 per request) / (what they may generate). The rule is that of
    SGLang's scheduler (schedule_policy.py, schedule_batch.py: new_token_ratio).

    Args:
        first: Ratio at the start; `least`: floor; `steps`: decode steps from one to the other.
    """

    name = "ratio"

    def __init__(self, first: float = 0.7, least: float = 0.098, steps: int = 600) -> None:
        self._ratio = first
        self._since_s = 0.0
        self._least = least
        self._fall = (first - least) / steps
        self._may_blocks = 0.0

    def ratio(self, state: State) -> float:
        """Of now."""
        steps = (state.now_s - self._since_s) / state.tpot_s
        return max(self._least, self._ratio - self._fall * steps)

    def outlook(self, state: State, request: Request, found_blocks: int) -> Outlook:
        tokens = min(state.most_output_tokens(request, found_blocks), CLIP_TOKENS)
        whole = blocks_of(request.prompt_tokens, tokens, request.branches, state.block_tokens) - found_blocks
        return state.used_blocks + self._may_blocks * self.ratio(state) + whole, tokens

    def entered(self, state: State, running: Running) -> None:
        running.kept = self._may(state, running)
        self._may_blocks += running.kept

    def produced(self, state: State, running: Running, before_blocks: int) -> None:
        self._may_blocks -= running.kept
        self.entered(state, running)

    def retracted(self, state: State, running: Running) -> None:
        generated = sum(max(0, each.output_tokens) for each in state.running.values())
        allowed = sum(each.request.max_output_tokens for each in state.running.values())
        self._ratio = min(1.0, (generated + RETRACT_STEPS * len(state.running)) / (allowed + 1))
        self._since_s = state.now_s

    def left(self, state: State, running: Running, finished: bool) -> None:
        self._may_blocks -= running.kept

    def _may(self, state: State, running: Running) -> float:
        most = state.most_output_tokens(running.request, running.found_blocks)
        left = min(most - max(0, running.output_tokens), CLIP_TOKENS)
        return max(0, left) * running.request.branches / state.block_tokens
