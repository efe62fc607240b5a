"""`engines/ENGINE.toml`, the data for remedies and for `oomctl explain ENGINE`.

They are read strictly: an unknown key, a component that the event table does not have, or a range of versions that is none
is an error.
"""

from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from itertools import pairwise

import msgspec

from oomctl.analyzers.triage.remedies.options import PARTS, PLACES, Default, Engine, Move, Option, Spelling
from oomctl.analyzers.triage.remedies.versions import parse


@cache
def names() -> tuple[str, ...]:
    """The engines that have a file."""
    return tuple(sorted(entry.name.removesuffix(".toml") for entry in _folder().iterdir() if entry.name.endswith(".toml")))


@cache
def load(engine: str) -> Engine | None:
    """An engine's options; None where it has no file.

    Raises:
        ValueError: If its file does not hold what it must.
    """
    if engine not in names():
        return None
    return decode((_folder() / f"{engine}.toml").read_bytes(), engine)


def decode(text: bytes, engine: str) -> Engine:
    """An engine's options from the text of its file.

    Raises:
        ValueError: If the text does not hold what it must: file, option and reason.
    """
    try:
        found = msgspec.toml.decode(text, type=Engine)
    except msgspec.MsgspecError as error:
        raise ValueError(f"{engine}.toml: {error}") from error
    problem = next(_problems(found, engine), None)
    if problem is not None:
        raise ValueError(f"{engine}.toml: {problem}")
    return found


def _folder() -> Traversable:
    return files("oomctl.analyzers") / "triage" / "remedies" / "engines"


def _problems(engine: Engine, name: str) -> Iterator[str]:
    """What types alone do not catch."""
    if engine.engine != name:
        yield f"is of engine {engine.engine!r}"
    releases = [parse(version) for version in engine.checked]
    if any(a is None or b is None or a >= b for a, b in pairwise(releases)):
        yield "checked: must list versions, oldest first"
    known = {option.name for option in engine.options}
    if len(known) != len(engine.options):
        yield "an option is there twice"
    for option in engine.options:
        for problem in (*_ranges(option), *_moves(option)):
            yield f"{option.name}: {problem}"
        for other in set(option.overridden_by) - known:
            yield f"{option.name}: overridden_by names no option: {other!r}"


def _ranges(option: Option) -> Iterator[str]:
    ranged: tuple[Spelling | Default | Move, ...] = (*option.spellings, *option.defaults, *option.moves)
    for item in ranged:
        for version in (item.since, item.until):
            if version is not None and parse(version) is None:
                yield f"no version: {version!r}"
        first, last = parse(item.since), parse(item.until)
        if first is not None and last is not None and first > last:
            yield f"since {item.since} is after until {item.until}"
    if not option.spellings or not all(spelling.name for spelling in option.spellings):
        yield "needs spellings, each in one of cli, env, config, python"


def _moves(option: Option) -> Iterator[str]:
    if not option.moves:
        yield "moves nothing"
    for move in option.moves:
        for place in (move.component, *move.holds):
            if place not in PLACES:
                yield f"no component of the event table: {place!r}"
        if move.part is not None and move.part not in PARTS.get(move.component, ()):
            yield f"no part of {move.component}: {move.part!r}"
        if (move.raised is None) == (move.gives is None):
            yield "a move has either `raised` or `gives`"
        if move.set is not None and move.gives is None:
            yield "`set` needs `gives`"
        if move.gives is not None and move.set is None and option.kind != "switch":
            yield "only a switch needs no `set`"
        for sentence in (move.less, move.more):
            if sentence is not None and not sentence.endswith("."):
                yield f"not a sentence: {sentence!r}"
