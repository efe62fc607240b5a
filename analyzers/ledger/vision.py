"""Vision towers: a transformer over patches, and what carries its output over to the language model."""

from collections.abc import Iterator

from oomctl.analyzers.ledger.fields import Fields
from oomctl.analyzers.ledger.shape import Projection, Vision
from oomctl.schemas.errors import OomctlError

_PIXTRAL = ("pixtral",)
_SIGLIP = ("siglip_vision_model",)
_QWEN = ("qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe")
_QWEN25 = ("qwen2_5_vl",)
_MOON = ("moonvit", "kimi_k25")


def read_vision(config: Fields, hidden: int) -> Vision | None:
    """The tower of a `vision_config`, whose layout its `model_type` names; None where that is not known.

    Args:
        config: The whole config.json.
        hidden: Width of the language model.

    Source: vLLM model_executor/models/siglip.py, pixtral.py, mistral3.py, gemma3_mm.py, qwen3_vl.py,
    qwen2_vl.py, qwen2_5_vl.py, mllama4.py, moonvit.py, kimi_vl.py, kimi_k25_vit.py.
    """
    fields = config.object("vision_config")
    kind = str(fields.get("model_type") or config.get("model_type") or "").removesuffix("_vision")
    if kind in _QWEN:
        return _qwen(fields, hidden)
    if kind.removesuffix("_model") in ("siglip",) or kind in _SIGLIP:
        return _siglip(fields, hidden)
    if kind in _PIXTRAL:
        return _pixtral(config, fields, hidden)
    if kind in _QWEN25:
        return _qwen25(fields, hidden)
    if kind == "qwen2_vl":
        return _qwen2(fields, hidden)
    if kind == "llama4_vision_model":
        return _llama4(fields, hidden)
    if kind in _MOON:
        return _moon(fields, hidden)
    return None


def _qwen(fields: Fields, hidden: int) -> Vision:
    width = fields.need("hidden_size")
    merged = fields.need("spatial_merge_size") ** 2 * width
    deep = fields.get("deepstack_visual_indexes")
    mergers = 1 + (len(deep) if isinstance(deep, list) else 0)
    out = fields.maybe("out_hidden_size") or hidden
    patch = _patch(fields)
    return Vision(
        layers=fields.need("depth", "num_hidden_layers"),
        hidden=width,
        intermediate=fields.need("intermediate_size"),
        gated=False,
        bias=True,
        whole=((patch + 1) * width, (fields.maybe("num_position_embeddings") or 0) * width, mergers * 2 * merged),
        projections=_merger(merged, out) * mergers,
    )


def _qwen25(fields: Fields, hidden: int) -> Vision:
    """Qwen2.5-VL: gated layers with biases, one merger, no learned positions."""
    width = fields.need("hidden_size")
    merged = fields.need("spatial_merge_size") ** 2 * width
    out = fields.maybe("out_hidden_size") or hidden
    patch = _patch(fields)
    return Vision(
        layers=fields.need("depth", "num_hidden_layers"),
        hidden=width,
        intermediate=fields.need("intermediate_size"),
        gated=True,
        bias=True,
        whole=(patch * width, width, out),
        projections=_merger(merged, out),
    )


def _qwen2(fields: Fields, hidden: int) -> Vision:
    width, ratio = fields.need("embed_dim"), fields.maybe("mlp_ratio") or 4
    merged = fields.need("spatial_merge_size") ** 2 * width
    patch = _patch(fields)
    return Vision(
        layers=fields.need("depth", "num_hidden_layers"),
        hidden=width,
        intermediate=ratio * width,
        gated=False,
        bias=True,
        whole=(patch * width, 2 * width, hidden),
        projections=_merger(merged, hidden),
    )


def _patch(fields: Fields) -> int:
    """Elements of a patch of Qwen's towers, which take two frames at once."""
    return fields.need("patch_size") ** 2 * (fields.maybe("temporal_patch_size") or 1) * (fields.maybe("in_channels") or 3)


def _merger(merged: int, out: int) -> tuple[Projection, Projection]:
    """What leads several patches together into the language model."""
    return Projection(into=merged, out=merged), Projection(into=merged, out=out)


def _llama4(fields: Fields, hidden: int) -> Vision:
    """Llama 4: patches are a split matrix too; a pixel shuffle leads over to the projector."""
    width, wide, patch = fields.need("hidden_size"), fields.need("intermediate_size"), fields.need("patch_size")
    into, out = fields.need("projector_input_dim"), fields.need("projector_output_dim")
    return Vision(
        layers=fields.need("num_hidden_layers"),
        hidden=width,
        intermediate=wide,
        gated=False,
        bias=True,
        # The class's embedding, positions, and the norms before and after.
        whole=(width, ((fields.need("image_size") // patch) ** 2 + 1) * width, 2 * width, 2 * width),
        projections=(
            Projection(into=3 * patch**2, out=width),
            Projection(into=wide, out=into),
            Projection(into=into, out=out),
            Projection(into=fields.maybe("vision_output_dim") or out, out=hidden),
        ),
    )


def _siglip(fields: Fields, hidden: int) -> Vision:
    width, patch = fields.need("hidden_size"), fields.need("patch_size")
    positions = (fields.need("image_size") // patch) ** 2
    return Vision(
        layers=fields.need("num_hidden_layers"),
        hidden=width,
        intermediate=fields.need("intermediate_size"),
        gated=False,
        bias=True,
        # Gemma's projector is a plain parameter with a norm before it.
        whole=((3 * patch**2 + 1) * width, positions * width, 3 * width),
        projections=(Projection(into=width, out=hidden, split=False),),
    )


def _pixtral(config: Fields, fields: Fields, hidden: int) -> Vision:
    width, patch = fields.need("hidden_size"), fields.need("patch_size")
    merge = (config.maybe("spatial_merge_size") or 1) ** 2
    merger = (Projection(into=merge * width, out=width, split=False),) if merge > 1 else ()
    return Vision(
        layers=fields.need("num_hidden_layers"),
        hidden=width,
        intermediate=fields.need("intermediate_size"),
        gated=True,
        bias=False,
        whole=((3 * patch**2 + 2) * width,),
        projections=(*merger, Projection(into=width, out=hidden), Projection(into=hidden, out=hidden)),
    )


def _moon(fields: Fields, hidden: int) -> Vision:
    """MoonViT: learned positions on a grid, and a projector that every rank holds whole."""
    width, patch = fields.need("vt_hidden_size", "hidden_size"), fields.need("patch_size")
    merged = width * _merged(fields)
    grid = fields.need("init_pos_emb_height") * fields.need("init_pos_emb_width")
    out = fields.maybe("text_hidden_size") or hidden
    return Vision(
        layers=fields.need("vt_num_hidden_layers", "num_hidden_layers"),
        hidden=width,
        intermediate=fields.need("vt_intermediate_size", "intermediate_size"),
        gated=False,
        bias=True,
        # Patches, positions, the last norm and the projector's, and the projector's biases.
        whole=((3 * patch**2 + 1) * width, grid * width, 2 * width, 2 * width, merged, out),
        projections=(Projection(into=merged, out=merged, split=False), Projection(into=merged, out=out, split=False)),
    )


def _merged(fields: Fields) -> int:
    """Patches that are merged into one; 2 x 2 where the config does not tell."""
    kernel = fields.get("merge_kernel_size") or [2, 2]
    sized = isinstance(kernel, list) and len(kernel) == 2 and all(type(one) is int and 0 < one < 2**16 for one in kernel)
    if not sized:
        raise OomctlError(f"merge_kernel_size is no pair of counts ({fields.where})")
    return int(kernel[0] * kernel[1])


def vision_tensors(own: Vision, ranks: int, element_bytes: int) -> Iterator[int]:
    """Bytes of the tower's tensors on one rank: its matrices are split, norms, patches and positions are not.

    Matrices stay in the model's type: quantised checkpoints leave the tower alone.
    """
    yield from (elements * element_bytes for elements in own.whole if elements)
    up = own.intermediate * (2 if own.gated else 1)
    for _ in range(own.layers):
        yield 3 * own.hidden * own.hidden // ranks * element_bytes
        yield own.hidden * own.hidden // ranks * element_bytes
        yield up * own.hidden // ranks * element_bytes
        yield own.hidden * own.intermediate // ranks * element_bytes
        if own.bias:
            # Beside the split ones two outputs' and two norms', which are whole.
            yield ((3 * own.hidden + up) // ranks + 4 * own.hidden) * element_bytes
        yield 2 * own.hidden * element_bytes
    for projection in own.projections:
        yield projection.into * projection.out // (ranks if projection.split else 1) * element_bytes
