"""The cohorts of a trace as a page; the JSON has every figure."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from oomctl.cli.render.columns import Figure, percent, table
from oomctl.cli.render.sheet import Sheet
from oomctl.schemas.cohorts import (
    Arrivals,
    Branches,
    Cohort,
    Cohorts,
    Concurrency,
    Parts,
    Pauses,
    Prefix,
    Revision,
    Spread,
    Turns,
)

Part = TypeVar("Part")
WINDOWS_S = (1, 10, 60)


def cohorts_text(found: Cohorts, width: int, colour: bool) -> str:
    """The whole page, newline at its end."""
    sheet = Sheet(width, colour)
    sheet.wrapped(_title(found), hang=2, style="bold")
    if found.findings:
        sheet.heading("TRAPS OF THE DATA")
        for trap in found.findings:
            sheet.wrapped(f"{trap.code}: {trap.text}", 2, 2)
    own = found.cohorts
    _section(sheet, "TOKENS OF A REQUEST", [(one.name, one) for one in own], _tokens)
    arrivals = [(one.name, one.arrivals if one.arrivals.rate_per_s is not None else None) for one in own]
    _section(sheet, "ARRIVALS (CV and IDC are 1 of a Poisson process)", arrivals, _arrivals)
    quality = next((one.concurrency.quality for one in own if one.concurrency is not None), "")
    alive = [(one.name, one.concurrency) for one in own]
    _section(sheet, f"ALIVE AT ONCE, by share of time ({quality})", alive, _concurrency)
    title = "PROMPT FOUND IN A PREFIX CACHE (without bound; as an LRU of so many blocks)"
    _section(sheet, title, [(one.name, one.prefix) for one in own], _prefix)
    _section(sheet, "PARTS OF PROMPTS", [(one.name, one.parts if _told(one.parts) else None) for one in own], _parts)
    _section(sheet, "SESSIONS", [(one.name, one.turns) for one in own], _turns)
    title = "LOST WHERE A PROMPT'S FRONT CHANGES, such as a tool schema"
    _section(sheet, title, [(one.name, one.revision) for one in own], _revision)
    forked = [(one.name, one.branches if one.branches and one.branches.requests else None) for one in own]
    _section(sheet, "BRANCHES", forked, _branches)
    waits = [(f"{one.name}, {pauses.kind}", pauses) for one in own for pauses in one.pauses]
    _section(sheet, "PAUSES BEFORE A TURN, in seconds; held: tokens of the turn before", waits, _pauses)
    for reason in dict.fromkeys(one.arrivals.reason for one in own if one.arrivals.reason):
        sheet.gap()
        sheet.wrapped(f"not told: {reason}", 0, 2)
    return sheet.text()


def _title(found: Cohorts) -> str:
    said = [found.trace, found.format, f"{found.requests:,} requests"]
    if found.sessions:
        said.append(f"{found.sessions:,} sessions")
    if found.start:
        said.append(f"from {found.start}")
    if found.duration_s is not None:
        said.append(f"{found.duration_s:,.0f} s")
    if found.block_tokens is not None:
        said.append(f"blocks of {found.block_tokens} tokens")
    return " · ".join(said)


def _tokens(one: Cohort) -> list[tuple[str, Figure]]:
    told: list[tuple[str, Figure]] = [("requests", one.requests)]
    for name, spread in (("prompt", one.prompt_tokens), ("output", one.output_tokens)):
        told += [(f"{name} p50", spread.p50), ("p95", spread.p95), ("p99", spread.p99)]
    return told


def _arrivals(arrivals: Arrivals) -> list[tuple[str, Figure]]:
    by_length = {window.seconds: window for window in arrivals.windows}
    told: list[tuple[str, Figure]] = [("per s", arrivals.rate_per_s), ("gap CV", arrivals.gap_cv)]
    for lead, name in (("IDC ", "dispersion"), ("peak/mean ", "peak_to_mean")):
        for place, seconds in enumerate(WINDOWS_S):
            head = f"{lead if place == 0 else ''}{seconds} s"
            told.append((head, getattr(by_length[seconds], name) if seconds in by_length else None))
    return told


def _concurrency(found: Concurrency) -> list[tuple[str, Figure]]:
    told: list[tuple[str, Figure]] = []
    for lead, spread in (
        ("requests ", found.requests), ("reserved tokens ", found.reserved_tokens), ("shared once ", found.physical_tokens),
    ):  # fmt: skip
        own = spread or Spread(count=0)
        told += [(f"{lead}p50", own.p50), ("p99", own.p99), ("max", own.max)]
    return told


def _prefix(prefix: Prefix) -> list[tuple[str, Figure]]:
    told: list[tuple[str, Figure]] = [
        ("by block", percent(prefix.block_ratio)),
        ("by token", percent(prefix.token_ratio)),
        ("engine", percent(prefix.engine_ratio)),
        ("measured", percent(prefix.measured_ratio)),
    ]
    sizes = ((f"LRU {size:,}", percent(share)) for size, share in prefix.lru_ratio.items())
    return [*told, *sizes]


def _parts(parts: Parts) -> list[tuple[str, Figure]]:
    names = ("system", "tool_schema", "history", "retrieved", "other")
    counts: list[int | None] = [getattr(parts, f"{name}_tokens") for name in names]
    whole = sum(count for count in counts if count is not None)
    shares = (None if count is None or not whole else percent(count / whole) for count in counts)
    return list(zip((name.replace("_", " ") for name in names), shares, strict=True))


def _told(parts: Parts) -> bool:
    return any(
        part is not None
        for part in (parts.system_tokens, parts.tool_schema_tokens, parts.history_tokens, parts.retrieved_tokens)
    )


def _turns(turns: Turns) -> list[tuple[str, Figure]]:
    return [
        ("sessions", turns.sessions),
        ("turns p50", turns.turns_p50),
        ("growth p50", turns.growth_tokens.p50),
        ("p95", turns.growth_tokens.p95),
        ("compactions", turns.compactions),
        ("from p50", turns.before_compaction_tokens_p50),
        ("to p50", turns.after_compaction_tokens_p50),
        ("reused", percent(turns.reused_after_compaction_ratio)),
    ]


def _revision(revision: Revision) -> list[tuple[str, Figure]]:
    return [
        ("a turn loses p50", revision.reused_tokens.p50),
        ("p95", revision.reused_tokens.p95),
        ("broken turns", revision.broken_turns),
        ("tokens they lost", revision.lost_tokens),
    ]


def _branches(branches: Branches) -> list[tuple[str, Figure]]:
    return [
        ("branches", branches.requests),
        ("shared p50", branches.shared_tokens.p50),
        ("p95", branches.shared_tokens.p95),
        ("suffix p50", branches.suffix_tokens.p50),
        ("p95", branches.suffix_tokens.p95),
        ("copied blocks up to", branches.copied_blocks_at_most),
    ]


def _pauses(pauses: Pauses) -> list[tuple[str, Figure]]:
    longest, seconds = pauses.longer[-1], pauses.seconds
    return [
        ("pauses", seconds.count),
        ("p50", seconds.p50),
        ("p95", seconds.p95),
        ("p99", seconds.p99),
        ("max", seconds.max),
        ("held p50", pauses.held_tokens.p50),
        (f"> {longest.seconds} s", percent(longest.share_of_pauses)),
        ("of token-seconds", percent(longest.share_of_token_seconds)),
        ("reusable", percent(pauses.reusable_ratio)),
    ]


def _section(
    sheet: Sheet,
    title: str,
    parts: Sequence[tuple[str, Part | None]],
    figures: Callable[[Part], Sequence[tuple[str, Figure]]],
) -> None:
    """A table of one part of each cohort that has it, if any has."""
    own = [(name, figures(part)) for name, part in parts if part is not None]
    if own:
        sheet.heading(title)
        table(sheet, [head for head, _ in own[0][1]], [(name, [figure for _, figure in row]) for name, row in own])
