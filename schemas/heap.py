"""An allocator snapshot in columns: what its reader hands on, and what the allocator's analyzers take.

A million events as rows of dictionaries would cost more than the file itself; as columns they are some lists of integers.
"""

from array import array
from dataclasses import dataclass, field
from typing import Literal

State = Literal["active_allocated", "active_pending_free", "inactive"]
PoolId = tuple[int, int]
DEFAULT_POOL: PoolId = (0, 0)
NO_STACK = -1
UNKNOWN = -1
"""In a history's columns, where a list of plain integers is wanted: not observed."""

Frame = tuple[str, int, str]
"""(file, line, function)."""


@dataclass(frozen=True, slots=True)
class Block:
    """A block of a segment; `requested_bytes` of an inactive one is stale."""

    address: int
    size_bytes: int
    requested_bytes: int | None
    state: State
    stack: int


@dataclass(frozen=True, slots=True)
class Segment:
    """What the allocator took from the driver in one piece; an expandable one is one contiguous mapped range."""

    device: int
    address: int
    total_bytes: int
    stream: int
    size_class: Literal["small", "large"]
    pool: PoolId
    expandable: bool
    stack: int
    blocks: tuple[Block, ...]


def _integers() -> "array[int]":
    return array("q")


@dataclass(slots=True)
class History:
    """One device's trace, oldest first: columns of equal length, of 64-bit integers without objects around them.

    Attributes:
        actions: alloc, free_requested, free_completed, segment_alloc, ..., oom, snapshot.
        addresses: Of the block or segment; UNKNOWN where there is none.
        sizes_bytes: Requested bytes for blocks, whole bytes for segments; an oom's is its request rounded to 512.
        streams: CUDA stream.
        times_us: Since 1970; UNKNOWN before PyTorch 2.2.
        device_free_bytes: Of an oom entry; UNKNOWN elsewhere.
        stacks: Index into the snapshot's stacks, or NO_STACK.
        pools: Index of an entry to its pool, of those that are not the default one's.
        tells_pools: Whether entries tell their pool (PyTorch 2.12 on).
    """

    actions: list[str] = field(default_factory=list)
    addresses: "array[int]" = field(default_factory=_integers)
    sizes_bytes: "array[int]" = field(default_factory=_integers)
    streams: "array[int]" = field(default_factory=_integers)
    times_us: "array[int]" = field(default_factory=_integers)
    device_free_bytes: "array[int]" = field(default_factory=_integers)
    stacks: "array[int]" = field(default_factory=_integers)
    pools: dict[int, PoolId] = field(default_factory=dict)
    tells_pools: bool = False

    def __len__(self) -> int:
        return len(self.actions)

    def newest_oom(self) -> int | None:
        """Index of the newest allocation that failed; None where none did."""
        if "oom" not in self.actions:
            return None
        newest_first = range(len(self) - 1, -1, -1)
        return next((n for n in newest_first if self.actions[n] == "oom" and self.sizes_bytes[n] > 0), None)


@dataclass(slots=True)
class Snapshot:
    """One file of torch.cuda.memory._snapshot().

    Attributes:
        name: What the file is called.
        segments: Of all devices.
        histories: By device index; devices without entries are left out.
        stacks: Distinct stacks by content, each as indexes into `frames`, innermost first.
        frames: Distinct frames by content.
        settings: The allocator's settings, scalars only.
        problems: What in the file does not add up.
    """

    name: str
    segments: list[Segment]
    histories: dict[int, History]
    stacks: list[tuple[int, ...]]
    frames: list[Frame]
    settings: dict[str, str | int | float | bool]
    problems: list[str] = field(default_factory=list)

    @property
    def devices(self) -> list[int]:
        """Devices that hold segments or have a history."""
        return sorted({segment.device for segment in self.segments} | self.histories.keys())

    def late_stacks(self, device: int) -> dict[int, int]:
        """Address to stack of blocks in use that the snapshot has without one, where the history tells their allocation."""
        bare = {
            block.address
            for segment in self.segments
            for block in segment.blocks
            if segment.device == device and block.state != "inactive" and block.stack == NO_STACK
        }
        history = self.histories.get(device)
        if not bare or history is None:
            return {}
        return {
            address: stack
            for action, address, stack in zip(history.actions, history.addresses, history.stacks, strict=True)
            if action == "alloc" and address in bare
        }

    def frames_of(self, stack: int) -> list[Frame]:
        """A stack's frames, innermost first."""
        return [self.frames[index] for index in self.stacks[stack]] if stack != NO_STACK else []
