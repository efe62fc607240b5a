"""What gives way first: by the times at which it does, whatever comes of it later."""

from dataclasses import replace

import pytest

from oomctl.analyzers.capacity.experiment.breaks import Floors, below_floor, first_break, late_s, too_many_errors
from oomctl.analyzers.capacity.experiment.observed import Answer, Look
from oomctl.schemas.replay import Slo

SLO = Slo(ttft_s=1.0, tpot_s=0.1)
FLOORS = Floors(blocks_ratio=0.1, memory_ratio=0.05, error_ratio=0.2)
GOOD = Answer(0.0, 0.0, 0.5, 1.0, "finished", 10, 11)
LATE = Answer(2.0, 2.0, 4.0, 5.0, "finished", 10, 11)
"""Its first token was due at 3.0."""
CALM = Look(s=0.5, total_blocks=100, free_blocks=60, preempted=0)


def broke(answers: list[Answer], looks: list[Look], share: float = 0.9) -> tuple[str, float] | None:
    found = first_break(answers, looks, SLO, share, FLOORS, len(answers))
    return None if found is None else (found.what, found.s)


def test_what_came_first_counts_although_the_other_follows() -> None:
    full = replace(CALM, s=2.5, free_blocks=9)
    assert broke([LATE] * 4, [CALM, full]) == ("kv_blocks", 2.5)
    assert broke([LATE] * 4, [CALM, replace(full, s=3.5)]) == ("slo", 3.0)
    assert broke([LATE] * 4, [CALM]) == ("slo", 3.0)
    assert broke([GOOD] * 4, [CALM, full]) == ("kv_blocks", 2.5)
    assert broke([GOOD] * 4, [CALM]) is None


def test_the_floor_itself_is_kept() -> None:
    assert below_floor(replace(CALM, free_blocks=10), FLOORS) is None
    assert below_floor(replace(CALM, free_blocks=9), FLOORS) is not None
    assert below_floor(Look(s=0.0), FLOORS) is None


def test_a_preemption_is_memory_although_the_floor_was_never_seen() -> None:
    assert broke([GOOD], [CALM, replace(CALM, s=1.5, preempted=1)]) == ("kv_blocks", 1.5)
    assert broke([GOOD], [replace(CALM, preempted=7), replace(CALM, s=1.5, preempted=7)]) is None


def test_the_device_counts_before_the_host_where_there_is_one() -> None:
    host = Look(s=1.0, host_total_bytes=1000, host_free_bytes=10)
    assert below_floor(host, FLOORS) is not None
    assert below_floor(replace(host, device_total_bytes=1000, device_free_bytes=500), FLOORS) is None
    found = below_floor(replace(host, device_total_bytes=1000, device_free_bytes=10), FLOORS)
    assert found is not None
    assert found.what == "device"


@pytest.mark.parametrize(("late", "expected"), [(1, None), (2, ("slo", 3.0))])
def test_as_many_may_be_late_as_the_share_allows(late: int, expected: tuple[str, float] | None) -> None:
    assert broke([GOOD] * (10 - late) + [LATE] * late, []) == expected


def test_a_slow_answer_is_known_at_its_end_and_one_without_a_token_when_that_was_due() -> None:
    slow = Answer(0.0, 0.0, 0.5, 9.0, "finished", 10, 11)
    assert (late_s(slow, SLO), late_s(GOOD, SLO)) == (9.0, None)
    silent = Answer(2.0, 2.0, None, 8.0, "stopped", 10, 0)
    assert (late_s(silent, SLO), late_s(replace(silent, ended_s=2.5), SLO)) == (3.0, None)
    assert late_s(replace(GOOD, state="cancelled", first_s=None, ended_s=0.2), SLO) is None


def test_a_few_failures_are_no_break_and_many_are() -> None:
    assert too_many_errors(100, 20, 1.0, FLOORS) is None
    assert too_many_errors(100, 21, 1.0, FLOORS) is not None
    assert too_many_errors(4, 4, 1.0, FLOORS) is None
    failed = replace(GOOD, state="failed", first_s=None, ended_s=0.1, error="status 500")
    assert broke([GOOD] * 6 + [failed], []) == ("errors", 0.1)
    assert broke([LATE] * 6 + [failed], [], share=0.9) == ("slo", 0.1)
    assert broke([GOOD] * 10 + [failed] * 6, [], share=0.1) == ("errors", 0.1)


def test_the_slo_says_which_term_was_missed_and_whether_the_client_may_be_why() -> None:
    found = first_break([LATE] * 4, [], SLO, 0.9, FLOORS, 4)
    assert found is not None
    assert (found.term, "client" in found.reason) == ("ttft", False)
    slow = Answer(0.0, 0.0, 0.5, 9.0, "finished", 10, 11)
    found = first_break([slow] * 4, [], SLO, 0.9, FLOORS, 4)
    assert found is not None
    assert found.term == "tpot"
    # Sent 1.9 s late, and answered within 0.1 s.
    found = first_break([replace(LATE, sent_s=3.9)] * 4, [], SLO, 0.9, FLOORS, 4)
    assert found is not None
    assert "the client sent up to 1.9 s late" in found.reason
