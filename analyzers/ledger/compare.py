"""Two ledgers side by side: which entry moved and what in the deployment did, and whether a build may pass."""

import msgspec

from oomctl.schemas.ledger import GIB, Entry, Ledger

SETTINGS = (
    "model_hash", "model_revision", "engine", "engine_version", "engine_revision", "tensor_parallel", "pipeline_parallel",
    "weight_format", "kv_format", "device_bytes", "max_model_len",
)  # fmt: skip


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """An entry that moved; None where one side does not have it, or does not know it."""

    component: str
    owner: str
    rank: int
    before_bytes: int | None
    after_bytes: int | None

    @property
    def grown_bytes(self) -> int | None:
        """How much it grew; None where one side is unknown."""
        if self.before_bytes is None or self.after_bytes is None:
            return None
        return self.after_bytes - self.before_bytes


class Diff(msgspec.Struct, frozen=True, kw_only=True):
    """What `oomctl ledger diff --json` prints."""

    schema: str = "oomctl.ledger-diff/0"
    settings: dict[str, tuple[str, str]]
    """What differs between the deployments: the reasons to look for."""
    changes: list[Change]
    latency_us: dict[str, tuple[float | None, float | None]]
    """Of the configurations that either side measured: less memory may be paid for in time."""


def diff(before: Ledger, after: Ledger) -> Diff:
    """Entries that differ, the largest move first."""
    old, new = _by_name(before), _by_name(after)
    changes = [
        Change(component=key[0], owner=key[1], rank=key[2], before_bytes=old.get(key), after_bytes=new.get(key))
        for key in dict.fromkeys((*old, *new))
        if old.get(key) != new.get(key)
    ]
    changes.sort(key=lambda change: -abs(change.grown_bytes or change.after_bytes or change.before_bytes or 0))
    settings = {
        name: (str(getattr(before, name)), str(getattr(after, name)))
        for name in SETTINGS
        if getattr(before, name) != getattr(after, name)
    }
    measured = dict.fromkeys((*before.latency_us, *after.latency_us))
    latency = {name: (before.latency_us.get(name), after.latency_us.get(name)) for name in measured}
    return Diff(settings=settings, changes=changes, latency_us=latency)


def breaches(before: Ledger, after: Ledger, tolerance: float, floor_bytes: int | None) -> list[str]:
    """Why a build must fail: entries that grew past a tolerance, or too little headroom.

    Args:
        tolerance: Share of the former size by which an entry may grow; the KV pool is what is left over, and not held.
        floor_bytes: Least headroom per rank; unknown headroom does not meet a floor.
    """
    found = []
    for change in diff(before, after).changes:
        if change.component == "kv_pool":
            continue
        name = f"{change.component}: {change.owner} (rank {change.rank})"
        if change.after_bytes is None and change.before_bytes is not None and _has(after, change):
            found.append(f"{name} was known and is not any more")
        elif (change.after_bytes or 0) > (change.before_bytes or 0) * (1 + tolerance):
            found.append(f"{name} grew from {change.before_bytes or 0} to {change.after_bytes} B")
    headroom = after.summary.headroom_gib_per_rank
    if floor_bytes is not None and headroom is None:
        found.append("the headroom is not known")
    elif floor_bytes is not None and headroom is not None and headroom * GIB < floor_bytes:
        found.append(f"headroom is {headroom:.2f} GiB, less than {floor_bytes / GIB:.2f} GiB")
    return found


def _has(ledger: Ledger, change: Change) -> bool:
    return any(
        (one.component, one.owner, one.rank) == (change.component, change.owner, change.rank) for one in ledger.entries
    )


def _by_name(ledger: Ledger) -> dict[tuple[str, str, int], int | None]:
    """Bytes by component, owner and rank; what was measured under an owner of its own."""
    measured = {(entry.component, f"{entry.owner}, measured", entry.rank): entry.bytes for entry in ledger.measured}
    return {_key(entry): entry.bytes for entry in ledger.entries} | measured


def _key(entry: Entry) -> tuple[str, str, int]:
    return entry.component, entry.owner, entry.rank
