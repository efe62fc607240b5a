"""What a command that runs for days tells on stderr: lines for people, or JSON for whoever collects logs.

JSON has the fields of OpenTelemetry's log data model under their names there
(https://opentelemetry.io/docs/specs/otel/logs/data-model/), `Timestamp` as ISO 8601 in UTC.
"""

import json
import logging
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import typer

from oomctl.cli.options import LogFormat
from oomctl.cli.render.text import escape
from oomctl.collectors.artifacts.logs.redact import redact
from oomctl.schemas.errors import OomctlError

_QUERY = re.compile(r"(\w://[^\s?]+)\?[^\s,]+")
_SEVERITY = {logging.INFO: ("INFO", 9), logging.WARNING: ("WARN", 13), logging.ERROR: ("ERROR", 17)}


@contextmanager
def told(form: LogFormat, **resource: Any) -> Iterator[None]:
    """Let what the recorder tells reach stderr, an error that ends it too.

    Args:
        form: How.
        resource: Of whom, in JSON: names with a dot have `__` in its place.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        _Lines() if form is LogFormat.TEXT else _Json({k.replace("__", "."): v for k, v in resource.items()})
    )
    logger = logging.getLogger("oomctl")
    before = logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    try:
        yield
    except OomctlError as error:
        if form is LogFormat.TEXT:
            raise
        logger.error("%s", error.what, extra={"event_name": "oomctl.failed", "attributes": {"oomctl.hint": error.hint}})
        raise typer.Exit(error.exit_code) from error
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


class _Lines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return f"oomctl: {escape(_safe(record.getMessage()))}"


class _Json(logging.Formatter):
    def __init__(self, resource: dict[str, Any]) -> None:
        super().__init__()
        self._resource = resource

    def format(self, record: logging.LogRecord) -> str:
        text, number = _SEVERITY[record.levelno]
        attributes = getattr(record, "attributes", {})
        return json.dumps(
            {
                "Timestamp": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds"),
                "SeverityText": text,
                "SeverityNumber": number,
                "EventName": getattr(record, "event_name", record.name),
                "Body": _safe(record.getMessage()),
                "Attributes": {
                    name: _safe(value) if isinstance(value, str) else value for name, value in attributes.items()
                },
                "Resource": self._resource,
            },
            default=str,
        )


def _safe(text: str) -> str:
    """Without credentials: addresses of pages and collectors may hold some, in front or in their query."""
    return redact(_QUERY.sub(r"\1?[redacted]", text))
