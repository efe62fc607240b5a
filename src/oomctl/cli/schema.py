"""`oomctl schema`: the event table and the verdict, as JSON Schema or SQL."""

import sys
from enum import StrEnum
from typing import Annotated

import typer

from oomctl.schemas.errors import ExitCode, OomctlError


class Subject(StrEnum):
    """What has a schema."""

    EVENTS = "events"
    VERDICT = "verdict"


def schema(
    subject: Annotated[Subject, typer.Argument(metavar="WHAT", help="A row of the event table, or triage's JSON.")],
    json: Annotated[bool, typer.Option("--json", help="JSON Schema, which is the default.")] = False,
    sql: Annotated[bool, typer.Option("--sql", help="DDL of the event table, with a view per kind.")] = False,
) -> None:
    """Print the schema of the event table or of the verdict."""
    if json and sql:
        raise OomctlError("--json and --sql contradict each other", "leave one of them out", ExitCode.USAGE)
    if sql:
        if subject is Subject.VERDICT:
            raise OomctlError("the verdict is not a table", "leave --sql out", ExitCode.USAGE)
        from oomctl.schemas.ddl import script

        sys.stdout.write(script())
        return
    import json as json_module

    if subject is Subject.EVENTS:
        from oomctl.schemas.json_schema import events_schema

        document = events_schema()
    else:
        from oomctl.schemas.verdict import verdict_schema

        document = verdict_schema()
    sys.stdout.write(json_module.dumps(document, indent=2, ensure_ascii=False) + "\n")
