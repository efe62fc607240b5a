"""An allocator's heap and history as inline SVG: no script, nothing that is loaded from anywhere."""

from collections.abc import Iterator, Sequence
from html import escape as escape_html

from oomctl.analyzers.allocator.components import words
from oomctl.analyzers.allocator.downsample import Span, envelope
from oomctl.analyzers.allocator.timeline import Timeline
from oomctl.cli.render.text import escape
from oomctl.cli.render.words import at_event, human
from oomctl.schemas.heap import Block, History, Segment, Snapshot

WIDTH = 1200
ROW, GAP = 12, 3
HEIGHT = 320
SPANS = 1200
MAX_SEGMENTS = 300
"""Drawn per pool, the largest first: the rest is told in a line."""
MAX_PIECES = 12_000
"""Of all pools of a device; 120 bytes each, and as much again where one has words."""
MAX_MARKS = 200
_STATES = {"active_allocated": "used", "active_pending_free": "pending", "inactive": "hole", "mixed": "mixed"}


def text(value: str) -> str:
    """What a file says, as text of a page: its marks shown, never obeyed."""
    return escape_html(escape(value))


def timeline_svg(timeline: Timeline, history: History, marked: int | None) -> str:
    """Reserved and allocated bytes over the events.

    Args:
        timeline: Of the history.
        history: For its `oom` entries.
        marked: Index of the instant that the page is about, or None.
    """
    length = len(history)
    top = max(max(timeline.reserved_bytes), max(timeline.allocated_bytes), *timeline.before, 1)
    parts = [
        _band(envelope(timeline.reserved_bytes, SPANS), "reserved", length, top),
        _band(envelope(timeline.allocated_bytes, SPANS), "allocated", length, top),
    ]
    ooms = [n for n, action in enumerate(history.actions) if action == "oom"]
    marks = [(n, "oom", f"oom entry, event {n}: {human(history.sizes_bytes[n])}") for n in ooms[-MAX_MARKS:]]
    highest, _ = timeline.at(timeline.peak)
    marks.append((max(timeline.peak, 0), "peak", f"peak, {at_event(timeline.peak)}: {human(highest)} allocated"))
    if marked is not None:
        marks.append((max(marked, 0), "at", f"{at_event(marked)}: the map and the holders below"))
    for n, kind, said in marks:
        x = _x(n, length)
        parts.append(f'<path class="{kind}" d="M{x:.1f} 0V{HEIGHT}"><title>{text(said)}</title></path>')
    for share in (1.0, 0.75, 0.5, 0.25):
        y = HEIGHT * (1 - share)
        parts.append(f'<text x="4" y="{y + 12:.0f}">{human(round(top * share))}</text>')
    return f'<svg class="timeline" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">{"".join(parts)}</svg>'


def map_svg(snapshot: Snapshot, segments: Sequence[Segment], pools: int) -> str:
    """Segments of one pool, one a row, to one scale: blocks in use, blocks that wait, holes.

    Args:
        snapshot: With the stacks.
        segments: Of the pool, one or more.
        pools: How many there are on the page of this device: they share what it may hold.
    """
    most = max(MAX_PIECES // pools, 4)
    drawn = sorted(segments, key=lambda segment: (-segment.total_bytes, segment.address))[: min(MAX_SEGMENTS, most // 4)]
    scale = WIDTH / max(segment.total_bytes for segment in drawn)
    # Between two pieces of a grain lies at most a narrower one.
    grain = max(2 * scale * sum(segment.total_bytes for segment in drawn) / most, 1)
    rows = []
    for number, segment in enumerate(drawn):
        y = number * (ROW + GAP)
        rects = "".join(_rect(snapshot, piece, segment, scale, y) for piece in _pieces(segment, grain / scale))
        rows.append(f"<g><title>{text(_segment_words(segment))}</title>{rects}</g>")
    left = len(segments) - len(drawn)
    more = f"<p>and {left:,} smaller segments</p>" if left else ""
    height = len(drawn) * (ROW + GAP)
    return f'<svg class="map" viewBox="0 0 {WIDTH} {height}" role="img">{"".join(rows)}</svg>{more}'


def _band(spans: list[Span], kind: str, length: int, top: int) -> str:
    """Down to the axis from the largest value of each span, and a darker band between its least and largest."""

    def y(value: int) -> float:
        return HEIGHT * (1 - max(value, 0) / top)

    def step(first: float, last: float, value: int) -> str:
        return f"L{_x(first, length):.1f} {y(value):.1f}L{_x(last, length):.1f} {y(value):.1f}"

    above = "".join(step(span.first, span.last + 1, span.largest) for span in spans)
    below = "".join(step(span.last + 1, span.first, span.least) for span in reversed(spans))
    return (
        f'<path class="{kind}" d="M0 {HEIGHT}{above}L{WIDTH} {HEIGHT}Z"/>'
        f'<path class="{kind} band" d="M{above.removeprefix("L")}{below}Z"/>'
    )


def _x(event: float, length: int) -> float:
    return WIDTH * event / length


_Piece = tuple[str, int, int, Block | None]
"""(state, offset, bytes, block where it is one)."""


def _pieces(segment: Segment, grain_bytes: float) -> Iterator[_Piece]:
    """Blocks; neighbours that are smaller than a grain are one piece together, a mixed one with a hole among them."""
    waiting: list[Block] = []
    gathered = 0

    def joined() -> Iterator[_Piece]:
        if waiting:
            states = {block.state for block in waiting}
            state = states.pop() if len(states) == 1 else "mixed"
            start = waiting[0].address - segment.address
            yield state, start, sum(block.size_bytes for block in waiting), waiting[0] if len(waiting) == 1 else None
            waiting.clear()

    for block in segment.blocks:
        if block.size_bytes >= grain_bytes:
            yield from joined()
            gathered = 0
            yield block.state, block.address - segment.address, block.size_bytes, block
            continue
        waiting.append(block)
        gathered += block.size_bytes
        if gathered >= grain_bytes:
            yield from joined()
            gathered = 0
    yield from joined()


def _rect(snapshot: Snapshot, piece: _Piece, segment: Segment, scale: float, y: int) -> str:
    state, offset, size, block = piece
    place = f'class="{_STATES[state]}" x="{offset * scale:.1f}" y="{y}" width="{max(size * scale, 0.3):.1f}" height="{ROW}"'
    if block is None or state == "mixed" or size * scale < 4:
        return f"<rect {place}/>"
    said = f"{human(size)} {'free' if state == 'inactive' else words(snapshot.frames_of(block.stack))}"
    return f"<rect {place}><title>{text(said[:160])}</title></rect>"


def _segment_words(segment: Segment) -> str:
    free = sum(block.size_bytes for block in segment.blocks if block.state == "inactive")
    return f"segment {segment.address:#x}, {human(segment.total_bytes)}, {human(free)} of it free"
