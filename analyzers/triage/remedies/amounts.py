"""Values of settings: how far to lower or raise an option, and what that frees."""

import math
import re
from collections.abc import Iterator

from oomctl.analyzers.triage import predicted
from oomctl.analyzers.triage.batch import ran_at_once
from oomctl.analyzers.triage.case import Case
from oomctl.analyzers.triage.remedies import budget
from oomctl.analyzers.triage.remedies.choices import Choice
from oomctl.analyzers.triage.remedies.options import Move, Spelling
from oomctl.analyzers.triage.remedies.versions import Version
from oomctl.analyzers.triage.words import GIB, plain, printed, size
from oomctl.schemas.verdict import Incident, Remedy

_ESTIMATE = re.compile(r"estimated maximum model length is (\d{1,12})")
KEPT_FOR_CACHE = 0.9
"""Of what is free for weights; the rest is the KV cache's and the compute buffers', whose sizes are printed later."""
_IN_ONE_PIECE = ("cuda", "hip", "musa")
"""Whose buffer of a device's weights is one allocation; Vulkan's is cut."""
LEAST_KEPT = 0.125
"""Of a value: an eighth is as far as a proposal goes."""
_PRICED = ("logits", "adapter")
"""Components whose bytes follow from an option's value."""
_GROWS = ("activation", "logits", "graph_pool")
"""Components whose failed allocation grows with the options that move them."""


def fixed(incident: Incident, action: str, setting: str, move: Move) -> Remedy:
    """A value that needs no arithmetic."""
    return Remedy(
        when="change",
        action=action,
        setting=setting,
        short_bytes=None if move.component in ("kv_pool", "host") else incident.short_bytes,
        arithmetic=move.arithmetic,
        quality="estimated",
    )


def unknown(incident: Incident, choice: Choice, version: Version | None) -> Remedy:
    """Lower what the log does not show; its default is said where it is fixed."""
    default = choice.option.default(version) if version is not None or len(choice.option.defaults) == 1 else None
    return Remedy(
        when="change",
        action=choice.action,
        setting=choice.spelling.typed("lower"),
        short_bytes=_short(incident, choice.move),
        arithmetic="" if default is None else f"its default is {default}",
        quality="estimated",
    )


def lowered(case: Case, incident: Incident, choice: Choice, current: float) -> Iterator[Remedy]:
    """Lower a known value: by what was short where the bytes follow from it, else to half, or less if need be.

    Args:
        case: The failure.
        incident: Its verdict.
        choice: The option.
        current: Its value, above its minimum.
    """
    move, short = choice.move, _short(incident, choice.move)
    wanted = math.ceil(short * budget.MARGIN) if short is not None and short > 0 else None
    unit = {"bytes": 1, "gib": GIB}.get(move.formula or "")
    if move.component == "kv_pool" and move.part is None:
        pool = round(current * unit) if unit else budget.pool_bytes(case) if move.formula == "proportional" else None
        if pool and wanted is not None:
            yield _of_pool(choice, current, pool, wanted, short or 0)
            return
    requested = incident.requested_bytes if move.component in _GROWS and incident.resource == "device" else None
    kept = 0.75 if choice.option.kind == "share" else 0.5
    while requested and short is not None and requested * (1 - kept) < short and kept > LEAST_KEPT:
        kept /= 2
    value = _value(choice, max(current * kept, choice.option.lowest))
    frees = None if requested is None else round(requested * (1 - float(value) / current))
    said = f"the failed {size(requested)} grows with it: x (1 - {value} / {plain(current)}) = {size(frees)}"
    said = "" if requested is None else said
    exact = predicted.freed(case, choice.option.name, current, float(value)) if move.component in _PRICED else None
    if exact is not None:
        frees, said = exact
    yield Remedy(
        when="change",
        action=choice.action,
        setting=choice.spelling.typed(value),
        frees_bytes=frees,
        short_bytes=short,
        arithmetic=said,
        quality="estimated" if exact is None else "predicted",
    )


def _of_pool(choice: Choice, current: float, pool: int, wanted: int, short: int) -> Remedy:
    """As much of the KV pool as was short, but not the pool as a whole."""
    most = round(pool * (1 - budget.KEPT_OF_POOL))
    given = min(wanted, most)
    value = _value(choice, current * (1 - given / pool))
    frees = round(pool * (1 - float(value) / current))
    said = f"the KV pool's {size(pool)} x (1 - {value} / {plain(current)}) = {size(frees)} against {size(short)} short"
    return Remedy(
        when="change",
        action=choice.action if wanted <= most else f"{choice.action} It {budget.ALONE}.",
        setting=choice.spelling.typed(value),
        frees_bytes=frees,
        short_bytes=short,
        arithmetic=said,
        quality="derived" if wanted <= most else "estimated",
    )


def _value(choice: Choice, number: float) -> str:
    """As typed: hundredths of a share, else a whole number where the option takes one; never rounded up."""
    if choice.option.kind in ("share", "gib"):
        return f"{math.floor(number * 100 + 1e-9) / 100:g}"
    return str(int(number))


def _short(incident: Incident, move: Move) -> int | None:
    """What was short, where the component is of the memory that ran out."""
    if move.component == "host" or move.part in ("use", "request"):
        return None
    return incident.short_bytes if incident.resource == "device" else None


def more_devices(case: Case, incident: Incident, spelling: Spelling, current: float | None, action: str) -> Remedy:
    """Twice the devices: about half of what each holds."""
    framework = case.figures["framework_bytes"] if incident.oom_class == "load_time" else None
    return Remedy(
        when="change",
        action=action,
        setting=spelling.typed(str(int(current or 1) * 2)),
        frees_bytes=None if framework is None else framework // 2,
        short_bytes=incident.short_bytes,
        arithmetic=f"about half of {size(framework)} moves to the other devices" if framework else "",
        quality="estimated",
    )


def fitting_layers(case: Case, choice: Choice) -> Remedy | None:
    """As many layers as fit, where those of all were asked for in one piece and what is free was printed before."""
    requested, layers = case.figures["requested_bytes"], case.number("n_layer")
    free = [row["free_bytes"] for row in case.ask("device") if row["free_bytes"] is not None]
    if not requested or not layers or len(free) != 1 or free[0] >= requested or case.root["api"] not in _IN_ONE_PIECE:
        return None
    there = int(layers) + 1  # the output counts as one
    value = int(there * KEPT_FOR_CACHE * free[0] / requested)
    return Remedy(
        when="change",
        action=choice.action,
        setting=choice.spelling.typed(str(value)),
        frees_bytes=round(requested * (1 - value / there)),
        short_bytes=requested - free[0],
        arithmetic=f"{there} layers ask for {size(requested)}, {size(free[0])} were free; a tenth of it is kept for KV "
        "cache and compute buffers",
        quality="estimated",
    )


def fewer_requests(case: Case, spelling: Spelling, configured: float | None, action: str) -> Iterator[Remedy]:
    """Fewer requests at once than ran when the KV pool was full: a limit above that number would change nothing."""
    most = ran_at_once(case)
    if most is None:
        if configured is None or configured >= 2:
            value = "lower" if configured is None else str(int(configured) // 2)
            yield Remedy(when="change", action=action, setting=spelling.typed(value), quality="estimated")
        return
    limit = max(1, min(most * 3 // 4, int(configured or most)))
    if limit == most:
        return
    usage = max((row["usage_ratio"] for row in case.ask("kv_usage") if row["usage_ratio"] is not None), default=None)
    full = f" with the pool {usage:.0%} full" if usage is not None else ""
    yield Remedy(
        when="change",
        action=action,
        setting=spelling.typed(str(limit)),
        arithmetic=f"{most} ran at once{full}; three quarters leave room to grow",
        quality="estimated",
    )


def fitting_length(case: Case, incident: Incident, spelling: Spelling, action: str) -> Remedy:
    """The longest request that the pool holds: by the engine's own estimate, else by the tokens that it printed."""
    gate = case.gate or {}
    estimate = _ESTIMATE.search(gate.get("message") or "")
    tokens = int(estimate[1]) if estimate is not None else gate.get("available_tokens")
    said = []
    if gate.get("needed_bytes") is not None:
        needed = printed(gate["needed_bytes"], gate.get("resolution_bytes"))
        said.append(
            f"one request needs {needed}, the pool holds {printed(gate['available_bytes'], gate['resolution_bytes'])}"
        )
    if estimate is not None and tokens:
        said.append(f"the engine estimates that {tokens} tokens fit")
    return Remedy(
        when="change",
        action=action,
        setting=spelling.typed(str(tokens) if tokens else "lower"),
        short_bytes=incident.short_bytes,
        arithmetic="; ".join(said),
    )
