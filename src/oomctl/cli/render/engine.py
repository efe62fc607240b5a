"""An engine's memory options as a page for reading: what each moves, which way, in which versions."""

from collections.abc import Iterator

from oomctl.analyzers.triage.remedies.options import Default, Engine, Move, Option, Spelling

_FORMULAS = {
    "share_of_total": "byte for byte: value x the device's total",
    "bytes": "byte for byte",
    "gib": "the value in GiB",
    "proportional": "in proportion to the value",
}


def page_of(engine: Engine) -> str:
    """The page, in Markdown, as those of the classes."""
    looked_at = f", {engine.checked[0]} to {engine.checked[-1]}" if engine.checked else ""
    lines = [f"# {engine.title}: memory options{looked_at}", ""]
    for option in engine.options:
        lines += [*_option(option), ""]
    return "\n".join(lines)


def _option(option: Option) -> Iterator[str]:
    yield f"## {option.name}"
    yield ""
    for spelling in option.spellings:
        forms = [form for form in (spelling.config, spelling.cli, spelling.env, spelling.python) if form is not None]
        yield f"- as `{'`, `'.join(forms)}`{_range(spelling)}"
    for default in option.defaults:
        yield f"- default {default.value}{_range(default)}"
    for move in option.moves:
        yield f"- {_move(move)}{_range(move)}"
    if option.overridden_by:
        yield f"- without effect where {' or '.join(option.overridden_by)} is set"
    if option.side_effect:
        yield f"- note: {option.side_effect}"
    yield f"- source: {option.source}"


def _move(move: Move) -> str:
    place = move.component if move.part is None else f"{move.component}, {move.part}"
    if move.gives is not None:
        return f"{'switched on' if move.set is None else f'set to {move.set}'}: {move.gives} {place}"
    formula = f" ({_FORMULAS[move.formula]})" if move.formula is not None else ""
    return f"raised: {move.raised} {place}{formula}"


def _range(item: Spelling | Default | Move) -> str:
    since = f", since {item.since}" if item.since is not None else ""
    return since + (f", until {item.until}" if item.until is not None else "")
