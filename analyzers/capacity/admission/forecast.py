"""The best policy here: what the pool will hold at each moment to come, with what ends in between."""

from itertools import pairwise
from math import sqrt
from typing import TypeAlias

from oomctl.analyzers.capacity.admission.outputs import Outputs
from oomctl.analyzers.capacity.admission.request import Request, blocks_of
from oomctl.analyzers.capacity.admission.state import Outlook, Policy, Running, State

HORIZONS = (0, 32, 64, 128, 192, 320, 512)
"""Output tokens from now on, at which the pool is looked at. Beyond the last one few of those that run now are left."""
STRETCHES = tuple(pairwise((*HORIZONS, 768)))
"""From one horizon to the next: who is there at its begin has grown by its end."""
LAST = STRETCHES[-1][1]
LAG = HORIZONS[1]


Course: TypeAlias = tuple[list[float], list[float], list[int], int]
"""Means, variances and largest blocks by horizon, and the tokens generated when that was worked out."""


class Forecast(Policy):
    """Admits where the pool holds, at every horizon, the quantile of what all running requests hold together then.

    All running requests generate at the same pace, so a horizon is a number of output tokens. A request that has generated
    n tokens is still there h tokens later with probability P(N > n + h) / P(N > n), and then holds its blocks of now and
    those that it needs until the next horizon; else it holds none. Means and variances of that are summed over the
    requests, per horizon, and kept up to date. The sum is taken as normal, and never above what all would hold if none
    ended. Blocks of a request that has gone, still held by others, count as staying.

    Args:
        outputs: What past requests took; learns from those that finish.
        z: Standard deviations above the mean.
    """

    name = "forecast"

    def __init__(self, outputs: Outputs, z: float = 3.0) -> None:
        self._outputs = outputs
        self._z = z
        self._begin()

    def _begin(self) -> None:
        zeros = [0.0] * len(HORIZONS)
        self._sum_up(zeros, zeros, [0] * len(HORIZONS))

    def _sum_up(self, means: list[float], variances: list[float], ceilings: list[int]) -> None:
        self._means, self._variances, self._ceilings = means, variances, ceilings
        z = self._z
        spreads = [sqrt(each) if each > 0.0 else 0.0 for each in variances]
        # For a decision: what is expected at most; what a little more variance adds to it at most, by the root's slope; and
        # what would be held if none ended.
        self._stretches = [
            (begin, end, mean + z * spread, 0.5 * z / (spread if spread > 1.0 else 1.0), ceiling)
            for (begin, end), mean, spread, ceiling in zip(STRETCHES, means, spreads, ceilings, strict=True)
        ]

    def outlook(self, state: State, request: Request, found_blocks: int) -> Outlook:
        # As _course for a request that begins, added to the sums without a list or a root: decide() waits for this.
        lengths = self._outputs.of(request.cohort)
        stays = lengths.stays
        most = state.most_output_tokens(request, found_blocks) if request.deadline_s else request.max_output_tokens
        block_tokens, branches = state.block_tokens, request.branches
        rounded = request.prompt_tokens + block_tokens - 1
        first = rounded // block_tokens - found_blocks
        shift = int((request.prompt_tokens - found_blocks * block_tokens) / state.prefill_tokens_per_s / state.tpot_s)
        if branches == 1:
            whole = (rounded + (most if most < LAST else LAST)) // block_tokens - found_blocks
        else:
            whole = blocks_of(request.prompt_tokens, min(most, LAST), branches, block_tokens) - found_blocks
        widest = 0.25 * whole * whole
        peak = 0.0
        for then, reach, top, slope, ceiling in self._stretches:
            if top + whole + slope * widest <= peak:
                continue  # whatever share of it is still there then, another moment is worse
            reach -= shift
            if reach <= 0:
                top += first
                ceiling += first
            else:
                then -= shift
                if then < most:
                    if reach > most:
                        reach = most
                    if branches == 1:
                        blocks = (rounded + reach) // block_tokens - found_blocks
                    else:
                        blocks = blocks_of(request.prompt_tokens, reach, branches, block_tokens) - found_blocks
                    ceiling += blocks
                    if then <= 0:
                        top += blocks
                    else:
                        held = blocks * stays[then]
                        top += held + slope * held * (blocks - held)
            if top > ceiling:
                top = ceiling
            if top > peak:
                peak = top
        # Blocks that others hold, though the one who brought them has gone.
        return peak + state.used_blocks - state.named_blocks, int(lengths.rest[0]) if lengths.rest else most

    def _course(self, state: State, running: Running) -> Course:
        """(mean, variance, largest) of the blocks that it holds in its own name at each horizon."""
        request, found_blocks, output_tokens = running.request, running.found_blocks, running.output_tokens
        lengths = self._outputs.of(request.cohort)
        stays = lengths.stays
        known = len(lengths.alive)
        most = state.most_output_tokens(request, found_blocks)
        block_tokens, branches = state.block_tokens, request.branches
        rounded = request.prompt_tokens + block_tokens - 1
        # Longer than any seen: nothing says that it will end.
        now = 1.0 if output_tokens < 0 else stays[min(output_tokens, known)]
        means, variances, largest = [], [], []
        for horizon, end in STRETCHES:
            # By the time this is worked out anew it has grown by up to LAG tokens more than others think.
            then, reach = output_tokens + horizon, min(output_tokens + end + LAG, most)
            if then >= most and horizon:
                means.append(0.0)
                variances.append(0.0)
                largest.append(0)
                continue
            share = stays[min(then, known)] / now if then > 0 and horizon else 1.0
            if reach <= 0:
                blocks = rounded // block_tokens - found_blocks
            elif branches == 1:
                blocks = (rounded + reach) // block_tokens - found_blocks
            else:
                blocks = blocks_of(request.prompt_tokens, reach, branches, block_tokens) - found_blocks
            held = share * blocks
            means.append(held)
            variances.append(held * (blocks - held))
            largest.append(blocks)
        return means, variances, largest, output_tokens

    def entered(self, state: State, running: Running) -> None:
        running.kept = self._course(state, running)
        self._change(None, running.kept)

    def produced(self, state: State, running: Running, before_blocks: int) -> None:
        # Until the first horizon has passed, what was expected then covers what was taken since.
        if running.output_tokens - running.kept[3] >= LAG or running.kept[3] < 0:
            before, running.kept = running.kept, self._course(state, running)
            self._change(before, running.kept)

    def left(self, state: State, running: Running, finished: bool) -> None:
        if state.running:
            self._change(running.kept, None)
        else:
            self._begin()  # sums of floats drift; an empty pool is the moment to begin anew
        if finished:
            self._outputs.add(running.request.cohort, running.output_tokens)

    def _change(self, before: Course | None, after: Course | None) -> None:
        """Sums with one request's course taken out and another put in."""
        means, variances, ceilings = self._means, self._variances, self._ceilings
        if before is not None:
            means = [a - b for a, b in zip(means, before[0], strict=True)]
            variances = [a - b for a, b in zip(variances, before[1], strict=True)]
            ceilings = [a - b for a, b in zip(ceilings, before[2], strict=True)]
        if after is not None:
            means = [a + b for a, b in zip(means, after[0], strict=True)]
            variances = [a + b for a, b in zip(variances, after[1], strict=True)]
            ceilings = [a + b for a, b in zip(ceilings, after[2], strict=True)]
        self._sum_up(means, variances, ceilings)
