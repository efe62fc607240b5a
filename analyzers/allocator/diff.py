"""Two snapshots compared by stack: what grew, what went."""

import msgspec

from oomctl.analyzers.allocator.components import component, words
from oomctl.analyzers.allocator.timeline import holders_at_end
from oomctl.schemas.heap import Frame, Snapshot

SCHEMA = "oomctl.snapshot_diff/0"
MAX_CHANGES = 200


class Side(msgspec.Struct, kw_only=True):
    """What of a snapshot is compared: active bytes and blocks by stack, all devices together."""

    file: str
    reserved_bytes: int
    active_bytes: int
    held: dict[tuple[Frame, ...], tuple[int, int]]


class Change(msgspec.Struct, kw_only=True):
    """One stack's difference; negative where it holds less."""

    name: str
    component: str
    bytes: int
    blocks: int
    before_bytes: int
    after_bytes: int


class Diff(msgspec.Struct, kw_only=True):
    """The differences, the largest growth first."""

    schema: str = SCHEMA
    before: str
    after: str
    reserved_bytes: int
    active_bytes: int
    unchanged_bytes: int
    changes: list[Change]


def side(snapshot: Snapshot) -> Side:
    """Reduce a snapshot to what is compared, so that it can be let go."""
    held: dict[tuple[Frame, ...], tuple[int, int]] = {}
    for device in snapshot.devices:
        for holder in holders_at_end(snapshot, device):
            key = tuple(snapshot.frames_of(holder.stack))
            size, blocks = held.get(key, (0, 0))
            held[key] = (size + holder.bytes, blocks + holder.blocks)
    return Side(
        file=snapshot.name,
        reserved_bytes=sum(segment.total_bytes for segment in snapshot.segments),
        active_bytes=sum(size for size, _ in held.values()),
        held=held,
    )


def diff(before: Side, after: Side) -> Diff:
    """What holds more and less memory in the second."""
    changes, unchanged = [], 0
    for key in before.held.keys() | after.held.keys():
        old, new = before.held.get(key, (0, 0)), after.held.get(key, (0, 0))
        if old == new:
            unchanged += new[0]
            continue
        frames = list(key)
        changes.append(
            Change(
                name=words(frames),
                component=component(frames),
                bytes=new[0] - old[0],
                blocks=new[1] - old[1],
                before_bytes=old[0],
                after_bytes=new[0],
            )
        )
    changes.sort(key=lambda change: (-change.bytes, change.name))
    half = MAX_CHANGES // 2
    if len(changes) > MAX_CHANGES:
        changes = changes[:half] + changes[-half:]
    return Diff(
        before=before.file,
        after=after.file,
        reserved_bytes=after.reserved_bytes - before.reserved_bytes,
        active_bytes=after.active_bytes - before.active_bytes,
        unchanged_bytes=unchanged,
        changes=changes,
    )
