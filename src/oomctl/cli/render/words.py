"""Figures and labels as a reader says them."""

from oomctl.schemas.verdict import Alternative, Cause, Citation, Incident

VERDICTS = {
    "oom": "OUT OF MEMORY",
    "capacity_gate": "REFUSED FOR LACK OF MEMORY",
    "not_oom": "NOT OUT OF MEMORY",
    None: "UNDETERMINED",
}
RESOURCES = {
    "device": "device memory",
    "kv_blocks": "KV cache blocks",
    "host": "host memory",
    "slots": "request slots",
    "driver": "driver resources",
}
SURVIVED = {True: "the engine went on", False: "the engine did not survive", None: "not known whether the engine went on"}
ASSUMED_YEAR = 2000
"""Of times in a log that names none, as the event table holds them."""
TIMES = {"local": "as printed, zone unknown", "relative": "relative to an unknown start", "none": "no time told"}
UNITS = ("KiB", "MiB", "GiB", "TiB")


def human(count: int | None) -> str:
    """Bytes in binary units with two decimals; "?" where unknown."""
    if count is None:
        return "?"
    if abs(count) < 1024:
        return f"{count} B"
    value = float(count)
    for unit in UNITS:
        value /= 1024
        if abs(round(value, 2)) < 1024:
            return f"{value:.2f} {unit}"
    return f"{value:,.2f} {UNITS[-1]}"


def plural(count: int, noun: str, many: str | None = None) -> str:
    """1 line, 2 lines."""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


def amount(cause: Cause) -> str:
    """What a cause took, ` (1.33 GiB, 512 tokens)`; nothing where it is not told."""
    told = [human(cause.bytes)] if cause.bytes is not None else []
    told += [plural(cause.tokens, "token")] if cause.tokens is not None else []
    return f" ({', '.join(told)})" if told else ""


def label(incident: Incident) -> str:
    """`warm_up (OOM002)`; what ran out where the class is not decided."""
    if incident.oom_class is not None:
        return f"{incident.oom_class} ({incident.code})" if incident.code else incident.oom_class
    return "class not decided" if incident.verdict in ("oom", None) else ""


def alternative_name(other: Alternative) -> str:
    """`load_time (OOM001)`, or what it would be in words."""
    return f"{other.oom_class} ({other.code})" if other.oom_class is not None else other.what


def headline(incident: Incident) -> str:
    """Verdict, class and resource: what to say on the phone."""
    resource = RESOURCES.get(incident.resource or "", "")
    return ", ".join(part for part in (VERDICTS[incident.verdict], label(incident), resource) if part)


def circumstances(incident: Incident) -> list[str]:
    """Where and when it was, part by part; unknown parts are left out."""
    engine = " ".join(part for part in (incident.engine, incident.engine_version) if part)
    when = incident.ts
    if when and incident.ts_quality == "local":
        when = without_year(when).rstrip("Z").replace("T", " ") + f" ({TIMES['local']})"
    elif when and incident.ts_quality and incident.ts_quality != "exact":
        when += f" ({TIMES.get(incident.ts_quality, incident.ts_quality)})"
    rank = incident.rank_name or (f"rank {incident.rank}" if incident.rank is not None else None)
    life = f"start {incident.incarnation}" if incident.incarnation not in (None, "1") else None
    asked = f"asked {human(incident.requested_bytes)}" if incident.requested_bytes is not None else None
    short = f"short by {human(incident.short_bytes)}" if incident.short_bytes is not None else None
    phase = f"phase {incident.phase}" if incident.phase else None
    survived = SURVIVED[incident.survived] if incident.verdict != "not_oom" else None
    parts = (engine or None, phase, incident.worker, life, rank, when, asked, short, survived)
    return [part for part in parts if part]


def without_year(moment: str) -> str:
    """A time as ISO 8601 for reading: without the year where that was made up, as rather none than a wrong one."""
    return moment.removeprefix(f"{ASSUMED_YEAR}-")


def place(citation: Citation) -> str:
    """`file:line`, or the row where the source is no text."""
    if citation.line is not None:
        return f"{(citation.file or citation.stream).rpartition('/')[2]}:{citation.line}"
    return f"{citation.stream}#{citation.seq}"


def at_event(index: int | None) -> str:
    """An instant of an allocator's history; -1 is before its first event."""
    return "before the first event" if index is None or index < 0 else f"after event {index}"
