"""The pages of causes and questions: short, of one form, and true where a machine can tell."""

import doctest
import re
from pathlib import Path

import pytest

from oomctl import queries
from oomctl.analyzers.triage.remedies import engine_files
from oomctl.cli import pages
from oomctl.schemas.verdict import CODES
from tests.working_tree import ROOT

FOLDER = ROOT / "analyzers" / "triage" / "explain"
CAUSES = sorted((FOLDER / "causes").glob("*.md"))
QUESTIONS = sorted((FOLDER / "questions").glob("*.md"))
PARTS = {
    "causes": ["Looks like", "Why", "Told from", "Helps", "Does not help", "Signals", "Per engine"],
    "questions": ["Often said", "What is so", "How to see it"],
}
OTHER_PROGRAMS = {"--shm-size", "--object-store-memory", "--query-compute-apps", "--format"}
"""Options of docker, ray and nvidia-smi."""
OURS = {"--device", "--request", "--limit", "--at", "--engine-args", "--ledger", "--tp"}
FUNCTIONS = {"record_stream", "load_weights"}
FIGURE = re.compile(
    r"(?<![\w.])(\d[\d,]*(?:\.\d+)?)(?= ?(?:[KMG]i?B\b|%|tokens|requests|layers|heads|ranks|billion)| \w+ heads)"
)


def each(paths: list[Path]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("path", paths, ids=lambda path: path.stem)


@each(CAUSES + QUESTIONS)
def test_a_page_has_its_parts_and_is_short(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    assert re.fullmatch(rf"# {path.stem}: \S.{{10,130}}", lines[0])
    assert re.findall(r"^\*\*(.*)\.\*\* \S", text, re.MULTILINE) == PARTS[path.parent.name]
    assert 15 <= len(lines) <= 40
    assert max(map(len, lines)) <= 130


@each(CAUSES)
def test_a_page_names_only_what_there_is(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    told_from = text.split("**Told from.**")[1].split("**Helps.**")[0]
    known = {page.name for page in pages.causes()} | {page.name for page in pages.classes()} | set(pages.glossary())
    assert set(re.findall(r"`([a-z]+(?:_[a-z]+)+)`", told_from)) - known - FUNCTIONS == set()
    flags = set(re.findall(r"(?<![\w-])--[a-z][\w-]*", text))
    assert flags - _flags() - OTHER_PROGRAMS - OURS == set()
    asked = set(re.findall(r"`oomctl query FILE (\w+)", text)) | set(re.findall(r"`oomctl query FILE[^`]*`, `(\w+)`", text))
    assert asked <= set(queries.names("postmortem"))


@each(QUESTIONS)
def test_figures_are_computed(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    failed, tried = doctest.testfile(str(path), module_relative=False, verbose=False)
    assert (failed, tried > 3) == (0, True)
    code = "\n".join(line for line in text.splitlines() if line.startswith("    "))
    prose = "\n".join(line for line in text.splitlines() if not line.startswith("    "))
    computed = {float(number) for number in re.findall(r"\d+(?:\.\d+)?(?:e\d+)?", code)}
    unknown = [figure for figure in FIGURE.findall(prose) if float(figure.replace(",", "")) not in computed]
    assert unknown == []


def test_the_number_of_classes_is_that_of_their_pages() -> None:
    assert [page.name for page in pages.classes()] == [name for name, _ in sorted(CODES.items(), key=lambda item: item[1])]


def _flags() -> set[str]:
    """Spellings of all engines' options."""
    engines = [engine for name in engine_files.names() if (engine := engine_files.load(name)) is not None]
    spelt = (form for engine in engines for option in engine.options for form in option.spellings if form.cli is not None)
    return {word for form in spelt for word in (form.cli or "").split() if word.startswith("--")}
