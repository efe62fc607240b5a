"""`oomctl schema`: the event table, the verdict and the memory ledger, as JSON Schema or SQL."""

import sys
from enum import StrEnum
from typing import Annotated

import typer

from oomctl.schemas.errors import ExitCode, OomctlError


class Subject(StrEnum):
    """What has a schema."""

    EVENTS = "events"
    VERDICT = "verdict"
    LEDGER = "ledger"


def schema(
    subject: Annotated[Subject, typer.Argument(metavar="WHAT", help="Rows, or the JSON of triage or ledger.")],
    json: Annotated[bool, typer.Option("--json", help="JSON Schema, which is the default.")] = False,
    sql: Annotated[bool, typer.Option("--sql", help="DDL of the event table, with a view per kind.")] = False,
) -> None:
    """Print the schema of the event table, the verdict or the memory ledger."""
    if json and sql:
        raise OomctlError("--json and --sql contradict each other", "leave one of them out", ExitCode.USAGE)
    if sql:
        if subject is not Subject.EVENTS:
            raise OomctlError(f"the {subject.value} is not a table", "leave --sql out", ExitCode.USAGE)
        from oomctl.schemas.ddl import script

        sys.stdout.write(script())
        return
    import json as json_module

    if subject is Subject.EVENTS:
        from oomctl.schemas.json_schema import events_schema

        document = events_schema()
    elif subject is Subject.LEDGER:
        from oomctl.schemas.ledger import ledger_schema

        document = ledger_schema()
    else:
        from oomctl.schemas.verdict import verdict_schema

        document = verdict_schema()
    sys.stdout.write(json_module.dumps(document, indent=2, ensure_ascii=False) + "\n")
