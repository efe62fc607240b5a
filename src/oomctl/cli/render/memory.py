"""Where the bytes were: the reconciled ledger as a small tree with bars."""

from oomctl.cli.render.text import cells, cut, escape
from oomctl.cli.render.words import human
from oomctl.schemas.verdict import AllocatorState, Cohort, MemoryNode

BAR = 16
PRINTED = 2**30 // 100
"""How far a figure may be off that was printed with two digits of a GiB, cut or rounded."""
INEXACT = ("estimated", "predicted", "simulated")


def memory_lines(root: MemoryNode, width: int, blocks: bool = True) -> list[str]:
    """One line per entry: indented name, figure, a bar for its share of the whole, its note.

    Args:
        root: The device; its bytes are the full bar.
        width: Columns; notes are cut to it.
        blocks: Draw bars with block characters, else with `#`.

    Returns:
        Lines without colour. `~` marks what is not measured or derived from measurements, `?` what is unknown.
    """
    rows = walk(root)
    names = [f"{'  ' * depth}{escape(node.name).replace('_', ' ')}" for depth, node in rows]
    figures = [figure(node) for _, node in rows]
    name_width = max(map(cells, names))
    figure_width = max(map(len, figures))
    lines = []
    for (_, node), name, amount in zip(rows, names, figures, strict=True):
        bar = _bar(node.bytes, root.bytes, "█" if blocks else "#")
        line = f"{name}{' ' * (name_width - cells(name))}  {amount:>{figure_width}}  {bar:<{BAR}}  "
        lines.append((line + cut(escape(note(node)), max(width - cells(line), 0))).rstrip())
    return lines


def figure(node: MemoryNode) -> str:
    """The entry's bytes, `~` before an estimate, `?` if unknown."""
    return ("~" if node.quality in INEXACT and node.bytes is not None else "") + human(node.bytes)


def allocator_line(state: AllocatorState) -> str:
    """The allocator at that instant, in one sentence."""
    figures = (
        ("asked", state.requested_bytes),
        ("free on the device", state.device_free_bytes),
        ("allocated", state.allocated_bytes),
        ("cached and free", state.cached_free_bytes),
        ("free in private pools", state.private_pool_free_bytes),
    )
    parts = [f"{name} {human(value)}" for name, value in figures if value is not None]
    if state.why is not None:
        parts.append(f"largest free block {human(state.largest_free_block_bytes)}")
        parts.append(f"did not fit for {state.why}" + (f", or {', '.join(state.also)}" if state.also else ""))
    if state.fits_in_cache is not None:
        parts.append(f"the cache's free bytes would {'' if state.fits_in_cache else 'not '}have held it in sum")
    if state.note:
        parts.append(state.note)
    return "Allocator: " + "; ".join(parts) if parts else ""


def cohort_line(cohort: Cohort) -> str:
    """Who was in the batch and in the queue, in one sentence."""
    figures = (
        ("running requests", cohort.running_requests),
        ("waiting requests", cohort.waiting_requests),
        ("scheduled tokens", cohort.scheduled_tokens),
        ("prefill tokens", cohort.prefill_tokens),
    )
    parts = [f"{name} {value:,}" for name, value in figures if value is not None]
    if cohort.kv_usage_ratio is not None:
        parts.append(f"KV cache {cohort.kv_usage_ratio:.1%} used")
    if cohort.kv_total_tokens is not None:
        used = f"{cohort.kv_used_tokens:,} of " if cohort.kv_used_tokens is not None else ""
        parts.append(f"KV cache {used}{cohort.kv_total_tokens:,} tokens")
    return "Batch: " + "; ".join(parts) if parts else ""


def note(node: MemoryNode) -> str:
    """What is said of an entry.

    Only the child `unexplained` is what nobody explains: the rest of the allocator's tensors have an owner.

    An entry below nothing is not shown: that the others exceed their sum is said of the sum instead.
    """
    own = "tensors of no known component" if node.name == "other_tensors" else node.note
    exceed = -sum(child.bytes for child in node.children if child.bytes is not None and child.bytes < 0)
    if not exceed:
        return own
    rounded = exceed <= len(node.children) * PRINTED
    more = f"entries: {human(exceed)} more ({'rounding' if rounded else 'figures differ'})"
    return "; ".join(filter(None, (own, more)))


def walk(node: MemoryNode, depth: int = 0) -> list[tuple[int, MemoryNode]]:
    """(depth, entry) of each entry that is shown, outermost first."""
    rows = [(depth, node)]
    for child in node.children:
        if child.bytes is None or child.bytes >= 0:
            rows += walk(child, depth + 1)
    return rows


def _bar(part: int | None, whole: int | None, block: str) -> str:
    if part is None or not whole or part <= 0:
        return ""
    return block * max(1, min(BAR, round(BAR * part / whole)))
