"""What came of a soak: its tables, and whether all is well."""

import os
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.agent.figures import interval
from tests.soak.accounts import Account
from tests.soak.bench import Bench, Size

LIMIT_SLOWED = 1.1
"""Processor time of the engine per token, under faults to quiet: the upper end of its interval has to prove it."""
LIMIT_THROUGHPUT = 0.9
"""Tokens a second, the same: even the upper end is below that. Other programs disturb it more, so it proves harm only."""
LIMIT_GROWTH_BYTES = 24 << 20
"""Of a recorder or a core, from its first quiet window to its last."""
LIMIT_PEAK_BYTES = 128 << 20
"""Of a recorder at any time: of a page of 100 MB it takes 8, and parses 60,000 lines of it."""


@dataclass
class Fault:
    """What happened, and what came of it.

    Attributes:
        name: What was wrong.
        times: How often.
        survived: After how many of them the recorder wrote on.
        costs: Processor time per token to that of the quiet window beside it.
        speeds: Tokens a second, the same.
    """

    name: str
    times: int = 0
    survived: int = 0
    costs: list[float] = field(default_factory=list)
    speeds: list[float] = field(default_factory=list)


def show(bench: Bench, told: list[Fault], kept: list[Account]) -> bool:
    """Print the tables; whether all is well."""
    states = Counter(outcome.state for outcome in bench.outcomes)
    good = all((_faults(told), _events(kept), _sizes(bench), states.keys() <= {"finished", "hung_up"}))
    print(f"\nrequests, as their clients saw them: {dict(states)}")
    print(f"the page was asked: {bench.page.asked}; KV events replayed {bench.wire.replays} times")
    disk = "a tmpfs" if bench.mounted else "a limit on the size of files"
    print(f"load of the machine: {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores; the disk was {disk}")
    return good


def _faults(told: list[Fault]) -> bool:
    print(f"{'fault':42} {'injected':>8} {'survived':>8}   CPU per token, tokens/s to quiet (medians)")
    for fault in told:
        ratio = f"{statistics.median(fault.costs):.3f}, {statistics.median(fault.speeds):.3f}" if fault.costs else "-"
        print(f"{fault.name:42} {fault.times:8} {fault.survived:8}   {ratio}")
    pairs = sum(len(fault.costs) for fault in told)
    print(f"\nthe engine under faults to quiet, {pairs} interleaved pairs")
    _, slowed = _ratio("processor time per token", [cost for fault in told for cost in fault.costs])
    _, fastest = _ratio("tokens a second, by the clock", [speed for fault in told for speed in fault.speeds])
    return slowed <= LIMIT_SLOWED and fastest >= LIMIT_THROUGHPUT and all(fault.survived == fault.times for fault in told)


def _ratio(name: str, values: Sequence[float]) -> tuple[float, float]:
    low, high = interval(values)
    print(f"    {name:38} median {statistics.median(values):.3f}, 95 % {low:.3f} to {high:.3f}")
    return low, high


def _events(kept: list[Account]) -> bool:
    print(f"\n{'events':50} {'expected':>9} {'recorded':>9} {'declared lost':>13}")
    for one in kept:
        print(f"{one.name:50} {one.expected:9} {one.recorded:9} {one.lost:13}   {'' if one.adds_up else 'DOES NOT ADD UP'}")
    return all(one.adds_up for one in kept)


def _sizes(bench: Bench) -> bool:
    print(f"\n{'process':42} {'MiB first':>9} {'last':>6} {'peak':>6} {'handles':>8} {'last':>6}")
    named = [(f"recorder {number}", sizes) for number, sizes in enumerate(bench.sizes, 1)]
    good = True
    for name, sizes in [*named, ("the engine's core, its first life", bench.cores)]:
        if len(sizes) > 1:
            flat = _is_flat(sizes, sizes is bench.cores)
            first, last = sizes[0], sizes[-1]
            memory = f"{first.resident_bytes >> 20:9} {last.resident_bytes >> 20:6} {last.peak_bytes >> 20:6}"
            print(f"{name:42} {memory} {first.handles:8} {last.handles:6}   {'' if flat else 'GREW'}")
            good &= flat
    return good


def _is_flat(sizes: Sequence[Size], of_engine: bool) -> bool:
    first, last = sizes[0], sizes[-1]
    within = of_engine or last.peak_bytes < LIMIT_PEAK_BYTES
    return within and last.resident_bytes - first.resident_bytes < LIMIT_GROWTH_BYTES and last.handles <= first.handles + 2
