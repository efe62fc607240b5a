"""`oomctl explain`: the page of a class, which lies beside the module that decides it; a word; an engine's options."""

import sys
from dataclasses import dataclass
from textwrap import fill
from typing import Annotated

import typer

from oomctl.schemas.errors import ExitCode, OomctlError


@dataclass(frozen=True)
class Page:
    """An explain page: its first line is `# OOM001 load_time: one-line summary`."""

    code: str
    name: str
    summary: str
    text: str


def explain(
    code: Annotated[
        str | None,
        typer.Argument(
            metavar="WORD",
            help="OOM001 to OOM006, any word that a verdict prints, or an engine (vllm, ...); without it, all classes.",
        ),
    ] = None,
) -> None:
    """Print the page of a class or a word, or an engine's memory options, or list them."""
    found = pages()
    if code is None:
        for page in found:
            sys.stdout.write(f"{page.code}  {page.name:<{max(len(other.name) for other in found)}}  {page.summary}\n")
        return
    word = code.strip().lower().replace("-", "_").replace(" ", "_")
    for page in found:
        if word in (page.code.lower(), page.name):
            sys.stdout.write(page.text.rstrip("\n") + "\n")
            return
    from oomctl.analyzers.triage.remedies import options
    from oomctl.cli.options import closest

    engine = options.load(code.lower())
    if engine is not None:
        from oomctl.cli.render.engine import page_of

        sys.stdout.write(page_of(engine))
        return
    words = glossary()
    if word not in words:
        known = [page.code for page in found]
        if not word.startswith("oom"):
            known += [*(page.name for page in found), *options.names(), *words]
        hint = closest(word, known) or "`oomctl explain` lists the classes; a verdict's own words are known too"
        raise OomctlError(f"no class, engine or word of a verdict {code!r}", hint, ExitCode.USAGE)
    for axis, meaning in words[word].items():
        sys.stdout.write(fill(f"{word} ({axis}): {meaning}", 100, subsequent_indent="  ") + "\n")


def glossary() -> dict[str, dict[str, str]]:
    """What each word means, by where a verdict prints it."""
    import tomllib
    from importlib.resources import files

    text = (files("oomctl.analyzers") / "triage" / "glossary.toml").read_text(encoding="utf-8")
    words: dict[str, dict[str, str]] = {}
    for axis, entries in tomllib.loads(text).items():
        for word, meaning in entries.items():
            words.setdefault(word, {})[axis] = meaning
    return words


def pages() -> list[Page]:
    """All pages, in order of their codes."""
    from importlib.resources import files

    folder = files("oomctl.analyzers") / "triage"
    entries = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".md"))
    return sorted((_page((folder / name).read_text(encoding="utf-8")) for name in entries), key=lambda p: p.code)


def _page(text: str) -> Page:
    title = text.split("\n", 1)[0].lstrip("# ")
    head, _, summary = title.partition(":")
    code, _, name = head.partition(" ")
    return Page(code, name.strip(), summary.strip(), text)
