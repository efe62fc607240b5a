"""Reads what torch.cuda.memory._dump_snapshot() wrote, in every layout, and never runs what the file says."""

from oomctl.collectors.artifacts.torch_snapshot.layout import read_document
from oomctl.collectors.artifacts.torch_snapshot.load import load
from oomctl.schemas.heap import Snapshot

__all__ = ["load_snapshot"]


def load_snapshot(path: str, name: str | None = None) -> Snapshot:
    """Read a snapshot: pickle or JSON, plain, gzip or zstd.

    Args:
        path: Where it lies.
        name: What to call it.

    Raises:
        OomctlError: If it is no snapshot, damaged, hostile or beyond reason.
    """
    name = name or path
    with load(path, name) as (document, size_bytes):
        return read_document(document, name, size_bytes)
