"""What a pause costs: token-seconds in which blocks are held, or a machine computes, for nothing new."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from oomctl.schemas.pauses import Waste

Values = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Costs:
    """Speeds of a worker, and of the link to its host.

    Waste of a pause of x seconds with c tokens held, as in InferCept (arXiv 2402.01869): preserve x c; recompute c times
    the time that computing c tokens takes; offload c times the two transfers.

    Attributes:
        prefill_tokens_per_s: Speed of a recomputation.
        bytes_per_token: Of the KV cache, all layers of a rank.
        link_bytes_per_s: Each way.
        busy_ratio: Share of the link that others take, 0 to below 1.
    """

    prefill_tokens_per_s: float = 8000.0
    bytes_per_token: float = 131_072.0
    link_bytes_per_s: float = 25e9
    busy_ratio: float = 0.0

    def recompute_s(self, tokens: Values) -> Values:
        """Time to compute a context again."""
        return tokens / self.prefill_tokens_per_s

    def transfer_s(self, tokens: Values) -> Values:
        """Time of one way over the link, when it is this context's turn."""
        return tokens * self.bytes_per_token / (self.link_bytes_per_s * (1 - self.busy_ratio))


@dataclass(frozen=True, slots=True, eq=False)
class Pauses:
    """Pauses of sessions, in the order of their begin.

    Attributes:
        begin_s: On one clock.
        seconds: How long.
        tokens: Held: prompt and output of the turn before.
        session: A number per session.
    """

    begin_s: Values
    seconds: Values
    tokens: Values
    session: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.seconds)

    def take(self, chosen: npt.NDArray[np.intp]) -> "Pauses":
        """Some of them, in the order asked for."""
        return Pauses(self.begin_s[chosen], self.seconds[chosen], self.tokens[chosen], self.session[chosen])


def totals(pauses: Pauses, costs: Costs) -> Waste:
    """For rules that need no foresight, and for oracles that have it."""
    seconds, tokens = pauses.seconds, pauses.tokens
    again_s, moved_s = costs.recompute_s(tokens), 2 * costs.transfer_s(tokens)
    return Waste(
        preserve=float((seconds * tokens).sum()),
        recompute=float((again_s * tokens).sum()),
        offload=float((np.minimum(moved_s, seconds) * tokens).sum()),
        offloaded=int((moved_s < seconds).sum()),
        oracle=float((np.minimum(np.minimum(moved_s, again_s), seconds) * tokens).sum()),
        oracle_without_link=float((np.minimum(again_s, seconds) * tokens).sum()),
        oracle_recomputed=int((again_s < seconds).sum()),
    )
