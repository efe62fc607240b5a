"""How many requests, and how many tokens of them, are alive at once."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from oomctl.schemas.trace import Prefixes, Trace

Index = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Service:
    """How long a request is served where a trace does not tell: by infinitely many servers, each at this speed.

    Attributes:
        prefill_tokens_per_s: Of a prompt, none of it cached.
        output_token_s: From one output token to the next.
    """

    prefill_tokens_per_s: float = 8000.0
    output_token_s: float = 0.030


@dataclass(frozen=True, slots=True, eq=False)
class Levels:
    """A level over time, piecewise constant.

    Attributes:
        values: int64, shape (n,).
        seconds: How long each holds, float64, shape (n,).
    """

    values: Index
    seconds: npt.NDArray[np.float64]

    def quantiles(self, shares: Sequence[float]) -> list[float]:
        """The least values that are not exceeded for at least these shares of the time."""
        order = np.argsort(self.values, kind="stable")
        passed = np.cumsum(self.seconds[order])
        places = np.searchsorted(passed, np.asarray(shares) * passed[-1])
        return [float(value) for value in self.values[order][np.minimum(places, len(order) - 1)]]


def observed(trace: Trace) -> bool:
    """Whether the trace tells how long requests took."""
    return bool(trace.requests["service_s"].is_not_null().all())


def ends_s(trace: Trace, service: Service) -> npt.NDArray[np.float64]:
    """When each request is done: as the trace tells, else by the model of `service`; shape (requests,)."""
    requests = trace.requests
    arrival_s = requests["arrival_s"].to_numpy()
    if observed(trace):
        return np.asarray(arrival_s + requests["service_s"].to_numpy())
    prompts, outputs = requests["prompt_tokens"].to_numpy(), requests["output_tokens"].fill_null(0).to_numpy()
    return np.asarray(arrival_s + prompts / service.prefill_tokens_per_s + outputs * service.output_token_s)


def levels(starts_s: npt.NDArray[np.float64], stops_s: npt.NDArray[np.float64], up: Index, down: Index) -> Levels:
    """A sum that each start raises and each stop lowers; what stops where another starts has stopped before.

    Args:
        starts_s: Shape (requests,).
        stops_s: Same shape.
        up: By how much each start raises it.
        down: By how much each stop lowers it.
    """
    times = np.concatenate((stops_s, starts_s))
    changes = np.concatenate((-down, up))
    order = np.argsort(times, kind="stable")
    return Levels(np.cumsum(changes[order])[:-1], np.diff(times[order]))


def shared_changes(
    prefixes: Prefixes, whole_blocks: Index, starts_s: npt.NDArray[np.float64], stops_s: npt.NDArray[np.float64]
) -> tuple[Index, Index]:
    """Blocks of each request that others hold at its start, and at its end: a block that several hold is there once.

    Args:
        prefixes: Of the same requests.
        whole_blocks: Filled blocks of each prompt, int64, shape (requests,): a partly filled one is nobody else's.
        starts_s: Shape (requests,).
        stops_s: Same shape.

    Returns:
        Two arrays of int64, shape (requests,): held already at its start; still held by others after its end.
    """
    holders = np.zeros(prefixes.limit, dtype=np.int32)
    at_start, at_end = np.zeros(len(starts_s), dtype=np.int64), np.zeros(len(starts_s), dtype=np.int64)
    times = np.concatenate((stops_s, starts_s))
    for event in np.argsort(times, kind="stable").tolist():
        request = event % len(starts_s)
        ids = prefixes.of(request)[: whole_blocks[request]]
        if event < len(starts_s):
            holders[ids] -= 1
            at_end[request] = np.count_nonzero(holders[ids])
        else:
            at_start[request] = np.count_nonzero(holders[ids])
            holders[ids] += 1
    return at_start, at_end
