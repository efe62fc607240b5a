"""The one setting to change first, so that a higher rate is kept: by what gave way, and what was left of the rest then."""

from collections.abc import Mapping
from dataclasses import dataclass

from oomctl.analyzers.triage.remedies.engine_files import load
from oomctl.analyzers.triage.remedies.options import Direction, Option
from oomctl.analyzers.triage.remedies.versions import parse
from oomctl.schemas.experiment import Advice, Try
from oomctl.schemas.replay import Slo

ROOM = 0.5
"""Of the time for a further token, what may be used before more requests at once are no advice."""
Moved = tuple[str, str | None]
"""A component, and what of it."""
POOL: Moved = ("kv_pool", None)
SLOTS: Moved = ("kv_pool", "admission")
UNSET = "None"


@dataclass(frozen=True)
class Worker:
    """Who it is.

    Attributes:
        engine: As the event table names it, or None.
        version: Its version, or None.
        arguments: As the engine prints them.
        total_blocks: Of its KV pool, or None.
    """

    engine: str | None
    version: str | None
    arguments: Mapping[str, str]
    total_blocks: int | None

    def option(self, moved: Moved) -> tuple[str, str | None] | None:
        """How the first option that makes this larger is typed, and its present value; None where none is known."""
        engine = load(self.engine) if self.engine is not None else None
        for option in engine.options if engine is not None else ():
            if any((move.component, move.part) == moved and move.raised == "more" for move in option.moves):
                spelling = option.spelling(parse(self.version))
                present = self._present(option.keys)
                if spelling is not None and self._counts(option, present):
                    return spelling.name, present
        return None

    def number(self, name: str) -> int | None:
        """An argument that is a number."""
        text = self.arguments.get(name, "")
        return int(text) if text.isdecimal() else None

    def _counts(self, option: Option, present: str | None) -> bool:
        hidden = any(self._present((other,)) is not None for other in option.overridden_by)
        return not hidden and not (option.only_where_set and present is None)

    def _present(self, names: tuple[str, ...]) -> str | None:
        return next((text for name in names if (text := self.arguments.get(name, UNSET)) != UNSET), None)


def advise(worker: Worker, kept: Try, beyond: Try, slo: Slo) -> Advice:
    """What to change first.

    Args:
        worker: Whose limits they are.
        kept: The try at the operating point.
        beyond: The slowest one that was not kept.
        slo: When an answer is good.
    """
    if beyond.broke == "kv_blocks":
        return _set(worker, POOL, "more", "the KV pool ran out; what it gets must be free on the device, or the host")
    if beyond.broke == "device":
        return _set(
            worker, POOL, "less", "the engine keeps too little of the device free; the KV pool takes what it is given"
        )
    if beyond.broke == "host":
        return _none("the host's memory ran short: no setting of the engine's gives it more")
    if beyond.broke == "errors":
        return _none(f"answers failed, which no limit explains: {beyond.reason}")
    running, slots = kept.most_running, worker.number("max_num_seqs")
    if beyond.term == "tpot":
        if running and (slots is None or running < slots):
            why = f"at most {running} ran at once at the operating point; more of them make each token late"
            return _set(worker, SLOTS, "less", why, running)
        return _none(f"tokens are late with as few as {running} requests at once: the worker is too slow for this SLO")
    taken, tpot_s, free = beyond.most_running or 0, beyond.tpot_s.p90, beyond.least_free_blocks
    full = taken >= (slots or 1) and (beyond.most_waiting or 0) > 0
    if full and free and tpot_s is not None and tpot_s <= slo.tpot_s * ROOM:
        why = (
            f"{f'all {slots}' if slots else taken} slots were taken and {beyond.most_waiting} requests waited, "
            f"while {free:,} KV blocks were free and tokens took {tpot_s * 1000:.0f} of {slo.tpot_s * 1000:g} ms"
        )
        return _set(worker, SLOTS, "more", why)
    return _none(_slow(worker, kept))


def _slow(worker: Worker, kept: Try) -> str:
    said = "the worker's speed is the limit, not its memory: another worker, or a wider SLO"
    free, total = kept.least_free_blocks, worker.total_blocks
    if free is None or not total:
        return said
    return f"{said}; {free:,} of {total:,} KV blocks were never needed"


def _set(worker: Worker, moved: Moved, direction: Direction, why: str, to: int | None = None) -> Advice:
    found = worker.option(moved)
    if found is None:
        return _none(f"{why}; which setting of this engine that is, is not known")
    name, present = found
    return Advice(setting=name, present=present, change="raise" if direction == "more" else "lower", to=to, why=why)


def _none(why: str) -> Advice:
    return Advice(setting=None, present=None, change=None, to=None, why=why)
