"""Steps that take long: a steady state in which nothing may creep, and a restart with the old worker still there."""

import time
from contextlib import ExitStack
from dataclasses import replace

from oomctl.analyzers.capacity.experiment.leak import leaks
from oomctl.experiment.life import DiedEarly
from oomctl.experiment.recorded import recording
from oomctl.experiment.rig import Rig
from oomctl.experiment.steps.anchor import hold
from oomctl.experiment.steps.base import Figures, Outcome
from oomctl.schemas.experiment import Leak, Status, Try

STEADY = 0.7
"""Of the rate that the mix kept."""
WHOLE_S = 1800.0
"""A steady phase that is shorter is told as shortened."""
BESIDE = 0.3
"""Of that rate, on the old worker while the new one starts."""
SETTLE_S = 2.0


def steady(rig: Rig) -> Outcome:
    """One rate for long: what of memory creeps, and by how much a request."""
    mix, seconds = rig.lengths["mixed"], rig.settings.steady_s
    began_us = ended_us = 0
    ends_us = list[int]()

    def loads(rate: float) -> list[Try]:
        nonlocal began_us, ended_us, ends_us
        began_us = time.time_ns() // 1000
        one = rig.send(mix, rate, rig.plan(mix, rate, seconds), "steady")
        ended_us, ends_us = time.time_ns() // 1000, rig.ends_us
        # The load began when its sender did, which takes a while.
        began_us = max(began_us, ended_us - round(one.elapsed_s * 1e6))
        return [one]

    held = hold(rig, STEADY, loads, ahead=True)
    (one,) = held.last
    time.sleep(SETTLE_S)
    with recording(rig.life.recorder.recording) as connection:
        found = leaks(connection, began_us, ended_us, ends_us) if connection is not None else []
    growing, told = [each for each in found if each.grows], [each for each in found if each.grows is not None]
    figures: Figures = {
        "rate_per_s": one.rate_per_s, "steady_s": seconds, "preemptions": one.preemptions,
        "resolved_bytes_per_request": max((_half(each) for each in told), default=None), **held.figures,
    }  # fmt: skip
    bad = held.broken()
    if growing:
        # Whatever else gave way: what creeps is what the step looks for.
        said = [*map(_words, growing), *([bad.reason] if bad is not None else [])]
        return Outcome("failed", "; ".join(said), figures, held.tries, found)
    if bad is not None:
        return replace(bad, figures=figures, leaks=found)
    if not told:
        why = "too few readings for a slope with an interval: a longer --steady"
        return Outcome("skipped", why, figures, held.tries, found)
    short = f"shortened: {seconds:g} s instead of {WHOLE_S:g}" if seconds < WHOLE_S else ""
    return Outcome("passed", "; ".join(filter(None, (short, held.said))), figures, held.tries, found)


def restart(rig: Rig) -> Outcome:
    """End the worker and start it again; then a second one beside it, as a rolling update has them, if there is room."""
    settings = rig.settings
    full = rig.life.quiet()
    rig.down()
    begun_s = time.monotonic()
    life = rig.up()
    ready = life.quiet()
    figures: Figures = {"restart_s": time.monotonic() - begun_s, "ready_s": life.ready_s}
    place = "device" if ready is not None and ready.device_free_bytes is not None else "host"
    first = rig.experiment.step(1)
    taken = first.figures.get(f"{place}_taken_bytes") if first is not None else None
    free, total = (getattr(ready, f"{place}_{what}_bytes", None) for what in ("free", "total"))
    before = getattr(full, f"{place}_free_bytes", None)
    figures |= {"memory": place, "taken_bytes": taken, "free_bytes": free, "free_bytes_before_restart": before}
    if isinstance(taken, int) and free is not None and total:
        room = free - taken - round(total * settings.device_floor_ratio)
        figures["room_for_both_bytes"] = room
        if room < 0:
            return Outcome(
                "failed", f"no rolling update here: {-room >> 20} MiB short of a second worker beside the first", figures
            )
    return _rolled(rig, place, figures)


def _rolled(rig: Rig, place: str, figures: Figures) -> Outcome:
    """Start a second worker while the first one is there, load the first, then go on with the second."""

    def loads(rate: float) -> list[Try]:
        return [_beside(rig, place, rate, figures)]

    try:
        held = hold(rig, BESIDE, loads)
    except NoSecond as why:
        return Outcome(why.status, str(why), figures)
    figures |= held.figures
    if (bad := held.broken()) is not None:
        return replace(bad, figures=figures)
    return Outcome("passed", held.said, figures, held.tries)


def _beside(rig: Rig, place: str, rate: float, figures: Figures) -> Try:
    """Load the worker once a second one serves beside it, which takes its place then; `figures` get what was seen.

    Raises:
        NoSecond: If that does not come to serve.
    """
    guard = rig.life.watch
    guard.begin()
    with ExitStack() as ending:
        try:
            new = ending.enter_context(rig.another("update", guard.stop))
        except DiedEarly as early:
            if guard.tripped is not None:
                raise NoSecond("aborted", f"while the second worker loads: {guard.tripped.reason}") from early
            rig.died.append(early.recorder)
            raise NoSecond("failed", f"the second worker does not start beside the first: {early}") from early
        both = guard.look()
        figures |= {"update_ready_s": new.ready_s, "both_free_bytes": getattr(both, f"{place}_free_bytes", None)}
        told = [value for look in guard.looks if (value := getattr(look, f"{place}_free_bytes")) is not None]
        figures["least_free_bytes"] = min(told, default=None)
        one = rig.send(rig.lengths["mixed"], rate, name="old beside new")
        rig.adopt(new, ending.pop_all())
    return one


class NoSecond(Exception):
    """A second worker does not come to serve beside the first one."""

    def __init__(self, status: Status, why: str) -> None:
        super().__init__(why)
        self.status = status


def _half(leak: Leak) -> float:
    """What a slope could have been without being seen."""
    assert leak.low_bytes_per_request is not None and leak.high_bytes_per_request is not None
    return (leak.high_bytes_per_request - leak.low_bytes_per_request) / 2


def _words(leak: Leak) -> str:
    low, high = leak.low_bytes_per_request or 0, leak.high_bytes_per_request or 0
    each = f"{leak.slope_bytes_per_request:,.0f} bytes a request ({low:,.0f} to {high:,.0f})"
    return f"{leak.figure} of {leak.whose} grows by {each}"
