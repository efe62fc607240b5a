"""Policies that reserve a fixed output for each request: all it may, a quantile, or (in a replay) what it will take."""

from oomctl.analyzers.capacity.admission.outputs import Outputs
from oomctl.analyzers.capacity.admission.request import Request, blocks_of
from oomctl.analyzers.capacity.admission.state import Outlook, Policy, Running, State


class Reserve(Policy):
    """Reserves blocks for an output that is fixed at admission, and keeps them until the request ends.

    What a request generates beyond its reservation counts as it comes.
    """

    def __init__(self) -> None:
        self._promised_blocks = 0

    def reserved_tokens(self, state: State, request: Request, found_blocks: int) -> int:
        """Output to reserve per branch."""
        raise NotImplementedError

    def outlook(self, state: State, request: Request, found_blocks: int) -> Outlook:
        tokens = self.reserved_tokens(state, request, found_blocks)
        whole = blocks_of(request.prompt_tokens, tokens, request.branches, state.block_tokens)
        return state.used_blocks + self._promised_blocks + whole - found_blocks, tokens

    def entered(self, state: State, running: Running) -> None:
        request = running.request
        tokens = self.reserved_tokens(state, request, running.found_blocks)
        whole = blocks_of(request.prompt_tokens, tokens, request.branches, state.block_tokens)
        running.reserved_blocks = running.kept = whole - running.found_blocks - running.blocks
        running.kept += running.blocks
        self._promised_blocks += running.reserved_blocks

    def produced(self, state: State, running: Running, before_blocks: int) -> None:
        left = max(0, running.kept - running.blocks)
        self._promised_blocks += left - running.reserved_blocks
        running.reserved_blocks = left

    def left(self, state: State, running: Running, finished: bool) -> None:
        self._promised_blocks -= running.reserved_blocks


class MaxTokens(Reserve):
    """Reserves all that a request may generate: safe, and mostly unused."""

    name = "max-tokens"

    def reserved_tokens(self, state: State, request: Request, found_blocks: int) -> int:
        return state.most_output_tokens(request, found_blocks)


class Quantile(Reserve):
    """Reserves a quantile of the cohort's outputs.

    Args:
        outputs: What past requests took; learns from those that finish.
        q: Share of the outputs that stay within the reservation.
    """

    name = "quantile"

    def __init__(self, outputs: Outputs, q: float = 0.95) -> None:
        super().__init__()
        self._outputs = outputs
        self._q = q

    def reserved_tokens(self, state: State, request: Request, found_blocks: int) -> int:
        most = state.most_output_tokens(request, found_blocks)
        expected = self._outputs.of(request.cohort).quantile(self._q)
        return most if expected is None else min(most, expected)

    def left(self, state: State, running: Running, finished: bool) -> None:
        super().left(state, running, finished)
        if finished:
            self._outputs.add(running.request.cohort, running.output_tokens)


class Known(Reserve):
    """Reserves what the request will generate: an oracle of lengths, though not of time."""

    name = "known"

    def reserved_tokens(self, state: State, request: Request, found_blocks: int) -> int:
        if request.output_tokens is None:
            return state.most_output_tokens(request, found_blocks)
        return request.output_tokens
