"""A machine that others slow down is told from a load that asks too much."""

from typing import Any, ClassVar

import pytest

from oomctl.experiment.rig import NotPossible
from oomctl.experiment.steps.anchor import BASELINE, anchor, hold
from oomctl.schemas.experiment import Experiment, Step, Try
from oomctl.schemas.replay import Slo
from tests.experiment.test_artifact import step, tried


class Machine:
    """A rig whose worker keeps the mix up to a rate."""

    gone = False
    lengths: ClassVar = {"mixed": None}

    def __init__(self, keeps_per_s: float, *steps: Step) -> None:
        self.keeps_per_s = keeps_per_s
        self.experiment = Experiment(asked={}, slo=Slo(ttft_s=1.0, tpot_s=1.0), share=0.9, steps=list(steps))

    def rate_of(self, number: int) -> float:
        found = self.experiment.step(number)
        if found is None:
            raise NotPossible("none")
        return float(found.figures["rate_per_s"] or 0)

    def send(self, lengths: None, rate: float, name: str) -> Try:
        return self.answer(name, rate, self.keeps_per_s)

    def answer(self, name: str, rate: float, keeps_per_s: float) -> Try:
        return tried(rate, broke=None if rate <= keeps_per_s else "slo", reason="late", load=name)


RAMP = step(5, figures={"rate_per_s": 8.0})


def held(machine: Any, load_keeps_per_s: float, ahead: bool = False) -> Any:
    return hold(machine, 0.5, lambda rate: [machine.answer("load", rate, load_keeps_per_s)], ahead)


@pytest.mark.parametrize("ahead", [False, True])
def test_where_the_mix_alone_misses_too_the_rate_is_lowered_until_it_is_kept(ahead: bool) -> None:
    found = held(Machine(1.5, RAMP), 1.5, ahead)
    assert (found.broken(), found.anchor_per_s) == (None, 2.0)
    assert [one.rate_per_s for one in found.last] == [1.0]
    assert "slower than before: 2/s of the mix in place of 8/s" in found.said
    # Long loads are not sent where the mix does not go.
    asked = [BASELINE, BASELINE, BASELINE, "load"] if ahead else ["load", BASELINE, "load", BASELINE, "load"]
    assert [one.load for one in found.tries] == asked


def test_a_load_that_misses_what_the_mix_alone_keeps_has_failed() -> None:
    found = held(Machine(8.0, RAMP), 1.0)
    bad = found.broken()
    assert bad is not None
    assert (bad.status, found.anchor_per_s, found.said) == ("failed", 8.0, "")


def test_a_machine_that_keeps_nothing_is_told_as_slow() -> None:
    bad = held(Machine(0.0, RAMP), 0.0).broken()
    assert bad is not None
    assert bad.status == "failed"
    assert "late; the machine is slower than before: 1/s of the mix in place of 8/s" in bad.reason


def test_what_gave_way_for_memory_is_not_tried_again() -> None:
    machine: Any = Machine(0.0, RAMP)
    found = hold(machine, 0.5, lambda rate: [tried(rate, broke="kv_blocks", stopped_in_s=0.1)])
    bad = found.broken()
    assert bad is not None
    assert (bad.status, len(found.tries), found.anchor_per_s) == ("aborted", 1, 8.0)


def test_the_next_step_starts_where_the_last_one_ended() -> None:
    machine: Any = Machine(8.0, RAMP, step(6, figures={"anchor_per_s": 4.0}), step(7, figures={"pause_s": 1.0}))
    assert anchor(machine) == 4.0
    machine.experiment.steps = []
    with pytest.raises(NotPossible):
        anchor(machine)
