"""docs/queries.md: the page of the named queries, made from their headers.

A test compares it with the file; OOMCTL_GOLDEN=write writes it.
"""

from collections.abc import Iterator
from pathlib import Path

from oomctl import queries
from oomctl.cli.render.text import escape_md

PAGE = Path(__file__).parent.parent.parent / "docs" / "queries.md"
HEAD = """\
# The named queries

Made from the headers in `queries/postmortem/`; do not edit it. `OOMCTL_GOLDEN=write .venv/bin/pytest
tests/queries/test_catalogue.py` writes it again.

    oomctl query --list                           the names
    oomctl query incident.parquet                 the names, and what was not recorded for each in this file
    oomctl query incident.parquet kv_blocks       an answer; --format table, csv, json, jsonl, md, parquet; -o FILE
    oomctl query incident.parquet memory_at --at "2026-05-04 10:00:41"
    oomctl query --show kv_blocks                 its SQL, to copy and change; run it with -f FILE.sql, -c or -i

Every query runs on what every source gave: a log, a recording, a snapshot, a capacity replay. Where nothing was recorded
that it asks of, it says `not recorded: needs ...`; where it was and nothing in it answers, it says so too. Collectors are
named as in [collecting.md](collecting.md): the agent ([agent.md](agent.md)), prometheus (a page of metrics), kv_events,
nvml, host, otlp.
Times are UTC, sizes bytes; NULL is "not observed". Parameters are options, `--window-s 30` for `window_s`.

Those marked portable keep to SQL that other engines read. A test runs them in SQLite and in
DataFusion too, with equal rows; on Spark, ClickHouse and Trino they have not been run.

| query | question | needs |
|---|---|---|
"""


def page() -> str:
    """The page as it has to be."""
    return HEAD + "".join(_lines())


def _lines() -> Iterator[str]:
    found = [queries.load("postmortem", name) for name in queries.names("postmortem")]
    for query in found:
        needs = "; ".join(need.collector for need in query.needs) or "nothing"
        yield f"| [{query.name}](#{query.name}) | {escape_md(query.title)} | {escape_md(needs)} |\n"
    for query in found:
        yield f"\n## {query.name}\n\n{escape_md(query.title)}.{' Portable.' if query.portable else ''}\n\n"
        for need in query.needs:
            yield f"Needs {escape_md(need.collector)}: `{' or '.join(map(str, need.any_of))}`.\n\n"
        for each in query.parameters:
            yield f"`--{each.name.replace('_', '-')}` [{each.default or 'none'}]: {escape_md(each.meaning)}.\n\n"
        yield "| column | meaning |\n|---|---|\n"
        yield from (f"| {column} | {escape_md(meaning)} |\n" for column, meaning in query.columns)
