"""One snapshot in every layout that a version of PyTorch wrote it in, and in every form of file.

Layouts: Module.cpp and memory_snapshot.cpp of PyTorch 1.x to after 2.13; each takes away what its version did not have yet,
or adds what it had new.
"""

import copy
import gzip
import json
import pickle
from collections.abc import Callable
from typing import Any

import zstandard

Document = Any
FRAME_OF_FX = {"fx_node_op": "call_function", "fx_node_name": "mm_1", "fx_node_target": "aten.mm", "fx_original_trace": "x"}


def _blocks(document: Document) -> list[dict[str, Any]]:
    return [block for segment in document["segments"] for block in segment["blocks"]]


def _entries(document: Document) -> list[dict[str, Any]]:
    return [entry for trace in document.get("device_traces", []) for entry in trace]


def _without(document: Document, of_segments: str = "", of_blocks: str = "", of_entries: str = "") -> Document:
    for parts, keys in (
        (document["segments"], of_segments),
        (_blocks(document), of_blocks),
        (_entries(document), of_entries),
    ):
        for part in parts:
            for key in keys.split():
                part.pop(key, None)
    return document


def _bare_list(document: Document) -> Document:
    """1.x: torch.cuda.memory_snapshot()."""
    dropped = "segment_pool_id is_expandable frames"
    return _without(document, dropped, "address requested_size frames")["segments"]


def _block_history(document: Document) -> Document:
    """1.11 to 1.13: who holds a block stands first in its history; an inactive one may have its last holder there."""
    for block in _blocks(document):
        past = {"addr": 1, "real_size": block["requested_size"], "frames": block["frames"]}
        block["history"] = [past, {"addr": 1, "real_size": 7, "frames": []}] if block["requested_size"] else []
    return {"segments": _bare_list(document)}


def _v2_0(document: Document) -> Document:
    document = _without(document, "segment_pool_id is_expandable frames", "address", "time_us pool_id")
    del document["allocator_settings"]
    return document


def _v2_1(document: Document) -> Document:
    document = _without(document, of_entries="time_us pool_id")
    del document["allocator_settings"]
    return document


def _v2_6(document: Document) -> Document:
    document = _without(document, of_entries="pool_id")
    for entry in _entries(document):
        entry |= {"compile_context": "N/A", "user_metadata": ""}
    return document | {"external_annotations": [{"name": "## step ##", "stage": "START", "device": 0, "time_us": 3}]}


def _newest(document: Document) -> Document:
    for entry in _entries(document):
        entry |= {"compile_context": "0/0", "user_metadata": {"phase": ["x"]}, "forward_frames": ["File a.py, line 1\n"]}
        entry.setdefault("pool_id", (0, 0))
        entry["frames"] = [frame | FRAME_OF_FX for frame in entry["frames"]]
    document["allocator_settings"] |= {"trace_alloc_overflowed": True, "trace_alloc_max_entries": 100, "graph": None}
    return document


def _of_many_devices(document: Document) -> Document:
    """A process of rank 3 on a node of eight."""
    for segment in document["segments"]:
        segment["device"] = 3
    return document | {"device_traces": [*[[]] * 3, *document["device_traces"], *[[]] * 4]}


def _of_the_documentation(document: Document) -> Document:
    """States and actions as the documentation spells them, absent frames, stale sizes, keys of other tools."""
    for block in _blocks(document):
        if block["state"] == "active_pending_free":
            block["state"] = "active_awaiting_free"
        if block["state"] == "inactive":
            block["requested_size"] = 268435456
    for part in (*document["segments"], *_entries(document)):
        if not part["frames"]:
            part["frames"] = None
    return document | {"source_code": {"a.py": "print()"}, "shape_data": [None, 1.5, True]}


LAYOUTS: dict[str, Callable[[Document], Document]] = {
    "1.x": _bare_list,
    "1.11": _block_history,
    "2.0": _v2_0,
    "2.1": _v2_1,
    "2.6": _v2_6,
    "newest": _newest,
    "devices": _of_many_devices,
    "documentation": _of_the_documentation,
}


def _pickled(protocol: int) -> Callable[[Document], bytes]:
    return lambda document: pickle.dumps(document, protocol=protocol)


def _json(document: Document) -> bytes:
    return json.dumps(document).encode()


FORMS: dict[str, Callable[[Document], bytes]] = {
    **{f"pickle {protocol}": _pickled(protocol) for protocol in range(6)},
    "pickle.gz": lambda document: gzip.compress(pickle.dumps(document)),
    "pickle.zst": lambda document: zstandard.compress(pickle.dumps(document, protocol=2)),
    "json": _json,
    "json, indented": lambda document: json.dumps(document, indent=1).encode(),
    "json.gz": lambda document: gzip.compress(_json(document)),
    "json.zst": lambda document: zstandard.compress(_json(document)),
}


def laid_out(document: Document, layout: str) -> Document:
    """A document in a layout; the given one stays as it is."""
    return LAYOUTS[layout](copy.deepcopy(document))
