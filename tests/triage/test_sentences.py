"""No sentence of a verdict lacks a figure, whatever was not observed."""

import io
import random
import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import pytest

from oomctl.analyzers.triage import triage
from oomctl.analyzers.triage.sentences import keep_whole
from oomctl.analyzers.triage.words import UNKNOWN, count, percent, size
from oomctl.collectors.artifacts.logs import read_log
from oomctl.schemas import storage
from oomctl.schemas.rows import Row
from oomctl.schemas.verdict import Citation, Incident, Remedy
from tests.scenarios import catalogue, families, render_log
from tests.scenarios.families.dialect import Fixture
from tests.triage import tables
from tests.triage.tables import RETRACTION, SERVING, Table

LACKS = re.compile(rf"\bNone\b|\bnan\b|\binf\b|{UNKNOWN}")
BLANKED = 0.4
"""Share of the figures that are taken away."""


def sentences(value: Any) -> Iterator[str]:
    """Every text of a verdict but what is quoted."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, msgspec.Struct) and not isinstance(value, Citation):
        for name in value.__struct_fields__:
            yield from sentences(getattr(value, name))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from sentences(item)


def without_figures(rows: Iterable[Row], seed: int) -> list[Row]:
    """The rows, some of their figures not observed."""
    chance = random.Random(seed)
    found = []
    for row in rows:
        fields = {
            name: None
            if isinstance(value, int | float) and not isinstance(value, bool) and chance.random() < BLANKED
            else value
            for name, value in row[row["kind"]].items()
        }
        found.append({**row, row["kind"]: fields} if row["kind"] not in ("log", "stack") else row)
    return found


def lacking(text: str, seed: int) -> list[str]:
    """What triage says of a log without a figure, though some were taken away."""
    rows = list(read_log(io.BytesIO(text.encode()), "log").rows)
    with storage.connect() as connection:
        storage.load_rows(connection, without_figures(rows, seed))
        return [says for says in sentences(triage(connection)) if LACKS.search(says)]


@pytest.mark.parametrize("name", [scenario.name for scenario in catalogue()])
@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_scenario_with_holes_in_its_figures(name: str, engine: str) -> None:
    text = render_log(name, seed=5, ranks=1, engine=engine)
    assert [found for seed in range(2) for found in lacking(text, seed)] == []


@pytest.mark.slow
@pytest.mark.parametrize("fixture", families.fixtures(), ids=lambda fixture: fixture.name)
def test_a_familys_log_with_holes_in_its_figures(fixture: Fixture) -> None:
    assert lacking(families.render(fixture, 1), 7) == []


def test_a_figure_that_was_not_observed_is_known_by_its_words() -> None:
    assert {size(None), count(None), percent(None)} == {UNKNOWN}


def test_what_lacks_a_figure_is_left_out_wherever_it_stands() -> None:
    found = Table(*SERVING).add("oom", **RETRACTION).report(0.97, 9).root()
    kept = len(found.evidence)
    lacks = found.evidence[0].says + f", {size(None)}"
    found.evidence.append(msgspec.structs.replace(found.evidence[0], says=lacks))
    found.remedies.append(Remedy(when="change", action=f"Give back {size(None)}."))
    found.causes[0] = msgspec.structs.replace(found.causes[0], detail=lacks)
    keep_whole(found)
    assert len(found.evidence) == kept
    assert not any(UNKNOWN in says for says in sentences(found))
    assert found.causes[0].detail == ""


def pressure(**more: Any) -> Incident:
    table = Table(*SERVING).report(0.99, 12, 5)
    for row in table.rows:
        if row["kind"] == "throughput":
            row["throughput"] = {**row["throughput"], **more}
    return table.add("oom", **RETRACTION).root()


def test_the_first_report_has_none_before_it_to_compare_with() -> None:
    says = [item.says for item in pressure(swapped_requests=9).evidence]
    assert "with the pool 99.0% full, 9 requests lay swapped out" in says
    assert not any("fell from" in item for item in says)


def test_a_later_report_is_compared() -> None:
    table = Table(*SERVING).report(0.97, 20, 0).report(0.99, 18, 2).report(0.99, 16, 4)
    says = [item.says for item in table.root().evidence]
    assert "with the pool 99.0% full, running requests fell from 20 to 18 while the queue grew from 0 to 2" in says
    assert tables.causes(table.root()) == ["preemption_storm"]
