"""The rules of the house that no linter knows."""

import re
import tomllib
from pathlib import Path

import pytest

from oomctl.schemas.verdict import CODES
from tests import sql_headers, working_tree

ROOT = working_tree.ROOT
TRIAGE = ROOT / "analyzers" / "triage"
HEADINGS = (
    "What happens",
    "How to recognise it",
    "What it is confused with",
    "What to do now",
    "What to change",
    "Arithmetic",
    "References",
)
MAX_MODULE_LINES = 400
# Written in two parts, or this file would find itself.
MACHINE_PATHS = tuple(b"/" + rest for rest in (b"work/", b"opt/pypi", b"opt/wheels"))
SQL_FILES = sorted((ROOT / "queries").rglob("*.sql"))


@pytest.mark.parametrize("path", SQL_FILES, ids=lambda path: path.stem)
def test_query_header(path: Path) -> None:
    assert list(sql_headers.problems(path)) == []


def test_query_header_problems_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_headers, "ROOM", tmp_path / "queries")
    folder = tmp_path / "queries" / "evidence"
    folder.mkdir(parents=True)
    path = folder / "bad.sql"
    path.write_text("-- Which?\n-- params: a\n-- column seq: row\nSELECT seq FROM oom WHERE stream = $b\n")
    assert list(sql_headers.problems(path)) == [
        "queries/evidence/bad.sql: its header names the parameters ['a'], its SQL uses ['b']"
    ]
    path.write_text("-- Which?\n-- column stream: file\n-- column seq: row\nSELECT seq FROM oom\n")
    assert list(sql_headers.problems(path)) == [
        "queries/evidence/bad.sql: its header explains the columns ['stream', 'seq'], it returns ['seq']"
    ]
    path.write_text("-- Which?\n-- column line: line\nSELECT line FROM oom\n")
    assert list(sql_headers.problems(path)) == [
        "queries/evidence/bad.sql: an evidence query returns stream and seq, so that its rows can be cited"
    ]
    path.write_text("SELECT 1\n")
    assert list(sql_headers.problems(path)) == ["queries/evidence/bad.sql: bad: no title in its first line"]


def test_each_import_contract_says_why() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    contracts = tomllib.loads(text)["tool"]["importlinter"]["contracts"]
    assert [contract["name"] for contract in contracts] == [
        "schemas knows nobody",
        "collectors know schemas only",
        "analyzers know schemas and queries only",
        "queries know nobody",
    ]
    assert len(re.findall(r"^\[\[tool\.importlinter\.contracts\]\]\n# \S", text, re.MULTILINE)) == len(contracts)


@pytest.mark.parametrize(("name", "code"), CODES.items())
def test_explain_page(name: str, code: str) -> None:
    lines = (TRIAGE / f"{name}.md").read_text(encoding="utf-8").splitlines()
    assert re.fullmatch(rf"# {code} {name}: \S.{{10,100}}", lines[0])
    assert tuple(line.removeprefix("## ") for line in lines if line.startswith("## ")) == HEADINGS
    assert 50 <= len(lines) <= 90
    assert max(map(len, lines)) <= 130


def test_no_explain_page_without_a_class() -> None:
    assert {path.stem for path in TRIAGE.glob("*.md")} == set(CODES)


def test_no_machine_path() -> None:
    hits = [
        f"{path}: {needle.decode()}"
        for path in working_tree.paths()
        if (ROOT / path).is_file()
        for needle in MACHINE_PATHS
        if needle in (ROOT / path).read_bytes()
    ]
    assert hits == []


def test_modules_stay_small() -> None:
    long = {
        str(path): count
        for path in working_tree.paths()
        if path.suffix == ".py" and (ROOT / path).is_file()
        if (count := len((ROOT / path).read_text(encoding="utf-8").splitlines())) > MAX_MODULE_LINES
    }
    assert long == {}


def test_each_decision_has_its_parts() -> None:
    records = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    assert [record.name[:4] for record in records] == [f"{n:04}" for n in range(1, len(records) + 1)]
    for record in records:
        text = record.read_text(encoding="utf-8")
        assert re.match(rf"# {record.name[:4]}: \S", text), record.name
        assert re.findall(r"^## (.*)$", text, re.MULTILINE) == ["Context", "Decision", "Consequences"], record.name


def test_make_help_lists_what_the_readme_names() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    documented = set(re.findall(r"^([a-z-]+):.*## ", makefile, re.MULTILINE))
    for page in ("README.md", "CONTRIBUTING.md"):
        named = set(re.findall(r"`make ([a-z-]+)`", (ROOT / page).read_text(encoding="utf-8")))
        assert named - documented - {"help"} == set(), page


def test_readme_is_one_screen_or_two() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) < 135
