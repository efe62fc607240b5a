"""Pages of HTML: their tags, and what a real browser, without a window, makes of them and complains of."""

import os
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

BROWSER = next((found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None)
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium")


def opened(page: Path, *options: str, profile: Path) -> tuple[str, str]:
    """(the document as it stands when all is drawn, the browser's log with the page's console in it)."""
    return _run(page, "--enable-logging=stderr", "--log-level=0", *options, "--dump-dom", profile=profile)


def pictured(page: Path, picture: Path, *options: str, profile: Path) -> None:
    """Save what is to be seen of it as PNG."""
    _run(page, *options, f"--screenshot={picture}", profile=profile)


def _run(page: Path, *options: str, profile: Path) -> tuple[str, str]:
    assert BROWSER is not None
    done = subprocess.run(
        [
            BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=30000",
            f"--user-data-dir={profile}", "--window-size=1200,900", *options, page.as_uri(),
        ],
        capture_output=True, text=True, check=False, timeout=240, env=os.environ | {"LANG": "C.UTF-8"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout, done.stderr


class Document(HTMLParser):
    """The tags of a page, with their attributes, and its text."""

    def __init__(self, written: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(written)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep it."""
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        """Keep it."""
        self.text += data

    def ids(self) -> set[str]:
        """Of all elements."""
        return {value for _, attributes in self.tags if (value := attributes.get("id"))}

    def count(self, tag: str, kind: str) -> int:
        """How many elements of a class there are."""
        return sum(1 for name, attributes in self.tags if name == tag and attributes.get("class") == kind)
