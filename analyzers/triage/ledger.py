"""Where the bytes were: the device at the instant of the failure, as a tree that adds up with an explicit remainder."""

import msgspec

from oomctl.analyzers.allocator.components import UNKNOWN_COMPONENT
from oomctl.analyzers.triage.case import Case
from oomctl.analyzers.triage.evidence import EvidenceRow, cite
from oomctl.schemas.verdict import Citation, MemoryNode, Quality

_STEADY = ("steady", "in_use", "available", "actual", "captured", "kv", None)
"""Which figure of a component counts as resident, the best first; estimates and peaks do not."""
_HALVES = ("k", "v")
_RESIDENT = ("weights", "adapter", "kv_pool")


def memory_at_oom(case: Case) -> MemoryNode | None:
    """The tree device = own + others + free + unexplained; own = framework + outside it; framework = components + cached +
    remainder. A remainder may be negative: the figures then do not fit each other, and that is shown.

    Returns:
        None where nothing is known of the device, or the failure was not about it.
    """
    if case.root["what"] == "refusal":
        return _at_gate(case)
    if case.root["what"] not in ("oom", "pressure") or case.root["resource"] == "host":
        return None
    figures = case.figures
    total = case.total_bytes
    if total is None and figures["own_process_bytes"] is None and figures["framework_bytes"] is None:
        return None
    source = cite([case.root]) if any(value is not None for value in figures.values()) else ()
    told = (
        source
        if figures["total_bytes"] is not None
        else cite([row for row in case.ask("device") if row["total_bytes"]][:1])
    )
    own = _own(case, source)
    others = _node("others", figures["others_bytes"], "derived", source, "total less own less free")
    free = _node("free", figures["free_bytes"], "measured", source)
    node = _sum("device", total, "measured", told, (own, others, free), "unexplained", keep_unknown=True)
    contradiction = _contradiction(total, figures["own_process_bytes"], figures["free_bytes"])
    return msgspec.structs.replace(node, note=contradiction) if contradiction else node


def _contradiction(total: int | None, own: int | None, free: int | None) -> str:
    """What of the printed figures cannot be, in words."""
    if total is None:
        return ""
    more = [name for name, amount in (("free", free), ("own_process", own)) if amount is not None and amount > total]
    return f"the printed figures contradict each other: {' and '.join(more)} exceed the device's total" if more else ""


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
    exact = own is not None and outside.bytes is not None and own == (_told(framework) or 0) + outside.bytes
    return _sum("own_process", own, "measured", source, (framework, outside), None if exact else "unexplained")


def _framework(case: Case, source: tuple[Citation, ...]) -> MemoryNode:
    figures = case.figures
    children = [node for component in _RESIDENT if (node := _component(case, component)) is not None]
    children += _held(case, {node.name for node in children})
    children.append(_node("cached_free", figures["cached_free_bytes"], "measured", source, "reserved but unallocated"))
    children.append(
        _node("private_pool_free", figures["private_free_bytes"], "measured", source, "free blocks of graph pools")
    )
    return _sum("framework", figures["framework_bytes"], "derived", source, tuple(children), "other_tensors")


def _held(case: Case, told: set[str]) -> list[MemoryNode]:
    """What the allocator's snapshot knows of components that nobody printed."""
    heap = case.heap
    if heap is None:
        return []
    note = "active blocks, by the stacks that allocated them"
    held = {name: amount for name, amount in heap.held.items() if name not in told and name != UNKNOWN_COMPONENT}
    return [_node(name, amount, "measured", cite(heap.rows_of(name)), note) for name, amount in held.items()]


def _component(case: Case, component: str) -> MemoryNode | None:
    """What this rank holds of a component, else another rank of which it was printed; SGLang prints K and V apart."""
    rows = [row for row in case.ask("components") if row["component"] == component and row["owner"] in _STEADY + _HALVES]
    rank = case.root.get("rank")
    same = [row for row in rows if row["rank"] in (rank, None)] or [row for row in rows if row["rank"] == rows[0]["rank"]]
    whole = [row for row in same if row["owner"] in _STEADY]
    if whole:
        row = min(whole, key=lambda row: _STEADY.index(row["owner"]))
        return _node(component, row["bytes"], "measured", cite([row]), _owner_note(row), row["resolution_bytes"])
    halves = list({row["owner"]: row for row in same if row["owner"] in _HALVES}.values())
    if len(halves) < len(_HALVES):
        return None
    amount = sum(row["bytes"] for row in halves)
    resolution = sum(row["resolution_bytes"] or 0 for row in halves) or None
    return _node(component, amount, "derived", cite(halves), "keys and values", resolution)


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
    *,
    keep_unknown: bool = False,
) -> MemoryNode:
    """A node whose children explain it: those of which something is known, and what they leave over, never clamped."""
    known = [child for child in children if keep_unknown or _told(child) is not None]
    explained = [bytes_ for child in known if (bytes_ := _told(child)) is not None]
    if remainder is not None and amount is not None and explained:
        left = amount - sum(explained)
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


def _told(node: MemoryNode) -> int | None:
    """What is known of an entry: its bytes, or the sum of what its children tell; None where nothing is."""
    if node.bytes is not None:
        return node.bytes
    told = [bytes_ for child in node.children if (bytes_ := _told(child)) is not None]
    return sum(told) if told else None


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
