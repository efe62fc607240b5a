"""Allocator snapshots as a page and as JSON."""

from oomctl.analyzers.allocator.diff import Diff
from oomctl.analyzers.allocator.fit import Fit
from oomctl.analyzers.allocator.lifetimes import Lifetime
from oomctl.analyzers.allocator.model.whatif import Outcome, Question, Status
from oomctl.analyzers.allocator.report import SCHEMA, Report
from oomctl.cli.render.text import document, escape, json_line
from oomctl.cli.render.words import at_event, human, plural

SHOWN = 12
LIFETIMES = "oomctl.snapshot_lifetimes/0"
Lives = tuple[str, int, list[Lifetime]]
"""(file, device, lifetimes)."""
WHATIF = "oomctl.snapshot_whatif/0"
_ANSWERS: dict[Status, str] = {
    "fits": "WOULD HAVE FITTED: what failed is served",
    "does_not_fit": "WOULD NOT HAVE FITTED either",
    "not_reproduced": "NOT KNOWN: the failure was not reproduced. Under its own settings the model does not fail where the "
    "run did, so what it serves under others says nothing",
    "nothing_failed": "NOTHING FAILED in this history: only the peaks are compared",
}


def reports_json(reports: list[Report]) -> str:
    """One object, `oomctl.snapshot/0`."""
    return document({"schema": SCHEMA, "snapshots": reports})


def diff_json(result: Diff) -> str:
    """One object, `oomctl.snapshot_diff/0`."""
    return document(result)


def growth_line(result: Diff) -> str:
    """The same on one line: there is one a device."""
    return json_line(result)


def reports_page(reports: list[Report], width: int) -> str:
    """For reading."""
    ranks = [_ranks(reports)] if len(reports) > 1 and reports[0].grouping == "rank" else []
    return "\n".join([*ranks, *(_report(one, width) for one in reports)])


def lifetimes_json(found: "list[Lives]") -> str:
    """One object, `oomctl.snapshot_lifetimes/0`."""
    each = [{"file": file, "device": device, "lifetimes": lives} for file, device, lives in found]
    return document({"schema": LIFETIMES, "snapshots": each})


def lifetimes_page(found: "list[Lives]", width: int) -> str:
    """For reading: what holds most at the end first."""
    lines: list[str] = []
    for file, device, lives in found:
        lines += [
            f"{escape(file)} · device {device}",
            "  allocations    live    held at end  median life   longest (events)",
        ]
        for one in lives[:SHOWN]:
            life = f"{_or_dash(one.median_events):>12} {_or_dash(one.longest_events):>9}"
            held = f"{one.allocations:>11,} {one.live:>7,} {human(one.live_bytes):>14}"
            lines.append(_cut(f"  {held} {life}  {one.component:<11} {escape(one.name)}", width))
        lines.append("")
    return "\n".join(lines)


def _or_dash(count: int | None) -> str:
    return "-" if count is None else f"{count:,}"


def _ranks(reports: list[Report]) -> str:
    """One line a rank: which of them stands out."""
    lines = ["RANKS    reserved       active         peak     inactive  did not fit for"]
    for one in sorted(reports, key=lambda each: (each.rank is None, each.rank, each.file, each.device)):
        name = str(one.rank) if one.rank is not None else escape(one.file.rpartition("/")[2])
        peak = human(one.peak.allocated_bytes) if one.peak is not None else "-"
        why = one.fit.cause if one.fit is not None and one.fit.cause is not None else "-"
        lines.append(
            f"  {name:>4} {human(one.reserved_bytes):>10} {human(one.allocated_bytes + one.pending_bytes):>12} {peak:>12} "
            f"{human(one.inactive_bytes):>12}  {why}"
        )
    return "\n".join(lines) + "\n"


def diff_page(result: Diff, width: int) -> str:
    """For reading: growth first."""
    lines = [
        f"from {escape(result.before)} to {escape(result.after)}",
        f"reserved {_signed(result.reserved_bytes)} · active {_signed(result.active_bytes)} · "
        f"unchanged {human(result.unchanged_bytes)}",
        "",
    ]
    shown = result.changes if len(result.changes) <= 2 * SHOWN else result.changes[:SHOWN] + result.changes[-SHOWN:]
    lines += [_cut(f"{_signed(c.bytes):>14}  {c.component:<11} {escape(c.name)}", width) for c in shown]
    return "\n".join(lines) + "\n"


def questions_json(questions: list[Question]) -> str:
    """One object, `oomctl.snapshot_whatif/0`."""
    return document({"schema": WHATIF, "questions": questions})


def questions_page(questions: list[Question], width: int) -> str:
    """For reading: what was recorded, and what would have been."""
    lines: list[str] = []
    for one in questions:
        room = human(one.room_bytes) if one.room_bytes is not None else "not known (give --room): only the peaks are told"
        model = one.model
        follows = f"all {plural(model.events, 'event')}"
        if model.parted_at is not None:
            follows = f"{model.reproduced:,} of {plural(model.events, 'event')}; then: {model.why}"
        lines += [
            f"{escape(one.file)} · device {one.device} · room for the process: {room}",
            _ANSWERS[one.status],
            _cut(f"the model follows {follows}", 2 * width),
            _outcome("recorded", one.recorded),
            _outcome("asked", one.asked),
            "",
        ]
    return "\n".join(lines)


def _outcome(name: str, found: Outcome) -> str:
    verdict = "all requests served"
    if not found.fits:
        at = f"event {found.failed_at}" if found.failed_at is not None else "what was there before the first event"
        verdict = f"not served: {human(found.failed_bytes)} at {at}"
    return (
        f"  {name:<8} {found.settings}: {verdict}; peak reserved {human(found.peak_reserved_bytes)}, "
        f"peak active {human(found.peak_active_bytes)}, {plural(found.retries, 'flush', 'flushes')}"
    )


def _report(one: Report, width: int) -> str:
    rank = f" · rank {one.rank}" if one.rank is not None else ""
    lines = [f"{escape(one.file)} · device {one.device}{rank} · {plural(one.events, 'event')}"]
    if one.fit is not None:
        lines += ["", *_fit(one.fit)]
    lines += [
        "",
        f"reserved {human(one.reserved_bytes)} = allocated {human(one.allocated_bytes)} + pending "
        f"{human(one.pending_bytes)} + inactive {human(one.inactive_bytes)}",
        f"of inactive: {human(one.releasable_bytes)} could go back to the device, {human(one.split_bytes)} lie in holes; "
        f"{human(one.private_inactive_bytes)} in private pools; lost to rounding: {human(one.rounding_bytes)}",
    ]
    if one.peak is not None:
        lines.append(f"peak {human(one.peak.allocated_bytes)}, {at_event(one.peak.index)}, reserved then "
                     f"{human(one.peak.reserved_bytes)}")  # fmt: skip
    lines += ["", "POOLS      reserved       active     inactive  largest free  segments"]
    for pool in one.pools[:SHOWN]:
        lines.append(
            f"  {human(pool.reserved_bytes):>17} {human(pool.allocated_bytes + pool.pending_bytes):>12} "
            f"{human(pool.inactive_bytes):>12} {human(pool.largest_free_block_bytes):>13} {pool.segments:>9}  "
            f"{pool.size_class}, pool {pool.pool}, stream {pool.stream}"
        )
    lines += _more(len(one.pools), "pool")
    when = "in the snapshot" if one.at.index is None else f"{at_event(one.at.index)} ({one.at.what})"
    lines += ["", f"WHO HELD MEMORY {when}, by {one.grouping}"]
    for share in one.holders[:SHOWN]:
        kind = f"{share.component:<11} " if one.grouping == "stack" else ""
        lines.append(_cut(f"  {human(share.bytes):>12} {share.blocks:>7}  {kind}{escape(share.name)}", width))
    lines += _more(len(one.holders), "holder")
    lines += ["", *(_cut(f"note: {escape(note)}", 400) for note in one.notes)] if one.notes else []
    return "\n".join(lines) + "\n"


def _fit(found: Fit) -> list[str]:
    asked = found.request
    verb = "asked about" if asked.index is None else "failed"
    if found.cause is not None:
        head = f"DID NOT FIT: {found.cause}" if asked.index is not None else f"WOULD NOT FIT: {found.cause}"
    else:
        head = "WOULD FIT"
    free = "unknown, taken as none" if found.assumed_full else human(asked.device_free_bytes)
    limit = f"; allowed to the process: {human(asked.limit_bytes)}" if asked.limit_bytes is not None else ""
    lines = [
        head,
        f"  {verb}: {human(asked.request_bytes)}, a block of {human(found.block_bytes)}, or a new segment of "
        f"{human(found.segment_bytes)}; free on the device: {free}{limit}; short by {human(found.short_bytes)}",
        f"  its pool has {human(found.eligible_free_bytes)} free, the largest block {human(found.eligible_largest_bytes)}, "
        f"usable for it {human(found.eligible_usable_bytes)}",
    ]
    lines.append(f"  a flush of the cache gives {human(found.releasable_bytes)} back to the device")
    for margin in found.margins:
        if margin.reclaim_bytes is None:
            lines.append(f"  {margin.cause:<15} not observed")
        else:
            verdict = "enough" if margin.sufficient else "not enough"
            lines.append(f"  {margin.cause:<15} would give {human(margin.reclaim_bytes):>12}: {verdict}")
    if found.also:
        lines.append(f"  enough too: {', '.join(found.also)}")
    return lines + [f"  would help: {text}" for text in found.helps]


def _more(count: int, what: str) -> list[str]:
    """That a table goes on; --json has all of its rows."""
    return [f"  and {plural(count - SHOWN, f'more {what}')}: see --json"] if count > SHOWN else []


def _signed(count: int) -> str:
    return ("+" if count > 0 else "") + human(count)


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else line[: width - 1] + "…"
