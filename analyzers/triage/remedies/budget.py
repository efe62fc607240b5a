"""An engine's budget, a share of the device: what it gives up comes from the KV pool, and what it gains goes there."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from oomctl.analyzers.triage.case import Case
from oomctl.analyzers.triage.words import size
from oomctl.schemas.verdict import Incident, Remedy

STEP = 0.01
MARGIN = 1.2
"""How much more than what was short is freed."""
HIGHEST = 0.95
"""A share above which nothing is proposed: handles, workspaces and graphs live outside the budget."""
KEPT_OF_POOL = 0.1
"""Of the pool that stays where it is not known what one request needs."""
ALONE = "cannot cure it alone"
"""Stands in the action of a remedy that does not free enough."""


@dataclass(frozen=True)
class Limit:
    """What lowering the budget can free at most.

    Attributes:
        bytes: How much.
        why: Where it ends, in words.
    """

    bytes: int
    why: str


def lower(
    case: Case, incident: Incident, flag: str, current: float | None, action: str, holds: tuple[str, ...]
) -> Iterator[Remedy]:
    """Lower a budget by as many hundredths as free what was short, as far as the KV pool can give them up.

    Args:
        case: The failure.
        incident: Its verdict.
        flag: The option as typed.
        current: Its value, where known.
        action: What it is for.
        holds: Components beside the KV pool that the budget must hold.
    """
    total, short = case.total_bytes, incident.short_bytes
    if total is None:
        yield Remedy(when="change", action=action, setting=f"{flag} lower", short_bytes=short, quality="estimated")
        return
    step_bytes = round(total * STEP)
    wanted = max(1, math.ceil((short or 0) * MARGIN / step_bytes)) if short is not None and short > 0 else 2
    limit = _limit(case, current, total, holds)
    below_all = math.ceil((current if current is not None else 1.0) / STEP - 1e-9) - 1
    possible = min(below_all, limit.bytes // step_bytes) if limit is not None else below_all
    against = f" against {size(short)} short" if short is not None and short > 0 else ""
    if wanted > possible:
        why = limit.why if limit is not None else "the budget ends there"
        yield _insufficient(
            incident, flag, current, max(possible, 0), step_bytes, f"{action} It {ALONE}.", f"{why}{against}"
        )
        return
    frees = wanted * step_bytes
    if current is None:
        setting, product = f"{flag} lower by {wanted * STEP:.2f}", f"{wanted * STEP:.2f} x {size(total)} = {size(frees)}"
    else:
        target = current - wanted * STEP
        setting = f"{flag} {target:.2f}"
        product = f"({current:.2f} - {target:.2f}) x {size(total)} = {size(frees)}"
    yield Remedy(
        when="change",
        action=action,
        setting=setting,
        frees_bytes=frees,
        short_bytes=short,
        arithmetic=product + against,
        quality="derived" if against else "estimated",
    )


def higher(case: Case, incident: Incident, flag: str, current: float | None, action: str) -> Iterator[Remedy]:
    """Raise a budget by as many hundredths as the KV pool was short of, up to HIGHEST."""
    total, short = case.total_bytes, incident.short_bytes
    if total is None or short is None or short <= 0:
        if current is None or current < HIGHEST:
            known = short is not None and short > 0
            least = f"at least {f'{current:.2f} + ' if current is not None else ''}{size(short)} / the device's size"
            yield Remedy(
                when="change", action=action, setting=f"{flag} higher", short_bytes=short if known else None,
                arithmetic=least if known else "", quality="estimated",
            )  # fmt: skip
        return
    added = math.ceil(short * MARGIN / round(total * STEP)) * STEP
    if (current if current is not None else STEP) + added > HIGHEST:
        return
    gains = f"{added:.2f} x {size(total)} = {size(round(added * total))} against {size(short)} short"
    setting = f"{flag} higher by {added:.2f}" if current is None else f"{flag} {current + added:.2f}"
    yield Remedy(when="change", action=action, setting=setting, short_bytes=short, arithmetic=gains, quality="estimated")


def fit(case: Case, flag: str) -> Iterator[Remedy]:
    """Budget for what is free, where the engine refused to start on a device that others use too."""
    gate = case.gate or {}
    free, total = gate.get("available_bytes"), gate.get("total_bytes")
    if not total or free is None:
        return
    share = math.floor(free / total * 100) / 100 - STEP
    if share > KEPT_OF_POOL:
        yield Remedy(
            when="change",
            action="Or budget for what is free now; the weights must fit into it.",
            setting=f"{flag} {share:.2f}",
            arithmetic=f"{size(free)} of {size(total)} are free",
        )


def _insufficient(
    incident: Incident, flag: str, current: float | None, steps: int, step_bytes: int, action: str, arithmetic: str
) -> Remedy:
    """The setting as low as it can go, or no setting where not even a step is possible."""
    setting = None
    if steps > 0:
        setting = f"{flag} lower by {steps * STEP:.2f}" if current is None else f"{flag} {current - steps * STEP:.2f}"
    return Remedy(
        when="change",
        action=action,
        setting=setting,
        frees_bytes=steps * step_bytes,
        short_bytes=incident.short_bytes,
        arithmetic=f"at most {size(steps * step_bytes)} can be given up: {arithmetic}",
        quality="estimated",
    )


def _limit(case: Case, current: float | None, total: int, holds: tuple[str, ...]) -> Limit | None:
    """The smallest of what the pool and the rest of the budget allow; None where neither was printed."""
    known = []
    pool = pool_bytes(case)
    if pool is not None:
        request = _request_bytes(case, pool)
        if request is not None:
            spare = max(pool - request, 0)
            known.append(
                Limit(spare, f"the KV pool has {size(pool)}, one request of the maximum length needs {size(request)}")
            )
        else:
            known.append(Limit(round(pool * (1 - KEPT_OF_POOL)), f"the KV pool has only {size(pool)}"))
    held = [(name, amount) for name in holds if (amount := _component(case, name)) is not None]
    if current is not None and any(name == "weights" for name, _ in held):
        rest = round(current * total) - sum(amount for _, amount in held)
        words = " and ".join(f"{name.replace('_', ' ')} {size(amount)}" for name, amount in held)
        known.append(
            Limit(max(round(rest * (1 - KEPT_OF_POOL)), 0), f"the budget of {size(round(current * total))} holds {words}")
        )
    return min(known, key=lambda limit: limit.bytes, default=None)


def pool_bytes(case: Case) -> int | None:
    """The KV pool of this rank, as printed; keys and values may be printed apart."""
    rows = [row for row in case.ask("components") if row["component"] == "kv_pool"]
    rank = case.root.get("rank")
    rows = [row for row in rows if row["rank"] in (rank, None)] or [row for row in rows if row["rank"] == rows[0]["rank"]]
    halves = {row["owner"]: row["bytes"] for row in rows if row["owner"] in ("k", "v")}
    whole = next((row["bytes"] for row in rows if row["owner"] not in ("k", "v", "estimate") and row["bytes"]), None)
    return whole if whole is not None else (sum(halves.values()) if len(halves) == 2 else None)


def _request_bytes(case: Case, pool: int) -> int | None:
    """What one request of the maximum length needs of the pool, from the concurrency or the tokens that were printed."""
    for row in case.ask("kv_size"):
        if row["max_concurrency"]:
            return round(pool / float(row["max_concurrency"]))
    length = case.number("max_model_len", "max_seq_len", "context_length")
    for row in case.ask("kv_size"):
        if row["total_tokens"] and length:
            return round(pool * length / int(row["total_tokens"]))
    return None


def _component(case: Case, name: str) -> int | None:
    """The last figure of a component, of this rank where its rank is known; estimates do not count."""
    rows = [
        row for row in case.ask("components") if row["component"] == name and row["owner"] not in ("estimate", "load_peak")
    ]
    rank = case.root.get("rank")
    rows = [row for row in rows if row["rank"] in (rank, None)] or rows
    steady = [row for row in rows if row["owner"] != "with_non_torch"]
    return int(steady[0]["bytes"]) if steady and steady[0]["bytes"] is not None else None
