"""`oomctl snapshot`: what an allocator snapshot holds, and why an allocation did not fit."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from oomctl.cli.options import JsonOption, page_width
from oomctl.schemas.errors import ExitCode, OomctlError

if TYPE_CHECKING:
    from oomctl.analyzers.allocator.report import Grouping, Report
    from oomctl.schemas.heap import Snapshot

VERBS = ("fit", "diff", "growth", "lifetimes", "whatif")
GROUPINGS = ("stack", "component", "pool", "rank")


def snapshot(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="[fit|diff|growth|lifetimes|whatif] FILE...",
            help="Snapshots of torch.cuda.memory._dump_snapshot(): pickle or JSON, gzip or zstd; files, globs, folders. "
            "`fit` tries --request; `diff A B` compares two by stack; `growth` two instants of one; `lifetimes` "
            "tells how long blocks live; `whatif` replays the history under other settings.",
        ),
    ],
    at: Annotated[
        str | None, typer.Option("--at", metavar="peak|oom|INDEX", help="Who held memory at that event of the history.")
    ] = None,
    by: Annotated[str, typer.Option("--by", metavar="|".join(GROUPINGS), help="What holders are summed by.")] = "stack",
    request: Annotated[
        str | None, typer.Option("--request", metavar="SIZE", help="With `fit`: an allocation to try, such as 1.5GiB.")
    ] = None,
    free: Annotated[
        str | None, typer.Option("--free", metavar="SIZE", help="With `fit`: what is free on the device, where known.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="start|peak|oom|INDEX", help="With `growth`: the earlier instant; --at the later."),
    ] = None,
    expandable: Annotated[
        bool | None, typer.Option("--expandable-segments/--no-expandable-segments", help="With `whatif`.")
    ] = None,
    max_split: Annotated[
        str | None, typer.Option("--max-split-size", metavar="SIZE", help="With `whatif`, such as 512MiB.")
    ] = None,
    gc_threshold: Annotated[
        float | None, typer.Option("--garbage-collection-threshold", metavar="SHARE", help="With `whatif`, of --limit.")
    ] = None,
    divisions: Annotated[int | None, typer.Option("--roundup-power2-divisions", metavar="N", help="With `whatif`.")] = None,
    room: Annotated[
        str | None,
        typer.Option("--room", metavar="SIZE", help="With `whatif`: what the process may take; known from an oom entry."),
    ] = None,
    limit: Annotated[
        str | None,
        typer.Option(
            "--limit", metavar="SIZE", help="What the process allowed itself (a memory fraction); no snapshot tells."
        ),
    ] = None,
    html: Annotated[
        str | None, typer.Option("--html", metavar="FILE", help="Draw the memory map and the timeline; needs no network.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Say what an allocator snapshot holds, and why it did not fit."""
    if by not in GROUPINGS:
        raise OomctlError(f"--by does not know {by!r}", f"known: {', '.join(GROUPINGS)}", ExitCode.USAGE)
    verb = paths[0] if paths[0] in VERBS and len(paths) > 1 else None
    files = paths[1:] if verb else paths
    if (verb == "fit") != (request is not None):
        raise OomctlError("fit and --request go together", "oomctl snapshot fit FILE --request 1.5GiB", ExitCode.USAGE)
    settings = (expandable, max_split, gc_threshold, divisions)
    if (verb == "whatif") != any(value is not None for value in settings):
        hint = "oomctl snapshot whatif FILE --expandable-segments"
        raise OomctlError("whatif and a setting of the allocator go together", hint, ExitCode.USAGE)
    if verb == "whatif":
        from oomctl.cli import whatif

        whatif.run(files, *settings, room, limit, json, page_width())
        return
    if verb != "growth" and since is not None:
        raise OomctlError("--since goes with growth", "oomctl snapshot growth FILE --since start", ExitCode.USAGE)
    if verb in ("growth", "lifetimes"):
        from oomctl.cli import history

        if verb == "growth":
            history.growth(files, since or history.START, at, json, page_width())
        else:
            history.lifetimes(files, json, page_width())
        return
    if verb == "diff":
        _diff(files, json)
        return
    reports = _reports(files, at, by, request, free, limit, html)
    from oomctl.cli.render import snapshots

    sys.stdout.write(snapshots.reports_json(reports) if json else snapshots.reports_page(reports, page_width()))


def _reports(
    files: list[str],
    at: str | None,
    by: str,
    request: str | None,
    free: str | None,
    limit: str | None,
    html: str | None,
) -> "list[Report]":
    from oomctl.analyzers.allocator.fit import Request
    from oomctl.analyzers.allocator.report import report
    from oomctl.cli.boundary import warn
    from oomctl.cli.units import parse_size
    from oomctl.snapshots import open_snapshots, rank_of

    size = parse_size(request, "--request") if request is not None else None
    if size is not None and size <= 0:
        raise OomctlError("--request must be more than nothing", "for instance 1.5GiB", ExitCode.USAGE)
    free_bytes = parse_size(free, "--free") if free is not None else None
    limit_bytes = parse_size(limit, "--limit") if limit is not None else None
    grouping: Grouping = by  # type: ignore[assignment] # checked against GROUPINGS
    found = []
    drawn: list[str] = []
    for opened in open_snapshots(files, warn):
        for device in opened.devices:
            asked = Request(request_bytes=size, device=device, device_free_bytes=free_bytes) if size else None
            found.append(report(opened, device, at, grouping, asked, rank_of(opened.name), limit_bytes))
            if html is not None:
                drawn.append(_drawn(found[-1], opened))
    if html is not None:
        _write(html, drawn)
    return found


def _drawn(found: "Report", opened: "Snapshot") -> str:
    from oomctl.analyzers.allocator.rewind import rewind
    from oomctl.analyzers.allocator.timeline import replay
    from oomctl.cli.render.heap_page import section

    seen = opened if found.at.index is None else rewind(opened, found.device, found.at.index)
    return section(found, seen, opened, replay(opened, found.device))


def _write(html: str, drawn: list[str]) -> None:
    from pathlib import Path

    from oomctl.cli.boundary import note
    from oomctl.cli.render.heap_page import page
    from oomctl.cli.render.words import human
    from oomctl.schemas.storage import beside

    target = Path(html)
    with beside(target) as scratch:
        scratch.write_text(page(drawn), encoding="utf-8")
    note(f"wrote {human(target.stat().st_size)} ({html})")


def _diff(files: list[str], json: bool) -> None:
    from oomctl.analyzers.allocator.diff import diff
    from oomctl.cli.render import snapshots
    from oomctl.snapshots import open_snapshots

    if len(files) != 2:
        raise OomctlError("diff takes two snapshots", "oomctl snapshot diff BEFORE AFTER", ExitCode.USAGE)
    # One after the other: only what is compared stays in memory.
    from oomctl.analyzers.allocator.diff import Side, side

    sides: list[Side] = []
    for path in files:
        sides += [side(opened) for opened in open_snapshots([path], _fail)]
    if len(sides) != 2:
        raise OomctlError("diff takes two snapshots", "give files, not folders", ExitCode.USAGE)
    result = diff(*sides)
    sys.stdout.write(snapshots.diff_json(result) if json else snapshots.diff_page(result, page_width()))


def _fail(error: OomctlError) -> None:
    raise error
