"""What `oomctl explain` says of a verdict's class and causes, folded into the page, so that it needs no other."""

from collections.abc import Iterator

from oomctl.cli.pages import Page, find
from oomctl.cli.render.heap_svg import text
from oomctl.schemas.verdict import Incident, Triage

SECTION = "explained"
DOWN = 2
"""Levels by which a page's headings go below the section's."""


def link(word: str, shown: str) -> str:
    """A word that is shown, leading to its page's fold where it has a page.

    Args:
        word: A class's code, or a cause.
        shown: As HTML.
    """
    page = find(word.lower())
    return shown if page is None else f'<a href="#{_anchor(page)}">{shown}</a>'


def folds(triage: Triage) -> str:
    """A fold for each class and cause of the incidents, in the order of the verdict."""
    pages = {page.name: page for incident in triage.incidents for page in _pages(incident)}
    return "".join(map(_fold, pages.values()))


def _pages(incident: Incident) -> Iterator[Page]:
    words = [incident.code, *(cause.cause for cause in incident.causes), *(other.code for other in incident.alternatives)]
    for word in words:
        page = find(word.lower()) if word else None
        if page is not None:
            yield page


def _fold(page: Page) -> str:
    # The anchor stands inside: a browser opens the fold around what a link leads to.
    name = f"{page.code} {page.name}".strip()
    where = f"docs/{'classes' if page.code else 'causes'}/{page.name}.md"
    return (
        f"<details><summary>{text(name)}: {text(page.summary)}</summary>"
        f'<div id="{_anchor(page)}" class="page">{_html(page)}'
        f"<p><small><code>oomctl explain {text(page.code or page.name)}</code> · {text(where)}</small></p></div></details>"
    )


def _html(page: Page) -> str:
    """The page without its title, which the fold has."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False})
    tokens = parser.parse(page.text.partition("\n")[2])
    for token in tokens:
        if token.tag in ("h1", "h2", "h3", "h4"):
            token.tag = f"h{int(token.tag[1]) + DOWN}"
    return str(parser.renderer.render(tokens, parser.options, {}))


def _anchor(page: Page) -> str:
    return f"explain-{page.code or page.name}"
