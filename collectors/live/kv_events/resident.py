"""Which blocks an engine's prefix cache holds, from its events, and what was evicted."""

from oomctl.collectors.live.kv_events.decode import Event

Place = tuple[str | None, str | None]
"""Medium and group."""


class Resident:
    """The set of resident blocks by medium and group.

    Attributes:
        evicted_tokens: By place, cumulative: tokens of blocks that were removed.
        unknown_tokens: Removed blocks whose size is not known, for their storing was not seen.
    """

    def __init__(self) -> None:
        self._sizes: dict[Place, dict[str, int | None]] = {}
        self.evicted_tokens: dict[Place, int] = {}
        self.unknown_tokens = 0

    def take(self, event: Event) -> None:
        """Apply one event.

        A stored block that is resident already, and a removed one that is not, change nothing: after a gap both occur.
        """
        if event.op == "cleared":
            self._sizes.clear()
            return
        if event.op == "stored":
            held = self._sizes.setdefault((event.medium, event.group_id), {})
            for found in event.hashes:
                held[found] = event.block_tokens
            return
        for place in self._places(event):
            held = self._sizes[place]
            for found in event.hashes:
                if found not in held:
                    continue
                size = held.pop(found)
                if size is None:
                    self.unknown_tokens += 1
                else:
                    self.evicted_tokens[place] = self.evicted_tokens.get(place, 0) + size

    def blocks(self) -> dict[Place, int]:
        """Resident blocks by place; a place that was emptied counts 0."""
        return {place: len(held) for place, held in self._sizes.items()}

    def hashes(self) -> set[str]:
        """Of the resident blocks, wherever they are."""
        return {found for held in self._sizes.values() for found in held}

    def forget(self) -> None:
        """After a gap that could not be replayed, what is resident is unknown."""
        self._sizes.clear()

    def _places(self, event: Event) -> list[Place]:
        """Where a removal applies: an engine that does not name the medium or the group has one."""
        return [
            place
            for place in self._sizes
            if event.medium in (None, place[0]) and (event.group_id is None or event.group_id == place[1])
        ]
