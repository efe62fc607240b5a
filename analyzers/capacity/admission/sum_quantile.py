"""A quantile of the sum: long and short outputs even out over the running requests."""

from math import sqrt

from oomctl.analyzers.capacity.admission.outputs import Outputs
from oomctl.analyzers.capacity.admission.request import Request
from oomctl.analyzers.capacity.admission.state import Outlook, Policy, Running, State


class SumQuantile(Policy):
    """Reserves a quantile of all running requests' final size together, given what each has generated so far.

    The sum of independent outputs is taken as normal: mean + z standard deviations. All are counted as if they reached
    their end at the same time, which overstates the need: a request that ends gives its blocks back (see `Forecast`).

    Args:
        outputs: What past requests took; learns from those that finish.
        z: Standard deviations above the mean: 2.33 for 99%.
    """

    name = "sum-quantile"

    def __init__(self, outputs: Outputs, z: float = 2.33) -> None:
        self._outputs = outputs
        self._z = z
        self._mean_blocks = 0.0
        self._variance = 0.0

    def outlook(self, state: State, request: Request, found_blocks: int) -> Outlook:
        mean, variance, tokens = self._rest(state, request, found_blocks, 0)
        prompt = -(-request.prompt_tokens // state.block_tokens) - found_blocks
        expected = state.used_blocks + self._mean_blocks + prompt + mean
        return expected + self._z * sqrt(max(0.0, self._variance + variance)), tokens

    def _rest(self, state: State, request: Request, found_blocks: int, output_tokens: int) -> tuple[float, float, int]:
        """(mean blocks still to come, their variance, mean tokens per branch)."""
        lengths = self._outputs.of(request.cohort)
        most = state.most_output_tokens(request, found_blocks) - output_tokens
        if output_tokens >= len(lengths.rest):
            mean, variance = float(max(0, most)), 0.0  # longer than any seen: nothing is known but the bound
        else:
            mean, variance = lengths.rest[output_tokens], lengths.rest_variance[output_tokens]
            if mean > most:
                mean, variance = float(max(0, most)), 0.0
        scale = request.branches / state.block_tokens
        # The last block is on average half full, and each branch copies the prompt's last one.
        rounding = 0.5 * request.branches
        return mean * scale + rounding, variance * scale * scale, int(mean)

    def entered(self, state: State, running: Running) -> None:
        self._keep(state, running)

    def produced(self, state: State, running: Running, before_blocks: int) -> None:
        self._drop(running)
        self._keep(state, running)

    def left(self, state: State, running: Running, finished: bool) -> None:
        self._drop(running)
        if finished:
            self._outputs.add(running.request.cohort, running.output_tokens)

    def _keep(self, state: State, running: Running) -> None:
        generated = max(0, running.output_tokens)
        running.kept = self._rest(state, running.request, running.found_blocks, generated)
        self._mean_blocks += running.kept[0]
        self._variance += running.kept[1]

    def _drop(self, running: Running) -> None:
        self._mean_blocks -= running.kept[0]
        self._variance -= running.kept[1]
