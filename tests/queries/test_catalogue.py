"""The page of the named queries follows from their headers, and the headers tell what a reader has to know."""

import os
import re

import pytest

from oomctl import queries
from tests.queries.catalogue import PAGE, page
from tests.queries.fixtures import answer

UNITS = re.compile(
    r".*_(bytes|tokens|blocks|requests|us|ms|s|ratio|ts|id|line|seq|points|retries|reports|readings|rows|ooms|kills|positions|"
    r"number|delta|rank|value|weight)"
)
"""How a column of numbers ends that says what it counts."""
COUNTS = re.compile(
    r"bytes|gib|mib|tokens|blocks|requests|running|waiting|seq|line|rank|ranks|count|times|lost|events|died|survived|lives|"
    r"workers|holes|hits|points|pools|segments|readings|reports|retries|loads|preempted|slots|pid|phases|values_of_key|"
    r"tenants_of_prefix|row_count|grew|was_ready|served|killed|draining|from_inside|worst"
)
"""Columns of numbers that are counts by their name, or say what they count in their meaning."""


def test_the_page_is_that_of_the_headers() -> None:
    found = page()
    if os.environ.get("OOMCTL_GOLDEN") == "write":
        PAGE.write_text(found, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == found


def test_there_are_thirty_and_more() -> None:
    assert len(queries.names("postmortem")) >= 30


@pytest.mark.parametrize("name", queries.names("postmortem"))
def test_every_number_has_a_unit(name: str) -> None:
    columns, rows = answer("postmortem", name)
    for index, column in enumerate(columns):
        values = {type(row[index]) for row in rows} - {type(None)}
        if values & {int, float} and not values & {str}:
            assert UNITS.fullmatch(column) or COUNTS.fullmatch(column), f"{column}: what does it count?"


@pytest.mark.parametrize("name", queries.names("postmortem"))
def test_a_title_is_one_line_and_columns_are_in_words(name: str) -> None:
    query = queries.load("postmortem", name)
    assert len(query.title) <= 160 and not query.title.endswith((".", "?"))
    assert all(
        re.match(r"\S", meaning) and (not meaning.endswith(".") or meaning.endswith("...")) for _, meaning in query.columns
    )
    assert all(column == column.lower() for column, _ in query.columns)
