"""`oomctl snapshot`: what an allocator snapshot holds, and why an allocation did not fit."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oomctl.cli.options import JsonOption, page_width
from oomctl.cli.output import ForceOption, refuse_existing, refuse_folder, refuse_inputs
from oomctl.cli.snapshot_options import REPORT, SETTINGS, refuse_stray
from oomctl.schemas.errors import ExitCode, OomctlError

if TYPE_CHECKING:
    from oomctl.analyzers.allocator.fit import Request
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
    by: Annotated[
        str | None, typer.Option("--by", metavar="|".join(GROUPINGS), help="What holders are summed by: stack unless told.")
    ] = None,
    request: Annotated[
        str | None, typer.Option("--request", metavar="SIZE", help="With `fit`: an allocation to try, such as 1.5GiB.")
    ] = None,
    free: Annotated[
        str | None, typer.Option("--free", metavar="SIZE", help="With `fit`: what is free on the device, where known.")
    ] = None,
    stream: Annotated[
        int, typer.Option("--stream", metavar="N", help="With `fit`: the CUDA stream that asks, as in the POOLS table.")
    ] = 0,
    pool: Annotated[
        str | None,
        typer.Option("--pool", metavar="A.B", help="With `fit`: the private pool that is asked, as in the POOLS table."),
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
        Path | None, typer.Option("--html", metavar="FILE", help="Draw the memory map and the timeline; needs no network.")
    ] = None,
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:
    """Say what an allocator snapshot holds, and why it did not fit."""
    verb = paths[0] if paths[0] in VERBS and len(paths) > 1 else REPORT
    files = paths if verb == REPORT else paths[1:]
    settings = (expandable, max_split, gc_threshold, divisions)
    given: dict[str, object] = {
        "--at": at, "--by": by, "--request": request, "--free": free, "--stream": stream or None, "--pool": pool,
        "--since": since, "--room": room, "--limit": limit, "--html": html, "--force": force or None,
    } | dict(zip(SETTINGS, settings, strict=True))  # fmt: skip
    refuse_stray(verb, {name for name, value in given.items() if value is not None})
    if by is not None and by not in GROUPINGS:
        raise OomctlError(f"--by does not know {by!r}", f"known: {', '.join(GROUPINGS)}", ExitCode.USAGE)
    if verb == "fit" and request is None:
        raise OomctlError("fit needs --request", "oomctl snapshot fit FILE --request 1.5GiB", ExitCode.USAGE)
    if verb == "whatif":
        if all(value is None for value in settings):
            hint = "oomctl snapshot whatif FILE --expandable-segments"
            raise OomctlError("whatif needs a setting of the allocator", hint, ExitCode.USAGE)
        from oomctl.cli import whatif

        whatif.run(files, *settings, room, limit, json, page_width())
        return
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
    if html is not None:
        refuse_folder(html, "heap.html")
        refuse_inputs(html, files)
        refuse_existing(html, force)
    reports, drawn = _reports(files, at, by or "stack", _asked(request, free, stream, pool), limit, html is not None)
    from oomctl.cli.render import snapshots

    if html is not None:
        _write(html, drawn)
    sys.stdout.write(snapshots.reports_json(reports) if json else snapshots.reports_page(reports, page_width()))


def _asked(request: str | None, free: str | None, stream: int, pool: str | None) -> "Request | None":
    """What `fit` tries, on whichever device."""
    from oomctl.analyzers.allocator.fit import Request
    from oomctl.analyzers.allocator.recorded import pool_id
    from oomctl.cli.units import parse_size
    from oomctl.schemas.heap import DEFAULT_POOL

    if request is None:
        return None
    size = parse_size(request, "--request")
    if size <= 0:
        raise OomctlError("--request must be more than nothing", "for instance 1.5GiB", ExitCode.USAGE)
    asked = DEFAULT_POOL if pool is None else pool_id(pool)
    if pool is not None and f"{asked[0]}.{asked[1]}" != pool:
        raise OomctlError(f"--pool is none: {pool[:40]!r}", "two numbers, as in the POOLS table: 0.1", ExitCode.USAGE)
    return Request(
        request_bytes=size,
        stream=stream,
        pool=asked,
        device_free_bytes=parse_size(free, "--free") if free is not None else None,
    )


def _reports(
    files: list[str], at: str | None, by: str, request: "Request | None", limit: str | None, draw: bool
) -> "tuple[list[Report], list[str]]":
    """One a device, and its drawing if it is wanted."""
    from msgspec.structs import replace

    from oomctl.analyzers.allocator.report import report
    from oomctl.cli.boundary import warn
    from oomctl.cli.units import parse_size
    from oomctl.snapshots import open_snapshots, rank_of

    limit_bytes = parse_size(limit, "--limit") if limit is not None else None
    grouping: Grouping = by  # type: ignore[assignment] # checked against GROUPINGS
    found: list[Report] = []
    drawn: list[str] = []
    empty: list[OomctlError] = []
    for opened in open_snapshots(files, warn):
        if not opened.devices:
            empty.append(
                OomctlError(f"nothing in it: no segment and no event ({opened.name})", "was it taken in the right process?")
            )
        for device in opened.devices:
            asked = replace(request, device=device) if request is not None else None
            found.append(report(opened, device, at, grouping, asked, rank_of(opened.name), limit_bytes))
            if draw:
                drawn.append(_drawn(found[-1], opened))
    if not found:
        raise empty[0]
    for problem in empty:
        warn(problem)
    return found, drawn


def _drawn(found: "Report", opened: "Snapshot") -> str:
    from oomctl.analyzers.allocator.rewind import rewind
    from oomctl.analyzers.allocator.timeline import replay
    from oomctl.cli.render.heap_page import section

    seen = opened if found.at.index is None else rewind(opened, found.device, found.at.index)
    return section(found, seen, opened, replay(opened, found.device))


def _write(html: Path, drawn: list[str]) -> None:
    from oomctl.cli.boundary import note
    from oomctl.cli.render.heap_page import page
    from oomctl.cli.render.words import human
    from oomctl.schemas import whole

    whole.write(html, page(drawn).encode())
    note(f"wrote {human(html.stat().st_size)} ({html})")


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
