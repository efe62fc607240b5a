"""The words that `oomctl export --redact` takes for public: how src/oomctl/redaction/public_words.txt is made.

    python -m tests.public_words SITE_PACKAGES

Words of at least three letters that stand in twelve source files or more of vLLM, PyTorch and Transformers, as installed in
SITE_PACKAGES, and every word of our own readers and rules. Names in their examples are left out.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from textwrap import wrap

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "src" / "oomctl" / "redaction" / "public_words.txt"
PACKAGES = ("vllm", "torch", "transformers")
OURS = ("collectors", "analyzers", "queries", "schemas")
MIN_FILES = 12
NOBODY = frozenset(
    {
        "alice", "ben", "bob", "charlie", "dan", "david", "eric", "george", "james", "jane", "jason", "jeff", "jim", "joe",
        "john", "jon", "julia", "justin", "kevin", "lily", "lisa", "luke", "maria", "mary", "matt", "michael", "mike",
        "nick", "paul", "peter", "phil", "rob", "ryan", "sarah", "simon", "smith", "steve", "tim", "tom", "acme", "otter",
        "prod",
    }
)  # fmt: skip
"""Names that stand in examples of public sources, and of ours."""
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def words(text: str) -> set[str]:
    """The words of a text, identifiers taken apart."""
    return {word.lower() for word in _WORD.findall(text) if len(word) > 2}


def ours() -> set[str]:
    """The words of our own rules: what triage decides by must be told from a name."""
    paths = (path for folder in OURS for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".sql", ".toml"))
    return {word for path in paths for word in words(path.read_text(encoding="utf-8"))} - NOBODY


def common(site_packages: Path) -> set[str]:
    """The words that many files of the public packages hold."""
    counts: Counter[str] = Counter()
    for package in PACKAGES:
        for path in (site_packages / package).rglob("*.py"):
            counts.update(words(path.read_text(encoding="utf-8", errors="replace")))
    return {word for word, count in counts.items() if count >= MIN_FILES} - NOBODY


def main(arguments: Iterable[str]) -> None:
    """Write the list anew."""
    (site_packages,) = arguments
    found = sorted(ours() | common(Path(site_packages)))
    TARGET.write_text("\n".join(wrap(" ".join(found), 124)) + "\n", encoding="utf-8")
    sys.stdout.write(f"{len(found)} words\n")


if __name__ == "__main__":
    main(sys.argv[1:])
