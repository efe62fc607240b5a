"""What the watchers of an engine's objects have in common."""

from oomctl.collectors.agent.guard import Guard, Patches
from oomctl.collectors.agent.rings import Rings


class Watch:
    """Watches one object of the engine by methods that it wraps.

    Args:
        rings: Where to.
        guard: Counts the agent's own exceptions.
        patches: Undone when the worker is let go.
    """

    def __init__(self, rings: Rings, guard: Guard, patches: Patches) -> None:
        self._rings = rings
        self._guard = guard
        self._patches = patches
