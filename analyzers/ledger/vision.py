"""Vision towers: a transformer over patches, and what carries its output over to the language model."""

from collections.abc import Callable, Iterator

from oomctl.analyzers.ledger import towers
from oomctl.analyzers.ledger.fields import Fields
from oomctl.analyzers.ledger.shape import Vision

Layout = Callable[[Fields, Fields, int], Vision]
_LAYOUTS: dict[str, Layout] = {
    "qwen3_vl": towers.qwen,
    "qwen3_vl_moe": towers.qwen,
    "qwen3_5": towers.qwen,
    "qwen3_5_moe": towers.qwen,
    "siglip": towers.siglip,
    "pixtral": towers.pixtral,
    "qwen2_5_vl": towers.qwen25,
    "qwen2_vl": towers.qwen2,
    "llama4": towers.llama4,
    "moonvit": towers.moon,
    "kimi_k25": towers.moon,
    "clip": towers.clip,
    "intern_vit_6b": towers.intern,
    "internvl": towers.intern,
}


def read_vision(config: Fields, hidden: int) -> Vision | None:
    """The tower of a `vision_config`, whose layout its `model_type` names; None where that is not known.

    Args:
        config: The whole config.json.
        hidden: Width of the language model.
    """
    fields = config.object("vision_config")
    kind = str(fields.get("model_type") or config.get("model_type") or "")
    layout = _LAYOUTS.get(kind.removesuffix("_model").removesuffix("_vision"))
    return None if layout is None else layout(config, fields, hidden)


def vision_tensors(own: Vision, ranks: int, element_bytes: int, on_disk: bool = False) -> Iterator[int]:
    """Bytes of the tower's tensors on one rank: its matrices are split, norms, patches and positions are not.

    Matrices stay in the model's type: quantised checkpoints leave the tower alone.
    """
    yield from (elements * element_bytes for elements in own.whole if elements)
    if on_disk and own.on_disk:
        yield own.on_disk * element_bytes
    up = own.intermediate * (2 if own.gated else 1)
    split_biases = up + (3 * own.hidden if own.query_bias else 0)
    norms = 2 * own.hidden * (2 if own.norm_bias else 1)
    for _ in range(own.layers if on_disk else own.layers - own.unloaded):
        yield 3 * own.hidden * own.hidden // ranks * element_bytes
        yield own.hidden * own.hidden // ranks * element_bytes
        yield up * own.hidden // ranks * element_bytes
        yield own.hidden * own.intermediate // ranks * element_bytes
        if own.bias:
            # Beside the split ones two outputs', which are whole.
            yield (split_biases // ranks + 2 * own.hidden) * element_bytes
        yield norms * element_bytes
    for projection in own.projections:
        yield projection.into * projection.out // (ranks if projection.split else 1) * element_bytes
