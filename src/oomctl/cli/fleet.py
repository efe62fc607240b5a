"""`oomctl fleet`, and `oomctl triage` of many workers: each worker-hour by itself, kept as findings, and summed up."""

import sys
from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from oomctl.cli.options import Format, FormatOption, JsonOption, chosen_format, page_width, use_colour
from oomctl.schemas.errors import ExitCode, OomctlError

if TYPE_CHECKING:
    from oomctl.fleet.findings import Asked
    from oomctl.fleet.units import Unit

DEFAULT_FINDINGS = "findings"


class EngineName(StrEnum):
    """Who judges a fleet."""

    LOCAL = "local"
    RAY = "ray"


EngineOption = Annotated[
    EngineName | None, typer.Option("--engine", help="Of a fleet: judge on processes of this machine, or as Ray tasks.")
]
AddressOption = Annotated[
    str | None, typer.Option("--address", metavar="ADDRESS", help="Of the Ray cluster; without it one is started here.")
]
JobsOption = Annotated[
    int | None, typer.Option("--jobs", min=1, metavar="N", help="Of a fleet: worker-hours judged at once on this machine.")
]
FindingsOption = Annotated[
    str | None,
    typer.Option("--findings", metavar="DIR", help=f"Of a fleet: where findings are kept, or a URL. [{DEFAULT_FINDINGS}]"),
]


def fleet(
    findings: Annotated[str, typer.Argument(metavar="DIR", help="What `oomctl triage --findings` wrote; or its URL.")],
    format: FormatOption = None,
    json: JsonOption = False,
) -> None:
    """Sum up what triage found in a fleet: rates, repeats, regressions.

    By class, cause, model, engine version, node and hour; with the reason why incidents are the same.
    """
    chosen = chosen_format(format, json)
    from oomctl.fleet.findings import Asked, Findings

    asked = Asked()
    for table in Findings(findings).tables():
        asked.add_table(table)
    _print(asked, chosen)


def triage_fleet(
    paths: list[str],
    engine: EngineName | None,
    address: str | None,
    jobs: int | None,
    findings: str | None,
    chosen: Format,
) -> list[tuple[str | None, str | None]]:
    """Judge a fleet, and print the summary; as rows for a program, the findings.

    Returns:
        (verdict, class) of each incident.

    Raises:
        OomctlError: If there is nothing to judge, or the store or the cluster cannot be reached.
    """
    from oomctl.cli.boundary import note
    from oomctl.fleet import engines
    from oomctl.fleet.findings import Asked, Findings
    from oomctl.fleet.judge import judge
    from oomctl.fleet.run import run
    from oomctl.fleet.units import units

    if address is not None and engine is not EngineName.RAY:
        raise OomctlError("--address is of a Ray cluster", "add --engine ray", ExitCode.USAGE)
    found = list({unit.name: unit for path in paths for unit in units(path)}.values())
    if not found:
        raise OomctlError(f"no worker-hours ({', '.join(paths)})", "give what `oomctl export --partition` wrote")
    table = Findings(findings or DEFAULT_FINDINGS)
    asked = Asked()

    def judged(waiting: "Iterable[Unit]") -> engines.Judged:
        if engine is EngineName.RAY:
            return engines.ray(waiting, judge, address, jobs)
        return engines.local(waiting, judge, jobs)

    done = run(found, table, judged, asked.add)
    note(f"judged {done.judged:,} of {done.units:,} units; {done.units - done.judged:,} were known ({table.store.root})")
    asked.flush()
    _print(asked, chosen)
    return asked.connection.execute("SELECT verdict, class FROM finding WHERE outcome = 'incident'").fetchall()


def _print(asked: "Asked", chosen: Format) -> None:
    from oomctl.analyzers.fleet.summary import summary

    if chosen in (Format.JSONL, Format.CSV):
        from oomctl.cli.answers import chunks

        cursor = asked.connection.execute("SELECT * FROM finding WHERE outcome <> 'clean' ORDER BY unit, ts, incident")
        columns = [column[0] for column in cursor.description or ()]
        sys.stdout.writelines(chunks(columns, cursor.fetchall(), chosen))
        return
    told = summary(asked.connection)
    if chosen is Format.JSON:
        from oomctl.cli.render.text import document

        sys.stdout.write(document(told))
    elif chosen is Format.MD:
        from oomctl.cli.render.fleet import fleet_md

        sys.stdout.write(fleet_md(told))
    else:
        from oomctl.cli.render.fleet import fleet_text

        sys.stdout.write(fleet_text(told, page_width(), use_colour()))
