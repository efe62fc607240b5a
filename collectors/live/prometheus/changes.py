"""What changed from one page to the next."""

import json
from dataclasses import dataclass

from oomctl.collectors.live.prometheus.page import Sample

START = "process_start_time_seconds"
"""Of Prometheus' client libraries: what counts anew, and soon has more than before, still started at another time."""

Key = tuple[str, tuple[tuple[str, str], ...]]


def _key(sample: Sample) -> Key:
    """Name and labels in the page's order, which an exporter keeps."""
    return sample.name, tuple(sample.labels.items())


def labels_of(sample: Sample) -> str:
    """A sample's labels as JSON, keys sorted."""
    return json.dumps(sample.labels, sort_keys=True)


@dataclass
class Change:
    """From the last page to this one.

    Attributes:
        restarted: What shows that the page is another process's than before: a counter that fell, or a start that is
            another; None where nothing does.
        same: No series of the engine has another value than before.
        busy: Requests run.
    """

    restarted: str | None
    same: bool
    busy: bool


class Seen:
    """The values of the last page."""

    def __init__(self) -> None:
        self._values: dict[Key, float] = {}
        self._before: dict[Key, float] = {}

    def take(self, samples: list[Sample], own: set[str]) -> Change:
        """Compare a page with the last one, and keep it.

        Args:
            samples: Of the page.
            own: Names that are the engine's: the Python process behind the page is busy even when the engine is dead.
        """
        before, self._before = self._values, self._values
        values: dict[Key, float] = {}
        restarted, same, busy = None, bool(before), False
        for sample in samples:
            key = _key(sample)
            values[key] = sample.value
            known = before.get(key)
            if known is not None and sample.value != known and sample.name.endswith(START):
                restarted = f"{sample.name} is another"
            elif known is not None and sample.value < known and sample.type == "counter":
                restarted = restarted or f"{sample.name} fell"
            if sample.name in own:
                same = same and known == sample.value
                busy = busy or ("running" in sample.name and sample.value > 0)
        self._values = values
        return Change(restarted, same, busy)

    def is_new(self, sample: Sample) -> bool:
        """Whether the last page had another value for it, or none."""
        return self._before.get(_key(sample)) != sample.value
