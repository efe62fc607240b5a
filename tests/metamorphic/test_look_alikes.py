"""Swapping in the deciding lines of a look-alike flips the verdict to the look-alike's."""

import pytest

from benchmarks.accuracy import judge
from tests.metamorphic.verdicts import essence
from tests.scenarios import Scenario, catalogue, render_log
from tests.triage.logs import triaged

BY_NAME = {scenario.name: scenario for scenario in catalogue()}
PAIRS = [
    (scenario, BY_NAME[scenario.look_alike])
    for scenario in catalogue()
    if scenario.look_alike is not None and set(scenario.engines) & set(BY_NAME[scenario.look_alike].engines)
]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair[0].name} / {pair[1].name}")
def test_the_deciding_lines_decide(pair: tuple[Scenario, Scenario]) -> None:
    one, other = pair
    engine = next(engine for engine in one.engines if engine in other.engines)
    found = []
    for scenario in pair:
        verdicts = triaged(render_log(scenario.name, seed=7, ranks=1, engine=engine))
        outcome = judge(scenario.name, scenario.label, verdicts)
        assert outcome.right, outcome.said
        found.append(essence(verdicts[0] if verdicts else None))
    if one.label != other.label:
        assert found[0] != found[1]
