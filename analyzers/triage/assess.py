"""What a class module returns, and the words that several of them share."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from oomctl.analyzers.triage.case import Case
from oomctl.analyzers.triage.evidence import EvidenceRow, statement
from oomctl.analyzers.triage.words import short_path
from oomctl.schemas.verdict import Cause, Evidence, OomClass

MULTIMODAL = re.compile(
    r"_?execute_mm_encoder|get_\w+_features?|(get_|_?embed_|_?process_)multimodal\w*|encode_images?|\w*_mm_embeddings?"
)
"""Functions that encode images, video or sound."""
PROMPT_LOGPROBS = re.compile(r"_?get_prompt_logprobs\w*|\w*(prompt|input)_logprobs\w*")
"""Functions that compute the logits of every position of a prompt."""


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
        """A statement for the class; one without rows to cite is not made."""
        if rows:
            self.evidence.append(statement(says, self.oom_class, weight, rows))

    def object(self, says: str, weight: float, rows: list[EvidenceRow]) -> None:
        """A statement against the class."""
        if rows:
            self.against.append(statement(says, self.oom_class, weight, rows))


Assess = Callable[[Case], Assessment]


def frame_words(frames: list[EvidenceRow]) -> str:
    """The innermost of some frames, as "capture_graph (vllm/v1/worker/gpu/cudagraph_utils.py)"."""
    frame = frames[0]
    return f"{frame['function']} ({short_path(frame['file'])})"
