"""The record that a request which is followed got blocks: the most frequent beside a step's, so it is filled in place."""

from oomctl.collectors.agent.kinds import REQUEST
from oomctl.collectors.agent.requests import Followed
from oomctl.collectors.agent.ring import Ring
from oomctl.collectors.agent.slot_views import SlotViews, index_of

_SHIFT = 2
"""All values of REQUEST are 2 bytes off a multiple of 4, or of 8."""
_EVENT = index_of(REQUEST, "event", 1)
_STEP_ID = index_of(REQUEST, "step_id", 8, _SHIFT)
_SCHEDULED = index_of(REQUEST, "scheduled_tokens", 4, _SHIFT)


class GrowthSlot:
    """Writes who got blocks.

    Args:
        ring: Where to.
    """

    __slots__ = ("_ring", "_views")

    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self._views = SlotViews(1, _SHIFT)

    def put(
        self, followed: Followed, event: int, step_id: int, tokens: int, computed: int, blocks: int, now_ns: int
    ) -> None:
        """Record that a request now holds so many blocks.

        Args:
            followed: The request.
            event: Of EVENT.
            step_id: The step that it got them for.
            tokens: That it was scheduled for in it.
            computed: Its computed tokens.
            blocks: That it holds.
            now_ns: On the monotonic clock.
        """
        ring, slot = self._ring, followed.slot
        if not slot:
            followed.write(ring, event, step_id, blocks - followed.blocks, scheduled=tokens)
            return
        views = self._views
        shifted = views.shifted_words
        views.bodies[0][:] = slot
        views.whole[_EVENT] = event
        views.shifted_longs[_STEP_ID] = step_id
        # As REQUEST has them, one after the other.
        at = _SCHEDULED
        shifted[at] = tokens
        shifted[at + 1] = computed
        shifted[at + 2] = followed.request.num_output_tokens
        shifted[at + 3] = blocks
        shifted[at + 4] = blocks - followed.blocks
        followed.blocks = blocks
        views.put(ring, now_ns)
