"""One allocator snapshot, small enough to be checked by hand."""

from typing import Any

from tests.allocator.heaps import MIB, block, document, free, oom, segment


def snapshot() -> dict[str, Any]:
    """An allocator as PyTorch dumps it: weights with a hole behind them, a cached segment, and a graph's own pool."""

    def by(function: str, line: int) -> list[dict[str, Any]]:
        torch = {"filename": "/pkg/torch/nn/modules/module.py", "line": 900, "name": "_apply"}
        return [torch, {"filename": f"/pkg/engine/{function}.py", "line": line, "name": function}]

    weights = segment(
        1 << 40,
        block(80 * MIB, frames=by("load_weights", 7)),
        free(24 * MIB),
        block(40 * MIB, frames=by("allocate_kv", 12)),
    )
    cached = segment(2 << 40, free(20 * MIB))
    graph = segment(3 << 40, block(8 * MIB, frames=by("capture", 3)), free(12 * MIB), segment_pool_id=(0, 1))
    return document(weights, cached, graph, trace=[oom(64 * MIB, 8 * MIB, frames=by("execute_model", 9))])
