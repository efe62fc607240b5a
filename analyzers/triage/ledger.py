"""Where the bytes were: the device at the instant of the failure, as a tree that adds up with an explicit remainder."""

from oomctl.analyzers.triage.case import Case
from oomctl.analyzers.triage.evidence import EvidenceRow, cite
from oomctl.schemas.verdict import Citation, MemoryNode, Quality

_STEADY = ("steady", "in_use", "available", "actual", "captured", "kv", None)
"""Which figure of a component counts as resident, the best first; estimates and peaks do not."""
_RESIDENT = ("weights", "adapter", "kv_pool")


def memory_at_oom(case: Case) -> MemoryNode | None:
    """The tree device = own + others + free + unexplained; own = framework + outside it; framework = components + cached +
    remainder. A remainder may be negative: the figures then do not fit each other, and that is shown.

    Returns:
        None where nothing is known of the device.
    """
    if case.root["what"] == "refusal":
        return _at_gate(case)
    figures = case.figures
    total = case.total_bytes
    if total is None and figures["own_process_bytes"] is None and figures["framework_bytes"] is None:
        return None
    source = cite([case.root]) if figures["requested_bytes"] is not None else ()
    own = _own(case, source)
    others = _node("others", figures["others_bytes"], "derived", source, "total less own less free")
    free = _node("free", figures["free_bytes"], "measured", source)
    return _sum("device", total, "measured", source, (own, others, free), "unexplained")


def _own(case: Case, source: tuple[Citation, ...]) -> MemoryNode:
    figures = case.figures
    framework = _framework(case, source)
    outside = _node(
        "non_framework",
        figures["non_framework_bytes"],
        "derived",
        source,
        "context, libraries, collectives, graphs: own less framework",
    )
    own = figures["own_process_bytes"]
    if own is None:
        return MemoryNode(
            name="own_process",
            bytes=None,
            note="the driver did not say what this process holds",
            children=tuple(node for node in (framework, outside) if node.bytes is not None),
        )
    return _sum("own_process", own, "measured", source, (framework, outside), None)


def _framework(case: Case, source: tuple[Citation, ...]) -> MemoryNode:
    figures = case.figures
    children = [
        _node(component, row["bytes"], "measured", cite([row]), _owner_note(row), row["resolution_bytes"])
        for component in _RESIDENT
        if (row := _component(case, component)) is not None
    ]
    children.append(_node("cached_free", figures["cached_free_bytes"], "measured", source, "reserved but unallocated"))
    children.append(
        _node("private_pool_free", figures["private_free_bytes"], "measured", source, "free blocks of graph pools")
    )
    return _sum("framework", figures["framework_bytes"], "derived", source, tuple(children), "other_tensors")


def _component(case: Case, component: str) -> EvidenceRow | None:
    rows = [row for row in case.ask("components") if row["component"] == component and row["owner"] in _STEADY]
    rank = case.root.get("rank")
    same = [row for row in rows if row["rank"] in (rank, None)] or rows
    return min(same, key=lambda row: _STEADY.index(row["owner"]), default=None)


def _owner_note(row: EvidenceRow) -> str:
    return "as sized; printed before it was allocated" if row["owner"] == "available" else ""


def _at_gate(case: Case) -> MemoryNode | None:
    gate = case.gate
    if gate is None or gate["total_bytes"] is None or gate["available_bytes"] is None:
        return None
    source = cite([gate])
    free = _node("free", gate["available_bytes"], "measured", source)
    others = _node(
        "others", gate["total_bytes"] - gate["available_bytes"], "derived", source, "in use before this worker started"
    )
    return _sum("device", gate["total_bytes"], "measured", source, (others, free), None)


def _sum(
    name: str,
    amount: int | None,
    quality: Quality,
    source: tuple[Citation, ...],
    children: tuple[MemoryNode, ...],
    remainder: str | None,
) -> MemoryNode:
    known = [child for child in children if child.bytes is not None]
    if remainder is not None and amount is not None and known:
        left = amount - sum(child.bytes or 0 for child in known)
        known.append(
            MemoryNode(name=remainder, bytes=left, quality="derived", note="what the other entries do not explain")
        )
    return MemoryNode(
        name=name,
        bytes=amount,
        quality=quality if amount is not None else None,
        note="" if amount is not None else "not printed",
        cites=source if amount is not None else (),
        children=tuple(known),
    )


def _node(
    name: str,
    amount: int | None,
    quality: Quality,
    source: tuple[Citation, ...],
    note: str = "",
    resolution: int | None = None,
) -> MemoryNode:
    if amount is None:
        return MemoryNode(name=name, bytes=None, note="not printed")
    return MemoryNode(name=name, bytes=amount, quality=quality, note=note, cites=source, resolution_bytes=resolution)
