"""The rotary tables that an engine keeps: one per distinct kind, whole on every rank."""

from collections.abc import Iterable

from oomctl.analyzers.ledger.fields import Fields
from oomctl.analyzers.ledger.shape import Rope

UNNAMED = 8192
"""Positions of the table of a model whose config names none."""
VIDEO_LENGTH = 4
"""How much longer vLLM makes the table of a model whose positions have several axes."""


def ropes(fields: Fields, rotary_dim: int, layer_kinds: Iterable[str], float32: bool) -> tuple[Rope, ...]:
    """The distinct tables of a model: `positions x rotary_dim` elements each.

    A linear, dynamic or yarn scaling multiplies the positions it starts from; llama3's leaves them. Sections for several
    axes (M-RoPE) make the table four times as long, for long videos. Source: vLLM model_executor/layers/rotary_embedding
    (each class's `_compute_cos_sin_cache`, and `cache_max_position_num` of mrope.py).
    """
    kinds = set(layer_kinds)
    element = 4 if float32 else None
    parameters = fields.object("rope_parameters")
    found = []
    if any(parameters.object(kind) for kind in ("full_attention", "sliding_attention")):
        for kind in ("full_attention", "sliding_attention"):
            if kind in kinds:
                found.append(_table(fields, parameters.object(kind), rotary_dim, element))
    else:
        own = parameters.get("factor", "mrope_section")
        scaling = parameters if own is not None else fields.object("rope_scaling")
        found.append(_table(fields, scaling, rotary_dim, element))
        if fields.get("rope_local_base_freq", "swa_rope_theta") is not None:
            found.append(_table(fields, Fields({}, fields.where), rotary_dim, element))
    # Two of one size still are two tables: they differ in their base.
    return tuple(found)


def _table(fields: Fields, scaling: Fields, dim: int, element: int | None) -> Rope:
    positions = fields.maybe("max_position_embeddings") or UNNAMED
    kind = scaling.get("rope_type", "type") or "default"
    factor = scaling.get("factor")
    if kind == "yarn" or kind == "deepseek_yarn":
        positions = scaling.maybe("original_max_position_embeddings") or positions
    if isinstance(factor, int | float) and 0 < factor < 2**20 and kind in ("linear", "dynamic", "yarn", "deepseek_yarn"):
        positions = int(positions * factor)
    if isinstance(scaling.get("mrope_section"), list):
        positions *= VIDEO_LENGTH
    return Rope(positions=positions, dim=dim, element_bytes=element)
