"""What gives way first in a try, and when: the rules of the guard and of the verdict are the same ones."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from oomctl.analyzers.capacity.experiment.observed import Answer, Look
from oomctl.schemas.experiment import Breaks, Term
from oomctl.schemas.replay import Slo

CLIENT_SHARE = 0.5
"""Of the time to the first token that may pass, what the client may be late without being suspected."""
FEW_ANSWERS = 5
"""So many have to fail before their share counts."""


@dataclass(frozen=True)
class Floors:
    """What has to stay.

    Attributes:
        blocks_ratio: Of the KV pool, free.
        memory_ratio: Of the device, free; of the host where there is no device.
        error_ratio: Of the answers, how many may fail.
    """

    blocks_ratio: float
    memory_ratio: float
    error_ratio: float

    def blocks(self, total: int) -> int:
        """Fewest free blocks that are allowed."""
        return max(1, round(total * self.blocks_ratio))


@dataclass(frozen=True)
class Break:
    """Something gave way.

    Attributes:
        what: Which.
        s: When, on the clock of the looks.
        reason: In words, with the figures.
        term: Of the SLO, which term was missed mostly.
    """

    what: Breaks
    s: float
    reason: str
    term: Term | None = None


def below_floor(look: Look, floors: Floors) -> Break | None:
    """Whether a look shows less than has to stay."""
    if look.total_blocks and look.free_blocks is not None:
        floor = floors.blocks(look.total_blocks)
        if look.free_blocks < floor:
            return Break("kv_blocks", look.s, f"{look.free_blocks} of {look.total_blocks} KV blocks free, floor {floor}")
    if look.device_total_bytes and look.device_free_bytes is not None:
        return _memory("device", look.s, look.device_free_bytes, look.device_total_bytes, floors)
    if look.host_total_bytes and look.host_free_bytes is not None:
        return _memory("host", look.s, look.host_free_bytes, look.host_total_bytes, floors)
    return None


def too_many_errors(answered: int, failed: int, s: float, floors: Floors, error: str = "") -> Break | None:
    """Whether too many of the answers so far are none."""
    if failed >= FEW_ANSWERS and failed > answered * floors.error_ratio:
        return Break("errors", s, f"{failed} of {answered} answers failed: {error}".removesuffix(": "))
    return None


def first_break(
    answers: Sequence[Answer], looks: Sequence[Look], slo: Slo, share: float, floors: Floors, planned: int
) -> Break | None:
    """What gave way first in a try; None: the rate was kept.

    Args:
        answers: Of the try.
        looks: At the worker, from its beginning to its end.
        slo: When an answer is good.
        share: Of the planned requests that must be good.
        floors: What has to stay.
        planned: Requests of the try.
    """
    found = [*_floors(looks, floors), *_preempted(looks), *_errors(answers, floors), *_late(answers, slo, share, planned)]
    return min(found, key=lambda each: each.s, default=None)


def is_good(answer: Answer, slo: Slo) -> bool:
    """Whether a request was answered within the SLO."""
    if answer.state != "finished" or answer.ttft_s is None or answer.ttft_s > slo.ttft_s:
        return False
    return answer.tpot_s is None or answer.tpot_s <= slo.tpot_s


def late_s(answer: Answer, slo: Slo) -> float | None:
    """The moment from which a request cannot be good any more; None: it is, or nobody can say."""
    due_s = answer.due_s + slo.ttft_s
    if answer.ttft_s is not None and answer.ttft_s > slo.ttft_s:
        return due_s
    if answer.first_s is None and answer.ended_s > due_s:
        return due_s
    if answer.state == "failed" or (answer.tpot_s is not None and answer.tpot_s > slo.tpot_s):
        return answer.ended_s
    return None


def _floors(looks: Sequence[Look], floors: Floors) -> Iterator[Break]:
    first = next((found for look in looks if (found := below_floor(look, floors)) is not None), None)
    if first is not None:
        yield first


def _preempted(looks: Sequence[Look]) -> Iterator[Break]:
    before: int | None = None
    for look in looks:
        if look.preempted is not None:
            if before is not None and look.preempted > before:
                yield Break("kv_blocks", look.s, f"{look.preempted - before} requests preempted for KV blocks")
                return
            before = look.preempted


def _errors(answers: Sequence[Answer], floors: Floors) -> Iterator[Break]:
    failed = 0
    for count, answer in enumerate(sorted(answers, key=lambda each: each.ended_s), 1):
        failed += answer.state == "failed"
        found = too_many_errors(count, failed, answer.ended_s, floors, answer.error)
        if found is not None:
            yield found
            return


def _late(answers: Sequence[Answer], slo: Slo, share: float, planned: int) -> Iterator[Break]:
    """The moment at which one request more was not good than the share allows."""
    allowed = int(planned * (1 - share) + 1e-9)
    late = sorted(at for answer in answers if (at := late_s(answer, slo)) is not None)
    if len(late) > allowed:
        failed = [answer for answer in answers if answer.state == "failed"]
        if len(failed) * 2 >= len(late):
            yield Break("errors", late[allowed], f"{len(failed)} of {planned} answers failed: {failed[0].error}")
            return
        slow = sum((answer.ttft_s or 0) > slo.ttft_s or answer.first_s is None for answer in answers)
        first = slow * 2 >= len(late)
        what = "the first token" if first else "further tokens"
        told = f"{len(late)} of {planned} requests not within the SLO, mostly for {what}"
        behind_s = max(answer.sent_s - answer.due_s for answer in answers)
        if first and behind_s > slo.ttft_s * CLIENT_SHARE:
            told += f"; the client sent up to {behind_s:.1f} s late: a worker that is faster would look the same"
        yield Break("slo", late[allowed], told, "ttft" if first else "tpot")


def _memory(what: Breaks, s: float, free: int, total: int, floors: Floors) -> Break | None:
    if free >= total * floors.memory_ratio:
        return None
    return Break(what, s, f"{free >> 20} MiB of {total >> 20} MiB free on the {what}, floor {floors.memory_ratio:.1%}")
