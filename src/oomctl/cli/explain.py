"""`oomctl explain`: the page of a class, which lies beside the module that decides it; or an engine's memory options."""

import sys
from dataclasses import dataclass
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
            metavar="CODE|ENGINE",
            help="OOM001 to OOM006, a class name, or an engine (vllm, sglang, ...); without it, all classes.",
        ),
    ] = None,
) -> None:
    """Print the page of a class or an engine's memory options, or list the classes."""
    found = pages()
    if code is None:
        for page in found:
            sys.stdout.write(f"{page.code}  {page.name:<{max(len(other.name) for other in found)}}  {page.summary}\n")
        return
    for page in found:
        if code.lower() in (page.code.lower(), page.name):
            sys.stdout.write(page.text.rstrip("\n") + "\n")
            return
    from oomctl.analyzers.triage.remedies import options
    from oomctl.cli.options import closest

    engine = options.load(code.lower())
    if engine is not None:
        from oomctl.cli.render.engine import page_of

        sys.stdout.write(page_of(engine))
        return
    known = [word for page in found for word in (page.code, page.name)] + list(options.names())
    raise OomctlError(f"no class {code!r}, and no engine of that name", closest(code, known), ExitCode.USAGE)


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
