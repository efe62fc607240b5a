"""The best policy here: what the pool will hold at each moment to come, with what ends in between."""

from math import sqrt

from oomctl.analyzers.capacity.admission.outputs import Outputs
from oomctl.analyzers.capacity.admission.request import Request, blocks_of
from oomctl.analyzers.capacity.admission.state import Outlook, Policy, Running, State

HORIZONS = (0, 16, 48, 96, 192, 320, 512)
"""Output tokens from now on, at which the pool is looked at. Beyond the last one few of those that run now are left."""


class Forecast(Policy):
    """Admits where the pool holds, at every horizon, the quantile of what all running requests hold together then.

    All running requests generate at the same pace, so a horizon is a number of output tokens. A request that has generated
    n tokens is still there h tokens later with probability P(N > n + h) / P(N > n), and then holds its blocks of now and
    those for h tokens; else it holds none. Means and variances of that are summed over the requests, per horizon, and kept
    up to date; the sum is taken as normal. Blocks of a request that has gone, still held by others, count as staying.

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
        self._sum_up([0.0] * len(HORIZONS), [0.0] * len(HORIZONS))

    def _sum_up(self, means: list[float], variances: list[float]) -> None:
        self._means, self._variances = means, variances
        z = self._z
        spreads = [sqrt(each) if each > 0.0 else 0.0 for each in variances]
        self._tops = [mean + z * spread for mean, spread in zip(means, spreads, strict=True)]
        # What a little more variance adds to z times the root, at most: the root's slope.
        self._slopes = [0.5 * z / max(spread, 1.0) for spread in spreads]

    def outlook(self, state: State, request: Request, found_blocks: int) -> Outlook:
        # As _course for a request that begins, added to the sums without a list or a root: decide() waits for this.
        lengths = self._outputs.of(request.cohort)
        stays = lengths.stays
        most = state.most_output_tokens(request, found_blocks) if request.deadline_s else request.max_output_tokens
        block_tokens, branches = state.block_tokens, request.branches
        rounded = request.prompt_tokens + block_tokens - 1
        first = rounded // block_tokens - found_blocks
        shift = int((request.prompt_tokens - found_blocks * block_tokens) / state.prefill_tokens_per_s / state.tpot_s)
        peak = 0.0
        for horizon, top, slope in zip(HORIZONS, self._tops, self._slopes, strict=True):
            then = horizon - shift
            if then <= 0:
                top += first
            elif then < most:
                blocks = (rounded + then) // block_tokens - found_blocks
                if branches > 1:
                    blocks = blocks_of(request.prompt_tokens, then, branches, block_tokens) - found_blocks
                held = blocks * stays[then]
                more = held + slope * held * (blocks - held)
                top += more if more < blocks else blocks
            if top > peak:
                peak = top
        # Blocks that others hold, though the one who brought them has gone.
        return peak + state.used_blocks - state.named_blocks, int(lengths.rest[0]) if lengths.rest else most

    def _course(self, state: State, running: Running) -> tuple[list[float], list[float]]:
        """(mean, variance) of the blocks that it holds in its own name at each horizon."""
        request, found_blocks, output_tokens = running.request, running.found_blocks, running.output_tokens
        lengths = self._outputs.of(request.cohort)
        stays = lengths.stays
        known = len(lengths.alive)
        most = state.most_output_tokens(request, found_blocks)
        block_tokens, branches = state.block_tokens, request.branches
        rounded = request.prompt_tokens + block_tokens - 1
        # Longer than any seen: nothing says that it will end.
        now = 1.0 if output_tokens < 0 else stays[min(output_tokens, known)]
        means, variances = [float(running.blocks)], [0.0]
        for horizon in HORIZONS[1:]:
            then = output_tokens + horizon
            if then >= most:
                means.append(0.0)
                variances.append(0.0)
                continue
            if then <= 0:
                blocks, share = rounded // block_tokens - found_blocks, 1.0
            else:
                share = stays[min(then, known)] / now
                if branches == 1:
                    blocks = (rounded + then) // block_tokens - found_blocks
                else:
                    blocks = blocks_of(request.prompt_tokens, then, branches, block_tokens) - found_blocks
            held = share * blocks
            means.append(held)
            variances.append(held * (blocks - held))
        return means, variances

    def entered(self, state: State, running: Running) -> None:
        means, variances = running.kept = self._course(state, running)
        self._sum_up(
            [a + b for a, b in zip(self._means, means, strict=True)],
            [a + b for a, b in zip(self._variances, variances, strict=True)],
        )

    def produced(self, state: State, running: Running, before_blocks: int) -> None:
        old_means, old_variances = running.kept
        means, variances = running.kept = self._course(state, running)
        self._sum_up(
            [a - b + c for a, b, c in zip(self._means, old_means, means, strict=True)],
            [a - b + c for a, b, c in zip(self._variances, old_variances, variances, strict=True)],
        )

    def left(self, state: State, running: Running, finished: bool) -> None:
        if state.running:
            means, variances = running.kept
            self._sum_up(
                [a - b for a, b in zip(self._means, means, strict=True)],
                [a - b for a, b in zip(self._variances, variances, strict=True)],
            )
        else:
            self._begin()  # sums of floats drift; an empty pool is the moment to begin anew
        if finished:
            self._outputs.add(running.request.cohort, running.output_tokens)
