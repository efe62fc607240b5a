"""The labelled logs of the engine families keep their word: deterministic, varied, with figures that add up."""

import re
from collections import Counter

import pytest

from oomctl.schemas.kinds_failure import RESOURCES
from oomctl.schemas.verdict import CODES
from tests.scenarios import families
from tests.scenarios.families.dialect import Fixture
from tests.scenarios.families.stories import STORIES

FIXTURES = families.fixtures()
FAMILIES = sorted({fixture.family for fixture in FIXTURES})
UNITS = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def test_names_are_unique_and_every_story_is_told() -> None:
    names = Counter(fixture.name for fixture in FIXTURES)
    assert [name for name, count in names.items() if count > 1] == []
    assert {fixture.story for fixture in FIXTURES} == set(STORIES)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("oom_class", CODES)
def test_a_family_shows_each_class_in_four_shapes_or_says_why_not(family: str, oom_class: str) -> None:
    shapes = [each for each in FIXTURES if each.family == family and families.label_of(each)["oom_class"] == oom_class]
    if (family, oom_class) in families.CANNOT:
        assert shapes == []
    else:
        assert len(shapes) >= 4
        assert len({(each.dialect.name, each.failure, each.ranks) for each in shapes}) == len(shapes)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_has_logs_without_an_incident_and_logs_that_only_look_like_one(family: str) -> None:
    verdicts = [families.label_of(each)["verdict"] for each in FIXTURES if each.family == family]
    assert None in verdicts
    assert {"not_oom", "capacity_gate"} & set(verdicts)


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda each: each.name)
def test_a_log_is_deterministic_and_its_label_uses_the_declared_words(fixture: Fixture) -> None:
    label = families.label_of(fixture)
    assert label["verdict"] in {"oom", "capacity_gate", "not_oom", None}
    assert label["oom_class"] in {*CODES, None}
    assert label["resource"] in {*RESOURCES, None}
    text = families.render(fixture, 3)
    assert text == families.render(fixture, 3)
    assert text != families.render(fixture, 4)
    assert text.endswith("\n")
    assert "{" not in re.sub(r"[{][\"'\w%]|[{]\s|[{]$|: [{]", "", text), "a template that was not filled"


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda each: each.name)
def test_figures_of_a_torch_message_add_up(fixture: Fixture) -> None:
    for message in (line for line in families.render(fixture, 2).split("\n") if "this process has" in line):
        sizes = re.findall(r"([\d.]+) (bytes|KiB|MiB|GiB)", message.partition("Tried to allocate")[2])
        requested, total, free, *held = [float(number) * UNITS[unit] for number, unit in sizes]
        users = len(re.findall(r"[Pp]rocess(?: \d+)? has", message))
        assert free < requested
        assert abs(total - free - sum(held[:users])) < 0.02 * 2**30 * (users + 1)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_has_logs_of_several_ranks(family: str) -> None:
    ranks = max(each.ranks for each in FIXTURES if each.family == family)
    assert ranks > 1 or family == "llama_cpp", "one process of llama.cpp holds all devices"
