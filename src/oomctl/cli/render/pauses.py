"""The pauses of a trace as a page; the JSON has every figure."""

from collections.abc import Sequence

from oomctl.cli.render.columns import Figure, table
from oomctl.cli.render.sheet import Sheet
from oomctl.schemas.pauses import Outcome, PauseReport


def pauses_text(found: PauseReport, width: int, colour: bool) -> str:
    """The whole page, newline at its end."""
    sheet = Sheet(width, colour)
    said = f"{found.trace} · {found.pauses:,} waits for tools in {found.sessions:,} sessions"
    sheet.wrapped(said, hang=2, style="bold")
    waste = found.waste
    sheet.heading("WASTE in token-seconds, each pause for itself")
    rows: list[tuple[str, Sequence[Figure]]] = [
        ("preserve all", (_large(waste.preserve), None)),
        ("recompute all", (_large(waste.recompute), None)),
        ("offload, else preserve", (_large(waste.offload), waste.offloaded)),
        ("least of preserve and recompute", (_large(waste.oracle_without_link), waste.oracle_recomputed)),
        ("least of all three", (_large(waste.oracle), None)),
    ]
    table(sheet, ("waste", "pauses moved or recomputed"), rows)
    sheet.heading("DECISIONS on one link that all sessions share")
    deciding = ("waste", "times the oracle", "preserved", "recomputed", "offloaded", "longest wait for it, s")
    outcomes = [
        ("rule, without a link", _outcome(found.rule_without_link)),
        ("rule", _outcome(found.rule)),
        ("oracle, which knows each pause", _outcome(found.oracle_on_the_link)),
    ]
    table(sheet, deciding, outcomes)
    sheet.heading("THRESHOLDS: keep a context so many seconds")
    heads = ("keep s", "then", "without a link: keep s, then recompute")
    table(
        sheet,
        heads,
        [
            (f"{one.context_tokens:,} tokens", (round(one.keep_s, 1), one.then, round(one.keep_without_link_s, 1)))
            for one in found.thresholds
        ],
    )
    return sheet.text()


def _outcome(one: Outcome) -> Sequence[Figure]:
    ratio = None if one.times_oracle is None else f"{one.times_oracle:.2f}"
    wait_s = round(one.longest_link_wait_s, 1)
    return (_large(one.waste), ratio, one.preserved, one.recomputed, one.offloaded or None, wait_s or None)


def _large(value: float) -> str:
    return f"{value:.3e}"
