"""From a need to remedies: each option that meets it, with a value and its arithmetic."""

import re
from collections.abc import Iterator
from itertools import islice

from oomctl.analyzers.triage import predicted
from oomctl.analyzers.triage.batch import ran_at_once
from oomctl.analyzers.triage.case import Case
from oomctl.analyzers.triage.remedies import amounts, budget
from oomctl.analyzers.triage.remedies.choices import Choice, choices
from oomctl.analyzers.triage.remedies.needs import Need
from oomctl.analyzers.triage.remedies.options import Engine, Kind
from oomctl.analyzers.triage.remedies.versions import parse
from oomctl.schemas.verdict import Incident, Remedy

_ONLY_OLDER = {"swap_exhausted": "0.10.0"}
"""Failures that only older releases know, and one of these: where the log tells no version, the newest is not meant."""
_ON = ("true", "1", "yes", "on")
_NAMED = re.compile(r"(\w{1,64})[\"']?\s{0,3}[:=]\s{0,3}(\d{1,15})\b")


def propose(case: Case, incident: Incident, engine: Engine, need: Need) -> Iterator[Remedy]:
    """Remedies that meet a need, in the order of the engine's file.

    Left out are options that the version lacks, that another one overrides, and that are at their limit or set so already.
    """
    found = (
        remedy
        for choice in choices(case, engine, need, parse(case.engine[1] or _ONLY_OLDER.get(case.root["name"])))
        for remedy in _remedy(case, incident, choice)
    )
    yield from islice(found, need.most)


def _remedy(case: Case, incident: Incident, choice: Choice) -> Iterator[Remedy]:
    option, move, current = choice.option, choice.move, choice.current
    if move.gives is not None:
        if not _on(option.kind, current or "", move.set or ""):
            remedy = amounts.fixed(incident, choice.action, choice.spelling.typed(move.set), move)
            yield predicted.priced(case, remedy, move.component)
    elif move.raised == choice.need.direction:
        yield from _raised(case, incident, choice)
    elif move.formula == "share_of_total":
        yield from budget.lower(case, incident, choice.spelling.name, choice.number, choice.action, move.holds)
    elif option.kind == "requests" and move.part == "admission":
        yield from amounts.fewer_requests(case, choice.spelling, choice.number, choice.action)
    elif move.part == "request" and incident.verdict == "capacity_gate":
        yield amounts.fitting_length(case, incident, choice.spelling, choice.action)
    else:
        yield from _lowered(case, incident, choice)


def _on(kind: Kind, current: str, wanted: str) -> bool:
    """Whether an option whose values have no order says already what a remedy wants: an object that asks for no more."""
    if kind == "switch":
        return current.lower() in _ON
    if kind != "json":
        return bool(wanted) and current.startswith(wanted)
    limits, found = _numbers(wanted), _numbers(current)
    return bool(limits) and all(name in found and found[name] <= limit for name, limit in limits.items())


def _numbers(text: str) -> dict[str, float]:
    """The numbers of an object, or of `image=1,video=0`, by their names."""
    return {name: float(number) for name, number in _NAMED.findall(text)}


def _raised(case: Case, incident: Incident, choice: Choice) -> Iterator[Remedy]:
    if choice.option.kind == "devices":
        yield amounts.more_devices(case, incident, choice.spelling, choice.number, choice.action)
    elif choice.move.formula == "share_of_total":
        yield from budget.higher(case, incident, choice.spelling.name, choice.number, choice.action)
    elif choice.option.suggest is not None and (choice.number or 0) < float(choice.option.suggest):
        yield amounts.fixed(incident, choice.action, choice.spelling.typed(choice.option.suggest), choice.move)
    else:
        value = "N" if choice.option.kind == "gib" else "higher"
        yield amounts.fixed(incident, choice.action, choice.spelling.typed(value), choice.move)


def _lowered(case: Case, incident: Incident, choice: Choice) -> Iterator[Remedy]:
    option, current = choice.option, choice.number
    if current is None and option.kind == "requests" and choice.move.component == "logits":
        current = ran_at_once(case)  # their rows are of the sequences in the batch, whatever the limit is
    layers = amounts.fitting_layers(case, choice) if choice.move.part == "layers" and choice.move.raised == "more" else None
    if layers is not None:
        yield layers
        return
    if current is None:
        yield amounts.unknown(incident, choice, parse(case.engine[1]))
    elif current <= 0 < option.lowest and option.suggest is not None:  # 0 or less stands for "no limit"
        yield amounts.fixed(incident, choice.action, choice.spelling.typed(option.suggest), choice.move)
    elif current > option.lowest:
        yield from amounts.lowered(case, incident, choice, current)
