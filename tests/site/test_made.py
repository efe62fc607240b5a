"""The site's pages: those that are made are up to date, all are reachable, and their links lead somewhere."""

import re
from pathlib import Path

import yaml

from tests.site.made import DOCS, made
from tests.working_tree import ROOT

LINK = re.compile(r"\]\((?!https?:)([^)#]*)(?:#[^)]*)?\)")


def test_the_made_pages_are_up_to_date() -> None:
    stale = [
        str(path.relative_to(ROOT))
        for path, text in made().items()
        if not path.is_file() or path.read_text(encoding="utf-8") != text
    ]
    assert stale == [], "python -m tests.site.made writes them"
    assert set((DOCS / "commands").glob("*.md")) <= set(made())


def test_every_page_is_in_the_navigation() -> None:
    named = set(_leaves(yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]))
    pages = {path.relative_to(DOCS).as_posix() for path in (*DOCS.glob("*.md"), *(DOCS / "commands").glob("*.md"))}
    assert named == pages


def test_links_lead_somewhere() -> None:
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in (*DOCS.glob("*.md"), *(DOCS / "commands").glob("*.md"))
        for target in LINK.findall(page.read_text(encoding="utf-8"))
        if target and not (page.parent / target).exists()
    ]
    assert broken == []


def test_the_pages_of_explain_are_those_of_the_command() -> None:
    shown = {path.resolve() for folder in ("classes", "causes", "questions") for path in (DOCS / folder).glob("*.md")}
    assert shown == set((ROOT / "analyzers" / "triage").rglob("*.md"))


def _leaves(entries: list[object]) -> list[str]:
    values = [value for entry in entries for value in (entry.values() if isinstance(entry, dict) else [entry])]
    return [leaf for value in values for leaf in (_leaves(value) if isinstance(value, list) else [str(value)])]


def test_each_cost_stands_on_the_page_that_measured_it() -> None:
    rows = re.findall(r"^\| [^|]* \| ([^|]*\d[^|]*) \| \[\w+\]\((\w+\.md)\) \|$", _page("production.md"), re.MULTILINE)
    assert len(rows) >= 6
    for told, source in rows:
        for figure in re.findall(r"\d+(?:\.\d+)? ?(?:%|MB|MiB|GB)|0\.\d+", told):
            assert figure in _page(source), f"{figure}: not in {source}"


def _page(name: str) -> str:
    return Path(DOCS / name).read_text(encoding="utf-8")
