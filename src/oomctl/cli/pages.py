"""What `oomctl explain` prints: pages of classes, causes and questions, which lie in analyzers/triage, and single words."""

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable


@dataclass(frozen=True)
class Page:
    """A page in Markdown. Its first line is `# NAME: summary`; a class has its code before the name."""

    code: str
    name: str
    summary: str
    text: str


def classes() -> list[Page]:
    """The six classes, in order of their codes: a page beside the module that decides it."""
    return sorted(_pages(), key=lambda page: page.code)


def causes() -> list[Page]:
    """What a verdict's chain of causes may name."""
    return _pages("explain", "causes")


def questions() -> list[Page]:
    """What people get wrong about the memory of inference."""
    return _pages("explain", "questions")


@cache
def find(word: str) -> Page | None:
    """The page of a code or name in lower case."""
    for folder in (classes, causes, questions):
        for page in folder():
            if word and word in (page.code.lower(), page.name):
                return page
    return None


def glossary() -> dict[str, dict[str, str]]:
    """What each other word means, by where a verdict prints it."""
    import tomllib

    text = (_room() / "glossary.toml").read_text(encoding="utf-8")
    words: dict[str, dict[str, str]] = {}
    for axis, entries in tomllib.loads(text).items():
        for word, meaning in entries.items():
            words.setdefault(word, {})[axis] = meaning
    return words


def _room() -> "Traversable":
    from importlib.resources import files

    return files("oomctl.analyzers") / "triage"


def _pages(*folders: str) -> list[Page]:
    entries = [entry for entry in _room().joinpath(*folders).iterdir() if entry.name.endswith(".md")]
    return sorted((_page(entry.read_text(encoding="utf-8")) for entry in entries), key=lambda page: page.name)


def _page(text: str) -> Page:
    title = text.split("\n", 1)[0].lstrip("# ")
    head, _, summary = title.partition(":")
    code, _, name = head.rpartition(" ")
    return Page(code, name, summary.strip(), text)
