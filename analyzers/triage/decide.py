"""The decision: which class, how sure, and what else it might have been."""

from dataclasses import dataclass

from oomctl.analyzers.triage import decode_growth, fragmentation, load_time, prefill_spike, recovery, warm_up
from oomctl.analyzers.triage.assess import Assess, Assessment
from oomctl.analyzers.triage.case import Case
from oomctl.schemas.verdict import CODES, Alternative, OomClass

CLASSES: tuple[Assess, ...] = (
    load_time.assess,
    warm_up.assess,
    prefill_spike.assess,
    decode_growth.assess,
    fragmentation.assess,
    recovery.assess,
)

OF_GATES: tuple[Assess, ...] = (recovery.assess,)
"""A gate fails before anything does, and so has no class, but one: memory of a life before may be why it refuses."""
DECISIVE = 0.5
"""Score from which a class is named."""
MARGIN = 0.12
"""By which it must lead the next."""
NOTABLE = 0.2
"""Score from which another class is listed as an alternative."""
UNDECIDED = 0.5
"""Confidence where the evidence does not decide the class."""


@dataclass(frozen=True)
class Decision:
    """The class, or None, with the confidence and the other candidates."""

    chosen: Assessment | None
    confidence: float
    alternatives: list[Alternative]


def decide(case: Case) -> Decision:
    """Let every class module speak, and choose."""
    speaking = OF_GATES if case.root["what"] == "refusal" else CLASSES
    ranked = sorted((assess(case) for assess in speaking), key=lambda item: -item.score)
    best, second = ranked[0], ranked[1].score if len(ranked) > 1 else 0.0
    named = best.score >= DECISIVE and best.score - second >= MARGIN
    rest = ranked[1:] if named else ranked
    alternatives = [_alternative(item) for item in rest if item.score >= NOTABLE]
    if not named:
        return Decision(None, UNDECIDED * corroboration(case), alternatives)
    return Decision(best, min(best.score, 0.99) * corroboration(case), alternatives)


def corroboration(case: Case) -> float:
    """How often the failure was seen: a single line may be torn out of its context, eight ranks that agree are not."""
    copies = sum(1 for member in case.members if member["resource"] == case.root["resource"])
    return 1 - 0.06 / max(copies, 1)


def _alternative(item: Assessment) -> Alternative:
    oom_class: OomClass = item.oom_class
    why = "; ".join(evidence.says for evidence in item.evidence[:2])
    return Alternative(oom_class=oom_class, code=CODES[oom_class], confidence=round(item.score, 2), why=why)
