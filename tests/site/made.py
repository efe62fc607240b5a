"""What follows from the code: pages of docs/ (commands, event table, `explain`, engines) and the schema of oomctl.toml.

`python -m tests.site.made` writes them; a test compares.
"""

from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import typer

from oomctl.analyzers.triage.remedies import engine_files
from oomctl.cli import pages
from oomctl.cli.app import app, run
from oomctl.collectors.artifacts.logs.registry import READERS
from oomctl.schemas.common import COMMON
from oomctl.schemas.declare import Field
from oomctl.schemas.events import KINDS
from oomctl.schemas.version import SCHEMA_VERSION
from tests.working_tree import ROOT

DOCS = ROOT / "docs"
MADE = "Made by `python -m tests.site.made`; do not edit it.\n"
WIDTH = 100
GUIDES = {
    "attach": "recording.md",
    "capacity": "capacity.md",
    "config": "configuration.md",
    "doctor": "collecting.md",
    "explain": "explained.md",
    "fleet": "fleet.md",
    "ledger": "ledger.md",
    "query": "queries.md",
    "schema": "events.md",
    "top": "collecting.md",
}
"""The page that tells more than the help of a command; of the others cli.md does."""


def made() -> dict[Path, str]:
    """Each page that is made, and what has to be in it."""
    return {DOCS / "commands" / f"{name}.md": "".join(_command(name)) for name in below("")} | {
        DOCS / "events.md": "".join(_events()),
        DOCS / "explained.md": "".join(_explained()),
        DOCS / "engines.md": "".join(_engines()),
        ROOT / "src" / "oomctl" / "config" / "oomctl.schema.json": _config_schema(),
    }


def _config_schema() -> str:
    """What `oomctl config schema` prints, as a file for editors."""
    with redirect_stdout(StringIO()) as printed:
        assert run(["config", "schema"]) == 0
    return printed.getvalue()


def below(name: str) -> list[str]:
    """The commands of oomctl, or of one of its commands that has some."""
    command: Any = typer.main.get_command(app)
    return list(getattr(command.commands[name] if name else command, "commands", ()))


def _command(name: str) -> Iterator[str]:
    guide = GUIDES.get(name, "cli.md")
    yield f"# oomctl {name}\n\n{MADE}\nMore: [{guide}](../{guide}).\n"
    for words in ((name,), *((name, below) for below in below(name))):
        heading = f"\n## {' '.join(words)}\n" if len(words) > 1 else ""
        yield f"{heading}\n```text\n{help_of(words)}```\n"


def help_of(words: tuple[str, ...]) -> str:
    """What `oomctl WORDS --help` prints through a pipe, WIDTH columns wide."""
    printed = StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(printed):
        patch.setenv("COLUMNS", str(WIDTH))
        assert run([*words, "--help"]) == 0
    return printed.getvalue()


def _events() -> Iterator[str]:
    yield f"# The event table, version {SCHEMA_VERSION}\n\n{MADE}\n"
    yield "Every fact is a row: common columns, a kind, and the fields of that kind. Each kind has a view of its name.\n"
    yield "NULL is not observed. Sizes are bytes, tokens and blocks counts, `_us` microseconds, ratios 0 to 1, times UTC.\n"
    yield "`oomctl schema events` prints it as JSON Schema, `--sql` as SQL.\n"
    yield "\n## Common columns\n\n"
    yield from _fields(COMMON)
    for kind in KINDS.values():
        yield f"\n## {kind.name}\n\n{kind.doc}\n\n"
        yield from _fields(kind.fields)


def _fields(fields: tuple[Field, ...]) -> Iterator[str]:
    yield "| column | type | meaning |\n|---|---|---|\n"
    for field in fields:
        values = f" One of {', '.join(f'`{value}`' for value in field.values)}." if field.values else ""
        yield f"| `{field.name}` | {field.type} | {field.doc.replace('|', ' or ')}{values} |\n"


def _explained() -> Iterator[str]:
    yield f"# What `oomctl explain` prints\n\n{MADE}\n## The six classes\n\n"
    yield from (f"- [{page.code} {page.name}](classes/{page.name}.md): {page.summary}\n" for page in pages.classes())
    for title, folder, found in (
        ("What people get wrong", "questions", pages.questions()),
        ("Causes", "causes", pages.causes()),
    ):
        yield f"\n## {title}\n\n"
        yield from (f"- [{page.name}]({folder}/{page.name}.md): {page.summary}\n" for page in found)


ENGINES = """
A log reader turns lines into facts; options are what remedies are made of (`oomctl explain ENGINE`), read from the engine's
sources; a page of metrics is what `attach` and `top` read beside a worker. None of these three has to run in the engine.

How each was tried:

- Log readers: on public logs of vLLM (V0 and V1), SGLang and PyTorch, and on labelled logs written from each engine's
  formats (`make accuracy`). Those of the other engines were written with these logs in view: trust their verdicts less.
- Pages of metrics: on pages written from the engines' documents.
- The agent, inside the engine: vLLM 0.32.0 on the CPU, started, killed and made to fail for real; no GPU yet. SGLang:
  a stand-in. Version by version: [agent.md](agent.md#tested-versions).
- The ledger: vLLM 0.19 on H100, what was printed there; elsewhere its estimates are null
  ([ledger.md](ledger.md#how-well-it-does)).
"""


def _engines() -> Iterator[str]:
    yield f"# Engines\n\n{MADE}\n"
    yield "| engine | log reader | options, versions looked at | page of metrics | agent |\n|---|---|---|---|---|\n"
    readers = {reader.name for reader in READERS}
    scraped = {path.stem for path in (ROOT / "collectors" / "live" / "prometheus" / "engines").glob("*.toml")}
    inside = {path.stem for path in (ROOT / "collectors" / "agent").iterdir()} & {"vllm", "sglang"}
    for name in sorted(readers | scraped | set(engine_files.names())):
        known = engine_files.load(name)
        versions = (
            ""
            if known is None
            else " to ".join(dict.fromkeys((known.checked[0], known.checked[-1])))
            if known.checked
            else "yes"
        )
        marks = [("yes" if name in where else "") for where in (readers, scraped, inside)]
        yield f"| {name} | {marks[0]} | {versions} | {marks[1]} | {marks[2]} |\n"
    yield ENGINES


def write() -> None:
    """Bring the pages up to date, and take away those of commands that are gone."""
    found = made()
    for path in (DOCS / "commands").glob("*.md"):
        if path not in found:
            path.unlink()
    for path, text in found.items():
        path.write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    write()
