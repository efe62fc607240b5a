"""The trace that every part of capacity takes. It is declared in `schemas`, since collectors make it."""

from oomctl.schemas.trace import COLUMNS, STATUSES, Finding, Prefixes, Trace, request_table

__all__ = ["COLUMNS", "STATUSES", "Finding", "Prefixes", "Trace", "request_table"]
