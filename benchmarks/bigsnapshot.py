"""An allocator snapshot of any length, written as torch.cuda.memory._dump_snapshot() writes one.

In real files entries share frames but hardly ever lists of them: of 19,900 entries 12,700 have a list of their own, of 177
distinct stacks. An entry takes 164 to 352 bytes of a real file; here some 170.

    python -m benchmarks.bigsnapshot FILE EVENTS [--seed N] [--leak]
"""

import argparse
import pickle
import random
from itertools import count
from pathlib import Path
from typing import Any

MIB = 1 << 20
BASE = 0x7F10_0000_0000
SLOT_BYTES = 2 * MIB
SLOTS = 4096
FRAMES, STACKS = 600, 180
SHARED_LISTS = 0.36


def write(path: Path, events: int, seed: int = 1, leak: bool = False) -> None:
    """Write a snapshot with so many entries in its history; its segments are what the history ends with.

    Args:
        path: Where to.
        events: How many entries.
        seed: Of the sizes and the order.
        leak: Whether one stack frees nothing, so that a diff has something to find.
    """
    chance = random.Random(seed)
    stacks = _stacks(chance)
    sizes = [chance.choice((1, 17, 300, 1000, 2000)) * 512 + chance.randrange(512) for _ in range(1024)]
    live: dict[int, tuple[int, list[dict[str, Any]]]] = {}
    free = list(range(SLOTS - 1, -1, -1))
    held: list[int] = []
    clock = count(1_700_000_000_000_000)
    trace: list[dict[str, Any]] = [_entry("segment_alloc", BASE, SLOTS * SLOT_BYTES, stacks[0], next(clock))]
    while len(trace) < events:
        if free and (not held or chance.random() < 0.505):
            slot, stack = free.pop(), stacks[int(chance.random() * STACKS)]
            frames = stack if chance.random() < SHARED_LISTS else list(stack)
            size = sizes[len(trace) % 1024]
            trace.append(_entry("alloc", BASE + slot * SLOT_BYTES, size, frames, next(clock)))
            live[slot] = (size, frames)
            if not leak or stack is not stacks[7] or len(live) > SLOTS // 2:
                held.append(slot)
        else:
            place = int(chance.random() * len(held))
            held[place], held[-1] = held[-1], held[place]
            slot = held.pop()
            size, frames = live.pop(slot)
            free.append(slot)
            for action in ("free_requested", "free_completed"):
                frames = frames if chance.random() < SHARED_LISTS else list(frames)
                trace.append(_entry(action, BASE + slot * SLOT_BYTES, size, frames, next(clock)))
    document = {
        "segments": [_segment(live)],
        "device_traces": [trace],
        "allocator_settings": {"max_split_size": -1, "garbage_collection_threshold": 0.0, "expandable_segments": False},
        "external_annotations": [],
    }
    with path.open("wb") as file:
        pickle.dump(document, file)


def _stacks(chance: random.Random) -> list[list[dict[str, Any]]]:
    frames = [
        {"filename": f"/opt/engine/part_{n % 40}/module_{n}.py", "line": 10 + n, "name": f"step_{n}"} for n in range(FRAMES)
    ]
    return [chance.sample(frames, chance.randrange(20, 44)) for _ in range(STACKS)]


def _entry(action: str, address: int, size: int, frames: list[dict[str, Any]], time_us: int) -> dict[str, Any]:
    return {
        "action": action, "addr": address, "size": size, "stream": 0, "time_us": time_us, "compile_context": "N/A",
        "user_metadata": "", "frames": frames,
    }  # fmt: skip


def _segment(live: dict[int, tuple[int, list[dict[str, Any]]]]) -> dict[str, Any]:
    blocks: list[dict[str, Any]] = []
    at = BASE
    for slot in sorted(live):
        size, frames = live[slot]
        start, rounded = BASE + slot * SLOT_BYTES, -(-size // 512) * 512
        if start > at:
            blocks.append({"address": at, "size": start - at, "requested_size": 0, "state": "inactive", "frames": []})
        blocks.append(
            {"address": start, "size": rounded, "requested_size": size, "state": "active_allocated", "frames": frames}
        )
        at = start + rounded
    end = BASE + SLOTS * SLOT_BYTES
    if at < end:
        blocks.append({"address": at, "size": end - at, "requested_size": 0, "state": "inactive", "frames": []})
    return {
        "device": 0, "address": BASE, "total_size": SLOTS * SLOT_BYTES, "stream": 0, "segment_type": "small",
        "segment_pool_id": (0, 0), "is_expandable": False, "frames": [], "blocks": blocks,
    }  # fmt: skip


def main() -> None:
    """Write one."""
    parser = argparse.ArgumentParser(description="write an allocator snapshot")
    parser.add_argument("file", type=Path)
    parser.add_argument("events", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--leak", action="store_true")
    asked = parser.parse_args()
    write(asked.file, asked.events, asked.seed, asked.leak)


if __name__ == "__main__":
    main()
