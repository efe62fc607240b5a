"""What a class module returns, and the words that several of them share."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from oomctl.analyzers.triage.case import Case
from oomctl.analyzers.triage.evidence import EvidenceRow, statement
from oomctl.analyzers.triage.words import complete, short_path
from oomctl.schemas.verdict import Cause, Evidence, OomClass

PROMPT_LOGPROBS = re.compile(r"_?get_prompt_logprobs\w*|\w*(prompt|input)_logprobs\w*")
"""Functions that compute the logits of every position of a prompt."""

TOLD: dict[str, tuple[OomClass, str, float]] = {
    "engine_deserialization": ("load_time", "load", 0.85),
    "weights_buffer": ("load_time", "load", 0.85),
    "component_model": ("load_time", "load", 0.85),
    "component_kv_cache": ("warm_up", "kv_pool", 0.85),
    "component_resources": ("warm_up", "kernels", 0.85),
    "executor_creation": ("warm_up", "kv_pool", 0.5),
    "model_instance": ("warm_up", "kernels", 0.6),
    "warm_up_batch": ("warm_up", "profile", 0.85),
    "kv_buffer": ("warm_up", "kv_pool", 0.85),
    "compute_buffer": ("warm_up", "compute", 0.7),
    "wake_up": ("recovery", "wake_up", 0.85),
}
"""What an engine's own report tells of the moment: class, part and weight by the error_type that its reader gives."""


def told(case: Case, oom_class: OomClass) -> tuple[str, float, list[EvidenceRow]]:
    """(part, weight, rows) of the member whose error type tells a class most clearly; ("", 0, []) where none does."""
    found = [row for row in case.members if row["what"] == "oom" and TOLD.get(row["name"], ("",))[0] == oom_class]
    if not found:
        return "", 0.0, []
    best = max(found, key=lambda row: TOLD[row["name"]][2])
    return TOLD[best["name"]][1], TOLD[best["name"]][2], [best]


@dataclass
class Assessment:
    """Evidence for and against one class, and the causes it would have.

    Attributes:
        oom_class: Which.
        evidence: For it.
        against: Against it.
        causes: Its own links of the cause chain, the first to mend first.
    """

    oom_class: OomClass
    evidence: list[Evidence] = field(default_factory=list)
    against: list[Evidence] = field(default_factory=list)
    causes: list[Cause] = field(default_factory=list)

    @property
    def score(self) -> float:
        """How far the evidence convinces: independent statements add up, those against take away."""
        doubt = 1.0
        for item in self.evidence:
            doubt *= 1 - item.weight
        score = 1 - doubt
        for item in self.against:
            score *= 1 - item.weight
        return score

    def add(self, says: str, weight: float, rows: list[EvidenceRow]) -> None:
        """A statement for the class; one without rows to cite, or without its figures, is not made, and does not count."""
        if rows and complete(says):
            self.evidence.append(statement(says, self.oom_class, weight, rows))

    def object(self, says: str, weight: float, rows: list[EvidenceRow]) -> None:
        """A statement against the class, under the same conditions."""
        if rows and complete(says):
            self.against.append(statement(says, self.oom_class, weight, rows))


Assess = Callable[[Case], Assessment]


def frame_words(frames: list[EvidenceRow]) -> str:
    """The innermost of some frames, as "capture_graph (vllm/v1/worker/gpu/cudagraph_utils.py)"."""
    frame = frames[0]
    return f"{frame['function']} ({short_path(frame['file'])})"
