"""Weights that a rank keeps on the host."""

from oomctl.analyzers.ledger.weights import Tensor

_STAYS = ("embedding", "head", "rotary", "vision tower", "absorbed", "draft", "draft model")
"""Owners of tensors that lie outside the layers, or are made after loading."""


def offloaded(tensors: list[Tensor], most_bytes: int) -> tuple[list[Tensor], int]:
    """(what stays on the device, bytes on the host): tensors of layers go to the host, in order, until there are enough.

    Source: vLLM model_executor/models/utils.py, maybe_offload_to_cpu; SGLang utils/offloader.py is alike.
    """
    kept, moved = [], 0
    for tensor in tensors:
        if tensor.owner not in _STAYS and moved < most_bytes:
            moved += tensor.bytes
        else:
            kept.append(tensor)
    return kept, moved
