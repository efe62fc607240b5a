"""Entries of the weights: the tensors of a rank by their owner, and the allocator's rounding."""

from collections import defaultdict

from oomctl.analyzers.ledger.rank import Entries, Rank
from oomctl.analyzers.ledger.weights import steady_bytes
from oomctl.schemas.ledger import Entry

_FORMULAS = {
    "embedding": "padded vocabulary / tp x hidden",
    "head": "padded vocabulary / tp x hidden",
    "attention": "fused q, k, v (KV heads replicated where ranks exceed them) and output",
    "mlp": "fused gate and up, and down, / tp",
    "experts": "all local experts, gate, up and down",
    "shared experts": "gate, up and down, / tp",
    "router": "experts x hidden, whole on every rank",
    "state": "projections and convolution of recurrent layers, / tp",
    "absorbed": "unpacked copies of kv_b_proj for the absorbed form of MLA",
    "rotary": "positions x rotary dim, whole on every rank",
    "vision tower": "matrices / tp; patches, positions and norms whole",
    "norm": "whole on every rank",
    "draft": "what joins a token to the last state, and norms, of the model's own draft layers",
    "draft model": "its tensors, split like the served model's; EAGLE's share embedding and head",
}


def weights(rank: Rank) -> Entries:
    """Bytes of each owner, marked a lower bound where the model has what is not counted."""
    shape = rank.shape
    tensors = rank.tensors
    owners: dict[str, int] = defaultdict(int)
    for tensor in tensors:
        owners[tensor.owner] += tensor.bytes
    for owner, size in owners.items():
        yield Entry(
            component="weights",
            lifetime="worker",
            owner=owner,
            rank=rank.number,
            bytes=size,
            quality="predicted",
            formula=_FORMULAS.get(owner, ""),
            source="config.json; vLLM model_executor",
            lower_bound=bool(shape.lower_bounds),
            reason="; ".join(shape.lower_bounds),
        )
    rounding = steady_bytes(tensors) - sum(owners.values())
    formula = "blocks of the caching allocator less the tensors in them"
    yield rank.exact("weights", "allocator", "allocator rounding", rounding, formula, "PyTorch CUDACachingAllocator")
    if rank.offloaded_bytes:
        yield rank.exact(
            "weights", "worker", "offloaded", rank.offloaded_bytes,
            "tensors of the first layers until --cpu-offload-gb is full", "vLLM maybe_offload_to_cpu", place="host",
        )  # fmt: skip
