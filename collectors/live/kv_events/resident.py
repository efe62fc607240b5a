"""Which blocks an engine's prefix cache holds, from its events, and what was evicted."""

from oomctl.collectors.live.kv_events.decode import Event

Place = tuple[str | None, str | None]
"""Medium and group."""


class Resident:
    """The resident blocks by medium and group.

    An engine may hold a block twice: two requests computed the same tokens, the last block of a prompt is always computed
    anew. vLLM publishes each copy's storing and each one's removal, and has the block until the last is gone.

    Attributes:
        evicted_tokens: By place, cumulative: tokens of blocks that were removed.
        unknown_tokens: Removed blocks whose size is not known, for their storing was not told with one.
    """

    def __init__(self) -> None:
        self._sizes: dict[Place, dict[str, int | None]] = {}
        self._copies: dict[Place, dict[str, int]] = {}
        self.evicted_tokens: dict[Place, int] = {}
        self.unknown_tokens = 0

    def take(self, event: Event) -> None:
        """Apply one event. The removal of what is not resident changes nothing: its storing was before our time."""
        if event.op == "cleared":
            self.forget()
            return
        if event.op == "stored":
            place = (event.medium, event.group_id)
            held, copies = self._sizes.setdefault(place, {}), self._copies.setdefault(place, {})
            for found in event.hashes:
                if found in held:
                    copies[found] = copies.get(found, 1) + 1
                held[found] = event.block_tokens
            return
        for place in self._places(event):
            for found in event.hashes:
                if found in self._sizes[place]:
                    self._remove(place, found)

    def blocks(self) -> dict[Place, int]:
        """Resident blocks by place, each copy counted; a place that was emptied counts 0."""
        return {
            place: len(held) + sum(count - 1 for count in self._copies[place].values())
            for place, held in self._sizes.items()
        }

    def hashes(self) -> set[str]:
        """Of the resident blocks, wherever they are."""
        return {found for held in self._sizes.values() for found in held}

    def forget(self) -> None:
        """After a gap that could not be replayed, what is resident is unknown."""
        self._sizes.clear()
        self._copies.clear()

    def _remove(self, place: Place, found: str) -> None:
        """One copy of a block."""
        held, copies = self._sizes[place], self._copies[place]
        size = held[found]
        left = copies.pop(found, 1) - 1
        if left == 0:
            del held[found]
        elif left > 1:
            copies[found] = left
        if size is None:
            self.unknown_tokens += 1
        else:
            self.evicted_tokens[place] = self.evicted_tokens.get(place, 0) + size

    def _places(self, event: Event) -> list[Place]:
        """Where a removal applies: an engine that does not name the medium or the group has one."""
        return [
            place
            for place in self._sizes
            if event.medium in (None, place[0]) and (event.group_id is None or event.group_id == place[1])
        ]
