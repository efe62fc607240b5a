"""The copies of MLA's up-projections that an engine keeps for decoding, where attention runs on the compressed rows."""

from collections.abc import Iterator

from oomctl.analyzers.ledger.engine import Engine
from oomctl.analyzers.ledger.packing import Scheme
from oomctl.analyzers.ledger.shape import Mla

MATERIALIZED = ((0, 7), (0, 8))
"""vLLM versions, the last one excluded, that multiplied the projections out."""


def absorbed_bytes(own: Mla, heads: int, hidden: int, element_bytes: int, scheme: Scheme, engine: Engine) -> Iterator[int]:
    """Bytes of each copy on one rank.

    From 0.8: W_UV and W_UK, unpacked, in the model's type whatever the packing. vLLM 0.7 multiplied them into their
    neighbours instead, W_Q x W_UK and W_UV x W_O, in FP8 where the checkpoint is, kept the queries' rotary part apart, and
    held the unpacked kv_b_proj of a packed checkpoint alive by views. Before 0.7 it had no latent attention.

    Source: vLLM model_executor/layers/attention/mla_attention.py and, of 0.7, attention/backends/mla/utils.py,
    `process_weights_after_loading`; removed by pull request 14770.

    Args:
        own: The layer.
        heads: Of this rank.
        hidden: Width of the model.
        element_bytes: Of the model's type.
        scheme: The packing of its projections.
        engine: Its version decides.
    """
    unpacked = heads * own.kv_rank * element_bytes
    if engine.name != "vllm" or engine.version >= MATERIALIZED[1]:
        yield from (own.value_dim * unpacked, own.nope_dim * unpacked)
        return
    if engine.version < MATERIALIZED[0]:
        return
    if scheme.packing != "none":
        yield (own.value_dim + own.nope_dim) * unpacked
    into = own.query_rank or hidden
    yield into * heads * own.rope_dim * element_bytes
    kept = scheme if scheme.packing.startswith("fp8") else Scheme()
    yield from kept.tensors(heads * own.kv_rank, into, element_bytes)
    yield from kept.tensors(hidden, heads * own.kv_rank, element_bytes)
