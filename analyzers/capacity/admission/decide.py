"""The decision about one request."""

from math import inf
from typing import Literal, NamedTuple

from oomctl.analyzers.capacity.admission.request import Request, blocks_of
from oomctl.analyzers.capacity.admission.state import State

Action = Literal["admit", "queue", "reject"]
Reason = Literal["fits", "no_room", "behind_others", "queue_full", "too_large", "deadline", "predicted_load"]


class Reservation(NamedTuple):
    """What an admitted request would take.

    Attributes:
        blocks: For its prompt, now, but for those found.
        found_blocks: Held by running requests already, so not taken again.
        output_tokens: Reserved per branch.
        growth_blocks: For these.
        peak_blocks: The most that the pool is then expected to hold.
    """

    blocks: int
    found_blocks: int
    output_tokens: int
    growth_blocks: int
    peak_blocks: float


class Decision(NamedTuple):
    """Whether a request enters, why, and what that takes."""

    action: Action
    reason: Reason
    reservation: Reservation


def decide(state: State, request: Request, ahead: int = 0, waited_s: float = inf) -> Decision:
    """Admit, queue or reject a request. Nothing is changed: `state.enter` admits.

    Args:
        state: The pool.
        request: Who asks.
        ahead: Requests that wait before it; 0 for the one at the head of the queue.
        waited_s: How long the first of these has waited. Up to `state.overtake_s` one that fits passes them; then nobody
            enters before the first.

    Returns:
        admit (fits); queue (no_room, behind_others); reject (queue_full; too_large: it does not fit an empty pool;
        deadline: no token could come in time; predicted_load: the policy rejects what does not fit now).
    """
    found = state.found_blocks(request) if request.prefix else 0
    policy = state.policy
    peak, output_tokens = policy.outlook(state, request, found)
    branches, block_tokens = request.branches, state.block_tokens
    prompt = -(-request.prompt_tokens // block_tokens)
    whole = blocks_of(request.prompt_tokens, output_tokens, branches, block_tokens)
    if not state.running and whole < peak:
        peak = whole  # alone it gets all there is, and waiting would bring nothing better
    reservation = Reservation(prompt - found, found, output_tokens, whole - prompt, peak)
    limit = state.limit_blocks
    if request.deadline_s is not None and state.most_output_tokens(request, found) < 1:
        return Decision("reject", "deadline", reservation)
    in_turn = not ahead or waited_s < state.overtake_s
    if peak <= limit and in_turn:
        return Decision("admit", "fits", reservation)
    if whole > limit:
        return Decision("reject", "too_large", reservation)
    if policy.rejects:
        return Decision("reject", "predicted_load", reservation)
    if ahead >= state.queue_limit:
        return Decision("reject", "queue_full", reservation)
    return Decision("queue", "no_room" if in_turn else "behind_others", reservation)
