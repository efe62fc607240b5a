"""Logs to triage: read as any log, joined in one event table, each under its own stream."""

from io import BytesIO

from oomctl.analyzers.triage import triage
from oomctl.collectors.artifacts.logs import read_log
from oomctl.schemas import storage
from oomctl.schemas.verdict import Incident


def triaged(*logs: str) -> list[Incident]:
    """The incidents of some logs, as `oomctl triage` of as many files gives them."""
    connection = storage.connect()
    for number, log in enumerate(logs):
        storage.load_rows(connection, list(read_log(BytesIO(log.encode()), f"{number}.log").rows))
    return triage(connection)


def first(*logs: str) -> Incident:
    """The root incident."""
    return triaged(*logs)[0]
