"""What a replay tells of itself while it runs."""

from typing import TYPE_CHECKING

from oomctl.analyzers.capacity.replay.workload import Job

if TYPE_CHECKING:
    from oomctl.analyzers.capacity.replay.engine import Engine


class Watch:
    """Hears every event; this one keeps none."""

    def saw(self, event: str, at_s: float, job: Job, **tokens: int) -> None:
        """Something happened to a job: an event of the request kind, with figures named as there."""

    def passed(self, from_s: float, to_s: float, engine: "Engine") -> None:
        """Time passes, in which the pool stays as it is."""


SILENT = Watch()
