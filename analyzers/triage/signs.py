"""What an incident can begin with: a recording that holds no sign has none, and nothing else need be asked of it.

It is a necessary condition of `groups.incidents`, told from single rows, whatever order or story they stand in. It may
hold where there is no incident. A query that finds incidents in other rows than these has to name them here.
"""

from typing import Any

LOOKED_AT: dict[str, tuple[str, ...]] = {
    "oom": (),
    "refusal": (),
    "lifecycle": ("phase",),
    "fault": ("code",),
    "kv_pool": ("usage_ratio",),
    "throughput": ("waiting_requests", "swapped_requests"),
}
"""Kind to the fields that tell: of queries/views/failure.sql, evidence/other_deaths.sql and views/kv_pressure.sql."""
NO_BEGINNING = frozenset({"exception", "collective_failed", "xid_cleanup"})
"""Faults that go with a failure and are none by themselves."""
FULL_RATIO = 0.9
"""From which on a pool is under pressure."""


def any_sign(events: Any) -> bool:
    """Whether there is a sign of an incident.

    Args:
        events: pyarrow's table of the event table: the column `kind`, and LOOKED_AT in its structs.
    """
    import pyarrow.compute as pc

    def field(kind: str, name: str) -> Any:
        return pc.struct_field(events[kind], name)

    if not {"oom", "refusal"}.isdisjoint(events["kind"].unique().to_pylist()):
        return True
    if "killed" in field("lifecycle", "phase").unique().to_pylist():
        return True
    if set(field("fault", "code").unique().to_pylist()) - NO_BEGINNING - {None}:
        return True
    full = pc.invert(pc.less(field("kv_pool", "usage_ratio"), FULL_RATIO))  # so is a share that is no number
    queued = pc.not_equal(field("throughput", "waiting_requests"), 0)
    swapped = pc.greater(field("throughput", "swapped_requests"), 0)
    return _any(full) and (_any(queued) or _any(swapped))


def _any(told: Any) -> bool:
    import pyarrow.compute as pc

    return bool(pc.any(told).as_py())
