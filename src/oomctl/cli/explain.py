"""`oomctl explain`: the page of a class, a cause or a question; a word; an engine's options."""

import sys
from collections.abc import Iterator
from textwrap import fill
from typing import TYPE_CHECKING, Annotated

import typer

from oomctl.schemas.errors import ExitCode, OomctlError

if TYPE_CHECKING:
    from oomctl.cli.pages import Page

WIDTH = 100


def explain(
    code: Annotated[
        str | None,
        typer.Argument(
            metavar="WORD",
            help="OOM001 to OOM006, any word that a verdict prints (a cause, ...), a question that people get wrong, or an "
            "engine (vllm, ...); without it, all of them.",
        ),
    ] = None,
) -> None:
    """Print the page of a class, cause, question, word or engine, or list them."""
    from oomctl.cli import pages

    if code is None:
        sys.stdout.writelines(_contents())
        return
    word = code.strip().lower().replace("-", "_").replace(" ", "_")
    page = pages.find(word)
    if page is not None:
        sys.stdout.write(page.text.rstrip("\n") + "\n")
        return
    from oomctl.analyzers.triage.remedies import engine_files

    engine = engine_files.load(code.lower())
    if engine is not None:
        from oomctl.cli.render.engine import page_of

        sys.stdout.write(page_of(engine))
        return
    words = pages.glossary()
    if word not in words:
        raise _unknown(code, word, list(words))
    for axis, meaning in words[word].items():
        sys.stdout.write(fill(f"{word} ({axis}): {meaning}", WIDTH, subsequent_indent="  ") + "\n")


def _contents() -> Iterator[str]:
    from oomctl.analyzers.triage.remedies import engine_files
    from oomctl.cli import pages

    yield from _listed(pages.classes())
    yield "\nWhat people get wrong:\n"
    yield from _listed(pages.questions())
    for title, names in (("Causes", [page.name for page in pages.causes()]), ("Engines", engine_files.names())):
        yield f"\n{title}:\n" + fill(", ".join(names), WIDTH, break_on_hyphens=False) + "\n"


def _listed(found: "list[Page]") -> Iterator[str]:
    width = max(len(page.name) for page in found)
    for page in found:
        yield f"{page.code}  {page.name:<{width}}  {page.summary}\n".lstrip()


def _unknown(code: str, word: str, words: list[str]) -> OomctlError:
    from oomctl.analyzers.triage.remedies import engine_files
    from oomctl.cli import pages
    from oomctl.cli.options import closest

    known = [page.code for page in pages.classes()]
    if not word.startswith("oom"):
        found = [*pages.classes(), *pages.causes(), *pages.questions()]
        known += [*(page.name for page in found), *engine_files.names(), *words]
    hint = closest(word, known) or "`oomctl explain` lists what is explained; a verdict's own words are known too"
    return OomctlError(f"no class, engine or word of a verdict {code!r}", hint, ExitCode.USAGE)
