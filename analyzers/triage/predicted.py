"""What a log does not print of the device's memory, predicted from the options that it prints, or from a kept ledger.

The one door between triage and the ledger: `fill` completes the tree of `memory_at_oom`, `freed` and `priced` give the
bytes of options.
Nothing measured is replaced, and each entry says what it was predicted from.
"""

import re
from typing import TYPE_CHECKING

import msgspec

from oomctl.analyzers.triage.case import Case
from oomctl.analyzers.triage.evidence import EvidenceRow, cite
from oomctl.analyzers.triage.words import size
from oomctl.schemas.errors import OomctlError
from oomctl.schemas.ledger import Component, Ledger
from oomctl.schemas.numbers import whole
from oomctl.schemas.verdict import MemoryNode, Remedy

if TYPE_CHECKING:
    from oomctl.analyzers.ledger.engine import Engine

SAMPLED_BYTES = 4
"""Samplers work on fp32 logits. Source: vLLM v1/sample/sampler.py, SGLang layers/sampler.py."""
DEVICES = (75 * 2**30, 85 * 2**30)
"""Sizes of the device on which the ledger's estimates were fitted; another kind's context is not known."""
_SAMPLING = re.compile(r".*(sampler|sample|compute_logits|top_k|top_p).*")
_GRAPHS = ("captured", "actual", "estimate")
_FROM_LEDGER: tuple[Component, ...] = ("weights", "adapter", "kv_pool")
_OUTSIDE: tuple[Component, ...] = ("context", "non_torch", "collective")


def fill(case: Case, tree: MemoryNode | None) -> MemoryNode | None:
    """The tree with predicted entries where nothing was measured; each parent's remainder shrinks by what they explain."""
    if tree is None:
        return None
    tree = _under(tree, "framework", "other_tensors", _tensors(case, tree))
    return _under(tree, "own_process", "non_framework", _outside(case))


def freed(case: Case, option: str, current: float, value: float) -> tuple[int, str] | None:
    """Bytes that lowering an option frees, and the arithmetic; None where neither log nor ledger has a factor.

    Args:
        case: The failure.
        option: As the engine's file of options names it.
        current: Its value.
        value: The lower one.
    """
    vocabulary = _vocabulary(case)
    if option in ("max_num_seqs", "max_running_requests") and vocabulary is not None:
        rows, of = int(current) - int(value), int(vocabulary["value"])
        amount = rows * of * SAMPLED_BYTES
        return amount, f"({int(current)} - {int(value)}) x {of} x {SAMPLED_BYTES} B = {size(amount)} of sampler logits"
    held = _of_ledger(case, "adapter") if option in ("max_loras", "max_lora_rank") and current > 0 else None
    if held is not None and held.bytes is not None:
        amount = int(held.bytes * (1 - value / current))
        return amount, f"{size(held.bytes)} of LoRA slots x (1 - {value:g} / {current:g}) = {size(amount)}"
    return None


def priced(case: Case, remedy: Remedy, component: str) -> Remedy:
    """A remedy that gives up captured graphs, with their bytes: as the log has them, else as the ledger does."""
    if component != "graph_pool" or remedy.frees_bytes is not None or case.root["resource"] != "device":
        return remedy
    rows = [row for row in case.ask("components") if row["component"] == component and row["owner"] in _GRAPHS]
    if rows:
        row = min(rows, key=lambda row: _GRAPHS.index(row["owner"]))
        how = "estimated" if row["owner"] == "estimate" else "measured"
        said = f"the engine {how} {size(row['bytes'])} of graphs"
        return msgspec.structs.replace(remedy, frees_bytes=row["bytes"], arithmetic=said)
    held = _of_ledger(case, "graph_pool")
    if held is None:
        return remedy
    said = f"the ledger has {size(held.bytes)} of graphs"
    return msgspec.structs.replace(remedy, frees_bytes=held.bytes, arithmetic=said)


def _vocabulary(case: Case) -> EvidenceRow | None:
    row = case.argument("vocab_rows", "vocab_size")
    return row if row is not None and whole(row["value"]) is not None else None


def _tensors(case: Case, tree: MemoryNode) -> list[MemoryNode]:
    """Tensors of the framework's that no line gives: components of the ledger, and logits while they are sampled."""
    there = {child.name for child in _find(tree, "framework")}
    found = [
        node for component in _FROM_LEDGER if component not in there and (node := _of_ledger(case, component)) is not None
    ]
    vocabulary, requests = _vocabulary(case), case.argument("max_num_seqs", "max_running_requests")
    sampling = case.frames_of("warm_up", "sampler") or case.called(_SAMPLING)
    if vocabulary is not None and requests is not None and whole(requests["value"]) is not None and sampling:
        element = 4 if "32" in (case.arguments.get("dtype") or {"value": ""})["value"] else 2
        amount = int(requests["value"]) * int(vocabulary["value"]) * element
        note = f"{requests['value']} sequences x {vocabulary['value']} words x {element} B"
        found.append(_node("logits", amount, "predicted", note, [requests, vocabulary]))
    return found


def _outside(case: Case) -> list[MemoryNode]:
    """Memory of the process outside the framework: the ledger's, else what this engine's version is known to take."""
    if case.ledger is not None:
        return [node for component in _OUTSIDE if (node := _of_ledger(case, component)) is not None]
    total = case.total_bytes
    if total is None or not DEVICES[0] <= total <= DEVICES[1]:
        return []
    engine = _engine(case)
    if engine is None:
        return []
    # The ledger costs as much to load as all the rest of triage, and few verdicts come so far.
    from oomctl.analyzers.ledger import estimates

    rows = [row for row in case.ask("arguments") if row["section"] == "engine"][:1]
    figures = {"context": estimates.context(engine), "driver_and_collectives": estimates.non_torch(engine)}
    return [
        _node(name, figure.bytes, "estimated", f"{figure.formula}, on H100", rows)
        for name, figure in figures.items()
        if figure.bytes is not None
    ]


def _engine(case: Case) -> "Engine | None":
    """The ledger's engine of the log's arguments; None where it is not vLLM, or tells no version."""
    name, version = case.engine
    if name != "vllm" or version is None or case.stage == "spawned":
        return None
    from oomctl.analyzers.ledger.engine import Engine, parse_version

    try:
        return Engine(
            version=parse_version(version),
            tensor_parallel=int(case.number("tensor_parallel_size", "tp_size") or 1),
            pipeline_parallel=int(case.number("pipeline_parallel_size", "pp_size") or 1),
        )
    except OomctlError:
        return None


def _of_ledger(case: Case, component: Component) -> MemoryNode | None:
    ledger = case.ledger
    if ledger is None:
        return None
    amount = ledger.total(component, _ledger_rank(ledger, case.root.get("rank")))
    if amount is None:
        return None
    qualities = {entry.quality for entry in ledger.entries if entry.component == component and entry.counts}
    quality = "estimated" if "estimated" in qualities else "predicted"
    return _node(component, amount, quality, f"not printed; from the ledger of {ledger.model}", [])


def _ledger_rank(ledger: Ledger, rank: int | None) -> int:
    """The ledger keeps the first rank of each pipeline stage; its tensor-parallel others are alike."""
    own = (rank or 0) // ledger.tensor_parallel * ledger.tensor_parallel
    return own if any(entry.rank == own for entry in ledger.entries) else 0


def _node(name: str, amount: int, quality: str, note: str, rows: list[EvidenceRow]) -> MemoryNode:
    return MemoryNode(
        name=name,
        bytes=amount,
        quality="estimated" if quality == "estimated" else "predicted",
        note=note,
        cites=cite(rows) if rows else (),
    )


def _find(tree: MemoryNode, name: str) -> tuple[MemoryNode, ...]:
    """Children of the first node of this name."""
    if tree.name == name:
        return tree.children
    return next((found for child in tree.children if (found := _find(child, name))), ())


def _under(tree: MemoryNode, parent: str, name: str, added: list[MemoryNode]) -> MemoryNode:
    """The tree with nodes under `parent`'s child of this name, and what they leave of it."""
    if not added:
        return tree
    if tree.name != parent:
        return msgspec.structs.replace(tree, children=tuple(_under(child, parent, name, added) for child in tree.children))
    children = tuple(_explained(child, added) if child.name == name else child for child in tree.children)
    return msgspec.structs.replace(tree, children=children)


def _explained(node: MemoryNode, added: list[MemoryNode]) -> MemoryNode:
    """A node with predicted children and what they leave; as it was where they are more than it holds, and so wrong."""
    left = -1 if node.bytes is None else node.bytes - sum(child.bytes or 0 for child in added)
    if left < 0:
        return node
    rest = MemoryNode(name="rest", bytes=left, quality="derived", note="what the predicted entries do not explain")
    return msgspec.structs.replace(node, children=(*added, rest))
