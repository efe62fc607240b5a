"""A memory ledger as text: bytes are kept in the JSON, GiB are shown."""

from collections.abc import Iterator

from oomctl.analyzers.ledger.compare import Diff
from oomctl.analyzers.ledger.reconcile import Reconciled
from oomctl.cli.render.text import escape
from oomctl.schemas.ledger import GIB, Entry, Ledger


def ledger_text(ledger: Ledger) -> str:
    """The whole page, newline at its end."""
    return "\n".join(_lines(ledger)) + "\n"


def _lines(ledger: Ledger) -> Iterator[str]:
    yield (
        f"{escape(ledger.model)} · {escape(ledger.architecture)} · {ledger.engine} {ledger.engine_version}"
        f" · TP {ledger.tensor_parallel} · PP {ledger.pipeline_parallel}"
        f" · weights {escape(ledger.weight_format)} · KV {escape(ledger.kv_format)}"
    )
    for rank in dict.fromkeys(entry.rank for entry in ledger.entries):
        yield ""
        alike = f" to {rank + ledger.tensor_parallel - 1}, each" if ledger.tensor_parallel > 1 else ""
        yield f"RANK {rank}{alike}"
        own = [entry for entry in ledger.entries if entry.rank == rank]
        for entry in own:
            if entry.counts:
                yield _entry(entry)
                yield from (_entry(part, "  in it: ") for part in own if part.within == entry.owner)
        weights = ledger.total("weights", rank)
        if weights is not None:
            yield f"  {'weights in all':<44}{weights / GIB:>12.3f} GiB"
        yield from _section("WHILE LOADING", [entry for entry in own if entry.lifetime == "load"])
        yield from _section("ON THE HOST", [entry for entry in own if entry.place == "host" and entry.lifetime != "load"])
        yield from _section("MAY COME ON TOP", [entry for entry in own if entry.lifetime == "headroom"])
    yield ""
    for own_kv in [kv for kv in ledger.kv if kv.groups][:1]:
        yield f"KV  {own_kv.bytes_per_token / 2**10:.2f} KiB per token and rank · {own_kv.bytes_per_block} B per block"
        for group in own_kv.groups:
            padding = f", {group.padding_layers} of padding" if group.padding_layers else ""
            yield (
                f"    {group.layers} layers {group.kind}{padding}: blocks of {group.block_tokens} tokens,"
                f" {group.blocks_per_request} for a request of {ledger.max_model_len}"
            )
    pool = ledger.pool
    if pool is not None:
        yield (
            f"POOL {pool.bytes / GIB:.2f} GiB · {pool.blocks} blocks · {pool.tokens} tokens"
            f" · {pool.max_concurrency:.2f} requests of {ledger.max_model_len} tokens"
        )
        if pool.starts:
            yield f"     starts, with {pool.spare_bytes / GIB:.2f} GiB beyond one request"
        else:
            yield f"     does NOT start: {-pool.spare_bytes / GIB:.2f} GiB short of one request"
    for entry in ledger.measured:
        yield f"MEASURED rank {entry.rank}, {escape(entry.component)}: {_size(entry.bytes)} ({escape(entry.source)})"
    for name, value in ledger.latency_us.items():
        yield f"LATENCY {escape(name)}: {_latency(value)}"
    if ledger.summary.headroom_gib_per_rank is not None:
        yield f"HEADROOM {ledger.summary.headroom_gib_per_rank:.2f} GiB per rank"
    for note in ledger.notes:
        yield f"note: {escape(note)}"


def _section(title: str, entries: list[Entry]) -> Iterator[str]:
    if entries:
        yield f"  {title}"
        yield from map(_entry, entries)


def _entry(entry: Entry, lead: str = "") -> str:
    place = "" if entry.place == "device" else f" ({entry.place})"
    name = f"{lead}{entry.component}: {entry.owner}{place}"
    if entry.bytes is None:
        return f"  {escape(name):<44}{'unknown':>12}      {escape(entry.reason)}"
    text = f"  {escape(name):<44}{entry.bytes / GIB:>12.3f} GiB  {entry.quality}"
    if entry.low_bytes is not None and entry.high_bytes is not None and entry.low_bytes < entry.high_bytes:
        text += f", {entry.low_bytes / GIB:.2f} to {entry.high_bytes / GIB:.2f}"
    return text + (", at least" if entry.lower_bound else "")


def diff_text(found: Diff) -> str:
    """Two ledgers side by side, newline at its end."""
    lines = [f"{name}: {escape(old)} -> {escape(new)}" for name, (old, new) in found.settings.items()]
    for change in found.changes:
        grown = change.grown_bytes
        moved = "" if grown is None else f"  {grown / GIB:+.3f} GiB"
        name = f"{change.component}: {change.owner}, rank {change.rank}"
        lines.append(f"  {escape(name):<40}{_size(change.before_bytes):>14} -> {_size(change.after_bytes):>14}{moved}")
        lines += [f"      {escape(cause)}" for cause in change.why]
    for name, (before, after) in found.latency_us.items():
        lines.append(f"  latency {escape(name)}: {_latency(before)} -> {_latency(after)}")
    return "\n".join(lines or ["no entry differs"]) + "\n"


def _size(value: int | None) -> str:
    return "unknown" if value is None else f"{value / GIB:.3f} GiB"


def _latency(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.0f} us"


def reconciled_text(found: list[Reconciled]) -> str:
    """Predicted beside measured, and both together for each rank; newline at its end."""
    if not found:
        return "nothing was measured\n"
    lines = [f"{'rank':>4}  {'component':<12}{'predicted':>14}{'measured':>14}{'remainder':>14}  {'quality':<10}  line"]
    for one in found:
        left = "" if one.remainder_bytes is None else f"{one.remainder_bytes / GIB:+.3f} GiB"
        lines.append(
            f"{one.rank:>4}  {one.component:<12}{_size(one.predicted_bytes):>14}{_size(one.measured_bytes):>14}{left:>14}"
            f"  {one.quality or '-':<10}  {one.line or '-'}"
        )
    for rank in sorted({one.rank for one in found}):
        both = [one for one in found if one.rank == rank and one.predicted_bytes is not None]
        predicted, measured = sum(one.predicted_bytes or 0 for one in both), sum(one.measured_bytes for one in both)
        if len(both) > 1:
            left = f"{(measured - predicted) / GIB:+.3f} GiB"
            lines.append(f"{rank:>4}  {'in all':<12}{_size(predicted):>14}{_size(measured):>14}{left:>14}")
    return "\n".join(lines) + "\n"
