"""What lies on disk and what loading takes for a while: pages on the host, staging copies on the device."""

import msgspec

from oomctl.analyzers.ledger.checkpoint import Checkpoint
from oomctl.analyzers.ledger.engine import Engine
from oomctl.analyzers.ledger.packing import Quantization
from oomctl.analyzers.ledger.rank import Entries, Rank
from oomctl.analyzers.ledger.shape import Mla
from oomctl.analyzers.ledger.weights import disk_bytes, rank_tensors, steady_bytes
from oomctl.schemas.ledger import Entry

STREAMED_FROM = (0, 15)
"""vLLM that quantises each layer once it is there. Source: pull requests 29196, which held both, and 31914."""
REPACKED = ("int4_group", "mxfp4", "nvfp4")
"""Packings that are laid out anew for their kernel after loading, one tensor at a time."""


def loading(rank: Rank, checkpoint: Checkpoint | None, unpacked: Quantization | None) -> Entries:
    """Bytes on disk, the host's and the device's load peak.

    Args:
        rank: Of a pipeline stage.
        checkpoint: What lies on disk, where it was given.
        unpacked: The checkpoint's own packing, where the engine quantises while loading.
    """
    if rank.stage == 0:
        yield _on_disk(rank, checkpoint, unpacked)
        largest = max(checkpoint.tensors.values()) if checkpoint and checkpoint.tensors else None
        yield _on_host(rank, largest)
    yield _on_device(rank, unpacked)


def _on_disk(rank: Rank, checkpoint: Checkpoint | None, unpacked: Quantization | None) -> Entry:
    if checkpoint is None:
        shape = rank.shape if unpacked is None else msgspec.structs.replace(rank.shape, quantization=unpacked)
        entry = rank.exact(
            "weights", "load", "checkpoint", disk_bytes(shape), "tensors of the config, neither padded nor copied",
            "config.json", place="disk",
        )  # fmt: skip
        lacking = [*rank.shape.lower_bounds, *(["layers of its draft model are not counted"] if shape.draft_layers else [])]
        return msgspec.structs.replace(entry, lower_bound=bool(lacking), reason="; ".join(lacking))
    entry = rank.exact(
        "weights", "load", "checkpoint", checkpoint.file_bytes or checkpoint.tensor_bytes, "files as they lie there",
        f"{checkpoint.format} headers", place="disk",
    )  # fmt: skip
    return msgspec.structs.replace(entry, quality="measured")


def _on_host(rank: Rank, largest: int | None) -> Entry:
    """A loader maps files and copies one tensor at a time; mapped pages are the page cache's, and can be taken back."""
    if largest is None:
        alone = Engine(name=rank.engine.name, version=rank.engine.version, dtype_bytes=rank.engine.dtype_bytes)
        largest = max(tensor.bytes for tensor in rank_tensors(rank.shape, alone, 0))
        source = "the largest tensor of one rank alone; experts may be parted on disk"
    else:
        source = "checkpoint headers"
    entry = rank.exact(
        "weights", "load", "copy of the largest tensor", largest, "one tensor at a time, of each rank",
        source, place="host",
    )  # fmt: skip
    reason = "pages of the checkpoint are mapped beside it, as many as the host has room for"
    return msgspec.structs.replace(entry, lower_bound=True, reason=reason)


def _on_device(rank: Rank, unpacked: Quantization | None) -> Entry:
    """Steady weights and what stands beside them at the worst moment."""
    shape, engine, tensors = rank.shape, rank.engine, rank.tensors
    steady = steady_bytes(tensors)
    owners = ("embedding", "head", "rotary", "norm")
    largest = max((tensor.bytes for tensor in tensors if tensor.owner not in owners), default=0)
    packings = shape.quantization.packings
    if unpacked is not None:
        whole = rank_tensors(msgspec.structs.replace(shape, quantization=unpacked), engine, rank.stage)
        if engine.version < STREAMED_FROM:
            peak, formula = steady_bytes(whole) + largest, "the unquantised model, and one packed tensor"
        else:
            staged = max((tensor.bytes for tensor in whole if tensor.owner not in owners), default=0)
            peak, formula = steady + staged, "steady weights, and the largest tensor before it is packed"
    elif packings & set(REPACKED):
        peak, formula = steady + largest, "steady weights, and the largest tensor once more while it is repacked"
    elif any(isinstance(layer.mixer, Mla) for layer in rank.layers) and packings != {"none"}:
        copies = [tensor.bytes for tensor in tensors if tensor.owner == "absorbed"]
        peak, formula = steady + max(copies, default=0), "steady weights, and one unpacked kv_b_proj"
    else:
        peak, formula = steady, "steady weights: tensors are copied into their place"
    return rank.exact("weights", "load", "load peak", peak, formula, "vLLM model_loader, process_weights_after_loading")
