"""Which options of the engine at hand meet a need: those that this version has, and that would still change something."""

from collections.abc import Iterator
from dataclasses import dataclass

from oomctl.analyzers.triage.case import Case
from oomctl.analyzers.triage.remedies.needs import Need
from oomctl.analyzers.triage.remedies.options import Engine, Move, Option, Spelling
from oomctl.analyzers.triage.remedies.versions import Version, within


@dataclass(frozen=True)
class Choice:
    """An option that meets a need, in the version at hand.

    Attributes:
        need: The need.
        option: The option.
        move: What it does to what is needed.
        spelling: How it is typed.
        action: The sentence of its remedy.
        current: Its value as the log shows it.
    """

    need: Need
    option: Option
    move: Move
    spelling: Spelling
    action: str
    current: str | None

    @property
    def number(self) -> float | None:
        """The current value, where it is a number."""
        try:
            return float(self.current) if self.current is not None else None
        except ValueError:
            return None


def choices(case: Case, engine: Engine, need: Need, version: Version | None) -> Iterator[Choice]:
    """The options that move what is needed in the right direction, in the order of the engine's file.

    Args:
        case: The failure; its log shows which options are set.
        engine: Its engine's options.
        need: What must become smaller or larger.
        version: The engine's version; None for one that the log does not tell.
    """
    first = True
    for option in engine.options:
        row = case.argument(*option.keys)
        spelling = option.spelling(version, None if row is None else row["key"])
        if spelling is None or any(key in case.arguments for key in option.overridden_by):
            continue
        if row is None and (option.only_where_set or need.only_set):
            continue
        for move in option.moves:
            sentence = move.sentence(need.direction)
            if (move.component, move.part) != (need.component, need.part) or sentence is None:
                continue
            if within(version, move.since, move.until):
                action = _action(engine, option, need, sentence, first, version is None and row is None)
                first = False
                yield Choice(need, option, move, spelling, action, None if row is None else str(row["value"]))


def _action(engine: Engine, option: Option, need: Need, sentence: str, first: bool, unsure: bool) -> str:
    if first and need.why is not None and option.kind == "share":
        sentence = need.why
    if first and need.but is not None:
        sentence = f"{sentence[:-1]}; {need.but}."
    if unsure and not engine.same_everywhere(option):
        sentence = f"{sentence[:-1]} (spelled as in {engine.newest}: the log tells no version)."
    return sentence
