"""What the pages of oomctl have in common: one file each, in one style, which nothing is loaded into from anywhere."""

from importlib.resources import files

from oomctl.cli.render.heap_svg import text

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""What a page without scripts needs."""


def asset(name: str) -> str:
    """A file that lies beside this one."""
    return (files("oomctl.report") / name).read_text(encoding="utf-8")


def head(title: str, policy: str = POLICY) -> list[str]:
    """The lines of a page up to its body's beginning.

    Args:
        title: As text.
        policy: Its Content-Security-Policy.
    """
    return [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        f"<title>{text(title)}</title><style>{asset('page.css')}</style></head><body>",
    ]


def table(heads: str, rows: str) -> str:
    """A table that scrolls by itself where it is too wide.

    Args:
        heads: Cells, as HTML.
        rows: Rows, as HTML.
    """
    return f'<div class="wide"><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'
