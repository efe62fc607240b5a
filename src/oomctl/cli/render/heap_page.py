"""`oomctl snapshot --html`: map, timeline, holders and fit test on one page that needs no network and runs no script."""

from collections.abc import Iterable
from itertools import groupby

from oomctl.analyzers.allocator.report import Report
from oomctl.analyzers.allocator.timeline import Timeline
from oomctl.cli.render import snapshots
from oomctl.cli.render.heap_svg import map_svg, text, timeline_svg
from oomctl.cli.render.words import human
from oomctl.schemas.heap import Segment, Snapshot

STYLE = """
body{font:14px/1.4 system-ui,sans-serif;margin:1.5em auto;max-width:1240px;padding:0 1em;color:#1b1f24;background:#fff}
h1{font-size:1.3em}h2{font-size:1.1em;margin-top:1.6em}h3{font-size:1em;margin:.9em 0 .3em}svg{width:100%;display:block}
pre{background:#f4f5f7;padding:.8em;overflow:auto}svg.timeline{background:#f7f8fa;border:1px solid #d5d9df}
svg text{font:10px system-ui,sans-serif;fill:#57606a}
path.reserved{fill:#c9d4e3}path.allocated{fill:#5b8dc9}path.band{fill-opacity:.6;stroke:none}
path.reserved.band{fill:#8fa5c4}path.allocated.band{fill:#2f5f9e}
path.oom{stroke:#c62828;stroke-width:2}path.peak{stroke:#2e7d32;stroke-width:2}path.at{stroke:#6a1b9a;stroke-dasharray:4}
rect.used{fill:#5b8dc9}rect.pending{fill:#e0a030}rect.hole{fill:#f3d4d4;stroke:#d88;stroke-width:.3}rect.mixed{fill:#a99bbd}
.key span{display:inline-block;padding:0 .5em;margin-right:.7em}
"""
MAX_POOLS = 200
"""Drawn, the largest first."""
KEY = "".join(
    f'<span style="background:{colour}">{said}</span>'
    for colour, said in (
        ("#5b8dc9", "in use"), ("#e0a030", "freed, waits for a stream"), ("#f3d4d4", "free"),
        ("#a99bbd", "too narrow to show apart"),
    )
)  # fmt: skip


def section(found: Report, seen: Snapshot, snapshot: Snapshot, timeline: Timeline | None) -> str:
    """One device of one file.

    Args:
        found: Its report.
        seen: The heap at the instant that the report is about.
        snapshot: As read, for the history.
        timeline: Of the history, where there is one.
    """
    parts = [f"<h2>{text(found.file)}, device {found.device}</h2>"]
    if timeline is not None:
        parts += ["<h3>Reserved and allocated bytes</h3>"]
        parts += [timeline_svg(timeline, snapshot.histories[found.device], found.at.index)]
    parts += [f"<pre>{text_block(snapshots.reports_page([found], 160))}</pre>"]
    parts += ["<h3>Memory map</h3>", f'<p class="key">{KEY}</p>', pool_maps(seen, found.device)]
    return "\n".join(parts)


def pool_maps(seen: Snapshot, device: int) -> str:
    """The segments of a device, a drawing for each pool."""
    parts = []

    def pool(segment: Segment) -> tuple[tuple[int, int], int, str]:
        return segment.pool, segment.stream, segment.size_class

    mine = [segment for segment in seen.segments if segment.device == device and segment.total_bytes]
    grouped = [(key, list(segments)) for key, segments in groupby(sorted(mine, key=pool), key=pool)]
    grouped.sort(key=lambda item: -sum(segment.total_bytes for segment in item[1]))
    for (pool_id, stream, kind), listed in grouped[:MAX_POOLS]:
        total = human(sum(segment.total_bytes for segment in listed))
        parts.append(f"<h3>{text(kind)}, pool {pool_id[0]}.{pool_id[1]}, stream {stream}: {total}</h3>")
        parts.append(map_svg(seen, listed, min(len(grouped), MAX_POOLS)))
    if len(grouped) > MAX_POOLS:
        parts.append(f"<p>and {len(grouped) - MAX_POOLS:,} smaller pools</p>")
    return "\n".join(parts)


def page(sections: Iterable[str]) -> str:
    """The whole file."""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>oomctl snapshot</title>'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<style>{STYLE}</style></head><body><h1>oomctl snapshot</h1>\n" + "\n".join(sections) + "\n</body></html>\n"
    )


def text_block(value: str) -> str:
    """Lines of text for HTML: their ends stay, all else in them is shown and never obeyed."""
    return "\n".join(map(text, value.split("\n")))
