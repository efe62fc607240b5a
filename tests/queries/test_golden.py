"""Each query file alone, on its fixture, against its golden CSV (OOMCTL_GOLDEN=write rewrites them)."""

import os
from pathlib import Path

import pytest

from oomctl import queries
from oomctl.cli.render.rows import plain, rows_csv
from tests.queries.fixtures import FIXTURES, answer

GOLDEN = Path(__file__).parent / "golden"
FOLDERS: tuple[queries.Folder, ...] = ("views", "evidence", "postmortem", "capacity")
ALL = [(folder, name) for folder in FOLDERS for name in queries.names(folder)]


def as_csv(folder: queries.Folder, name: str, backwards: bool = False) -> str:
    columns, rows = answer(folder, name, backwards)
    return "".join(rows_csv(columns, [[plain(value) for value in row] for row in rows]))


def golden(folder: queries.Folder, name: str) -> Path:
    """Evidence has the plain name; a view or postmortem query of the same name has its folder's before it."""
    return GOLDEN / (f"{name}.csv" if folder == "evidence" else f"{folder}_{name}.csv")


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_query_has_a_fixture(folder: queries.Folder) -> None:
    assert tuple(sorted(FIXTURES[folder])) == queries.names(folder)


@pytest.mark.parametrize(("folder", "name"), ALL)
def test_rows_are_those_of_the_golden_file(folder: queries.Folder, name: str) -> None:
    found = as_csv(folder, name)
    path = golden(folder, name)
    if os.environ.get("OOMCTL_GOLDEN") == "write":
        path.write_bytes(found.encode())
    assert found == path.read_bytes().decode()
    assert found.count("\n") > 1, "a fixture that gives no row shows nothing"


@pytest.mark.parametrize(("folder", "name"), ALL)
def test_order_of_insertion_changes_nothing(folder: queries.Folder, name: str) -> None:
    assert as_csv(folder, name, backwards=True) == as_csv(folder, name)


def test_no_golden_file_without_a_query() -> None:
    assert {path.name for path in GOLDEN.glob("*.csv")} == {golden(folder, name).name for folder, name in ALL}


def test_only_the_dumped_requests_after_the_failure() -> None:
    columns, rows = answer("evidence", "requests")
    chosen = [dict(zip(columns, row, strict=True)) for row in rows]
    assert [row["request_id"] for row in chosen] == ["r1", "r0", "r2"]
