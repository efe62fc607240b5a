"""A verdict stays through every change that leaves the story, and falls with the lines that it cites."""

import json

import pytest

from tests.metamorphic.changes import CHANGES
from tests.metamorphic.verdicts import cited_lines, essence, root, without
from tests.scenarios import catalogue, families, render_log
from tests.scenarios.families.dialect import Fixture
from tests.shared import SHARED, shared

SCENARIOS = [scenario.name for scenario in catalogue()]
ENGINES = ("vllm", "sglang", "transformers")


def _one_of_each() -> list[Fixture]:
    """One labelled log of each engine family and class, a different dialect from class to class."""
    groups: dict[tuple[str, str], list[Fixture]] = {}
    for fixture in families.fixtures():
        label = families.label_of(fixture)
        groups.setdefault((fixture.family, str(label["oom_class"] or label["verdict"])), []).append(fixture)
    return [group[n % len(group)] for n, group in enumerate(groups.values())]


FIXTURES = [pytest.param(each, n, id=each.name) for n, each in enumerate(_one_of_each())]
THIRD = 3
"""Each log of ours goes through every third change, so that those of a class together see all; the shared logs see each."""


def _shared_names() -> list[str]:
    labels = SHARED / "data" / "oom_logs" / "labels.jsonl"
    if not labels.exists():
        return ["none"]
    rows = [json.loads(line) for line in labels.open(encoding="utf-8")]
    return [row["id"] for row in rows if row["engine"].replace("+", " ").split()[0] in ENGINES]


def _changed(text: str, names: list[str] | None = None) -> dict[str, str]:
    """The changes that changed the verdict, of all or of some."""
    before = essence(root(text))
    after = {name: essence(root(CHANGES[name](text))) for name in names or CHANGES}
    return {name: f"{before} -> {found}" for name, found in after.items() if found != before}


def _falls(text: str) -> None:
    """Without its cited lines a verdict is gone, the same and less sure, or what it named as an alternative."""
    first = root(text)
    if first is None:
        return
    second = root(without(text, cited_lines(first)))
    if second is None or second.oom_class is None:
        return
    assert second.oom_class in {first.oom_class, *(other.oom_class for other in first.alternatives)}
    assert second.oom_class != first.oom_class or second.confidence < first.confidence


@pytest.mark.parametrize(("name", "n"), [pytest.param(name, n, id=name) for n, name in enumerate(SCENARIOS)])
def test_a_scenario_keeps_its_verdict(name: str, n: int) -> None:
    assert _changed(render_log(name, seed=5, ranks=2), list(CHANGES)[n % THIRD :: THIRD]) == {}


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_scenario_falls_with_its_evidence(name: str, seed: int) -> None:
    _falls(render_log(name, seed=seed, ranks=seed))


@pytest.mark.parametrize(("fixture", "n"), FIXTURES)
def test_a_log_of_a_family_keeps_its_verdict(fixture: Fixture, n: int) -> None:
    assert _changed(families.render(fixture, 5), list(CHANGES)[n % THIRD :: THIRD]) == {}


@pytest.mark.parametrize("fixture", _one_of_each(), ids=lambda each: each.name)
def test_a_log_of_a_family_falls_with_its_evidence(fixture: Fixture) -> None:
    _falls(families.render(fixture, 1))


@pytest.mark.parametrize("name", _shared_names())
def test_a_shared_log_keeps_its_verdict(name: str) -> None:
    text = shared("data", "oom_logs", "logs", f"{name}.log").read_text(encoding="utf-8", errors="replace")
    assert _changed(text) == {}


@pytest.mark.parametrize("name", _shared_names())
def test_a_shared_log_falls_with_its_evidence(name: str) -> None:
    _falls(shared("data", "oom_logs", "logs", f"{name}.log").read_text(encoding="utf-8", errors="replace"))


def test_the_changes_change_something() -> None:
    """A change that does nothing to a log would pass every test above."""
    text = render_log("warm_up_capture", seed=5, ranks=2)
    assert [name for name, change in CHANGES.items() if change(text) == text] == []
