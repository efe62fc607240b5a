"""A stated confidence is kept: the fast form of `make accuracy`, one seed."""

import pytest

from benchmarks.accuracy import Outcome, outcomes, reliability

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def found() -> list[Outcome]:
    return list(outcomes(seeds=1, ranks=(1, 2)))


def test_what_is_said_with_confidence_0_9_is_right_nine_times_in_ten(found: list[Outcome]) -> None:
    table = {band: (verdicts, right) for band, verdicts, right in reliability(found)}
    verdicts, right = table["0.9 to 1.0"]
    assert verdicts >= 20, "too few to tell"
    assert right >= 0.9 * verdicts


def test_nothing_wrong_is_said_with_confidence_0_8(found: list[Outcome]) -> None:
    wrong = [item for item in found if not item.right and (item.confidence or 0) >= 0.8]
    assert wrong == []


def test_no_incident_is_made_up_and_few_are_missed(found: list[Outcome]) -> None:
    assert [item.name for item in found if not item.right and item.name.split()[1].startswith("healthy")] == []
    assert sum(item.right for item in found) >= 0.9 * len(found)
