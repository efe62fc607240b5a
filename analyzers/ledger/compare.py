"""Two ledgers side by side: which entry moved and why, what else differs, and whether a build may pass."""

import msgspec

from oomctl.analyzers.ledger.causes import bearing
from oomctl.schemas.ledger import GIB, Entry, Ledger

SETTINGS = (
    "model_hash", "model_revision", "engine", "engine_version", "engine_revision", "tensor_parallel", "pipeline_parallel",
    "weight_format", "kv_format", "device_bytes", "max_model_len",
)  # fmt: skip
_SAID = {
    "--tensor-parallel-size",
    "--tp-size",
    "--pipeline-parallel-size",
    "--pp-size",
    "--max-model-len",
    "--context-length",
}
"""Options that are settings already."""
_HELD = ("weights", "adapter", "activation", "non_torch", "context")
"""What a budget holds beside the pool, so that the pool moves with it."""
_NAMED = {"--kv-cache-dtype": "kv_format", "--quantization": "weight_format"}


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """An entry that moved; None where one side does not have it, or does not know it."""

    component: str
    owner: str
    rank: int
    before_bytes: int | None
    after_bytes: int | None
    why: tuple[str, ...] = ()
    """What differs between the deployments and bears on it; of a KV pool also what else of the budget moved."""

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
    """What differs between the deployments."""
    changes: list[Change]
    latency_us: dict[str, tuple[float | None, float | None]]
    """Of the configurations that either side measured: less memory may be paid for in time."""


def diff(before: Ledger, after: Ledger) -> Diff:
    """Entries that differ, the largest move first, each with what bears on it."""
    old, new = _by_name(before), _by_name(after)
    settings = _settings(before, after)
    changes = [
        Change(component=key[0], owner=key[1], rank=key[2], before_bytes=old.get(key), after_bytes=new.get(key))
        for key in dict.fromkeys((*old, *new))
        if old.get(key) != new.get(key)
    ]
    changes.sort(key=lambda change: -abs(change.grown_bytes or change.after_bytes or change.before_bytes or 0))
    held = {_key(entry) for one in (before, after) for entry in one.entries if entry.counts and entry.component in _HELD}
    explained = [msgspec.structs.replace(change, why=_why(change, changes, settings, held)) for change in changes]
    measured = dict.fromkeys((*before.latency_us, *after.latency_us))
    latency = {name: (before.latency_us.get(name), after.latency_us.get(name)) for name in measured}
    return Diff(settings=settings, changes=explained, latency_us=latency)


def _settings(before: Ledger, after: Ledger) -> dict[str, tuple[str, str]]:
    found = {name: (getattr(before, name), getattr(after, name)) for name in SETTINGS}
    for option in dict.fromkeys((*before.arguments, *after.arguments)):
        if option not in _SAID and option not in _NAMED:
            found[option] = (before.arguments.get(option), after.arguments.get(option))
    return {name: (_shown(old), _shown(new)) for name, (old, new) in found.items() if old != new}


def _shown(value: object) -> str:
    return "not given" if value is None else str(value)


def _why(
    change: Change, changes: list[Change], settings: dict[str, tuple[str, str]], held: set[tuple[str, str, int]]
) -> tuple[str, ...]:
    found = [f"{name} {old} -> {new}" for name, (old, new) in settings.items() if bearing(name, change.component)]
    if change.component == "kv_pool":
        # The pool is what the others leave.
        found += [
            f"{other.owner} {(other.grown_bytes or 0) / GIB:+.3f} GiB"
            for other in changes
            if other.rank == change.rank
            and other.component != "kv_pool"
            and other.grown_bytes
            and (other.component, other.owner, other.rank) in held
        ]
    return tuple(found)


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
        because = f": {'; '.join(change.why)}" if change.why else ""
        if change.after_bytes is None and change.before_bytes is not None and _has(after, change):
            found.append(f"{name} was known and is not any more{because}")
        elif (change.after_bytes or 0) > (change.before_bytes or 0) * (1 + tolerance):
            found.append(f"{name} grew from {change.before_bytes or 0} to {change.after_bytes} B{because}")
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
