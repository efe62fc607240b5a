"""Layouts of vision towers, one per family: what a `vision_config` says beside what the family's code fixes.

Source: vLLM model_executor/models/siglip.py, clip.py, llava.py, intern_vit.py, internvl.py, pixtral.py, mistral3.py,
gemma3_mm.py, qwen3_vl.py, qwen2_vl.py, qwen2_5_vl.py, mllama4.py, moonvit.py, kimi_vl.py, kimi_k25_vit.py.
"""

from oomctl.analyzers.ledger.fields import Fields
from oomctl.analyzers.ledger.shape import Projection, Vision
from oomctl.schemas.errors import OomctlError


def qwen(config: Fields, fields: Fields, hidden: int) -> Vision:
    """Qwen3-VL: a merger at the end and one more at each deep layer."""
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
        # The first merger norms patches before it joins them, the deep ones after.
        whole=(
            (patch + 1) * width,
            (fields.maybe("num_position_embeddings") or 0) * width,
            2 * width + (mergers - 1) * 2 * merged,
            mergers * (merged + out),
        ),
        projections=_merger(merged, out) * mergers,
    )


def qwen25(config: Fields, fields: Fields, hidden: int) -> Vision:
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
        norm_bias=False,
        whole=(patch * width, width, merged + out),
        projections=_merger(merged, out),
    )


def qwen2(config: Fields, fields: Fields, hidden: int) -> Vision:
    """Qwen2-VL: ungated layers whose width is a multiple of the tower's."""
    width, ratio = fields.need("embed_dim"), fields.maybe("mlp_ratio") or 4
    merged = fields.need("spatial_merge_size") ** 2 * width
    patch = _patch(fields)
    return Vision(
        layers=fields.need("depth", "num_hidden_layers"),
        hidden=width,
        intermediate=ratio * width,
        gated=False,
        bias=True,
        whole=(patch * width, 2 * width, merged + hidden),
        projections=_merger(merged, hidden),
    )


def _patch(fields: Fields) -> int:
    """Elements of a patch of Qwen's towers, which take two frames at once."""
    return fields.need("patch_size") ** 2 * (fields.maybe("temporal_patch_size") or 1) * (fields.maybe("in_channels") or 3)


def _merger(merged: int, out: int) -> tuple[Projection, Projection]:
    """What leads several patches together into the language model."""
    return Projection(into=merged, out=merged), Projection(into=merged, out=out)


def llama4(config: Fields, fields: Fields, hidden: int) -> Vision:
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


def siglip(config: Fields, fields: Fields, hidden: int) -> Vision:
    """SigLIP under Gemma 3, whose projector is a plain matrix behind a norm."""
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


def pixtral(config: Fields, fields: Fields, hidden: int) -> Vision:
    """Pixtral, alone or with a merger of patches under Mistral Small 3."""
    width, patch = fields.need("hidden_size"), fields.need("patch_size")
    merge = (config.maybe("spatial_merge_size") or 1) ** 2
    merger = (Projection(into=merge * width, out=width, split=False),) if merge > 1 else ()
    norms = (width,) if merger else ()
    biases = (2 * hidden,) if config.flag("multimodal_projector_bias", default=not merger) else ()
    return Vision(
        layers=fields.need("num_hidden_layers"),
        hidden=width,
        intermediate=fields.need("intermediate_size"),
        gated=True,
        bias=False,
        norm_bias=False,
        whole=(3 * patch**2 * width, width, *biases, *norms),
        projections=(*merger, Projection(into=width, out=hidden), Projection(into=hidden, out=hidden)),
    )


def moon(config: Fields, fields: Fields, hidden: int) -> Vision:
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


def clip(config: Fields, fields: Fields, hidden: int) -> Vision:
    """CLIP under LLaVA: the features are those of an earlier layer, and what lies behind it is not loaded."""
    width, patch = fields.need("hidden_size"), fields.need("patch_size")
    positions = (fields.need("image_size") // patch) ** 2 + 1
    layers, chosen = fields.need("num_hidden_layers"), config.get("vision_feature_layer")
    behind = -chosen - 1 if type(chosen) is int and -layers <= chosen < 0 else 1
    newline = hidden if config.get("image_grid_pinpoints") else 0
    return Vision(
        layers=layers,
        unloaded=behind,
        hidden=width,
        intermediate=fields.need("intermediate_size"),
        gated=False,
        bias=True,
        whole=(width, 3 * patch**2 * width, positions * width, 2 * width, newline, 2 * hidden),
        on_disk=2 * width,
        projections=(Projection(into=width, out=hidden), Projection(into=hidden, out=hidden)),
    )


def intern(config: Fields, fields: Fields, hidden: int) -> Vision:
    """InternViT: layer scales, and a projector of four patches each, whole on every rank."""
    width, patch = fields.need("hidden_size"), fields.need("patch_size")
    layers = fields.need("num_hidden_layers")
    positions = (fields.need("image_size") // patch) ** 2 + 1
    ratio = config.get("downsample_ratio")
    joined = width * round(1 / ratio**2) if isinstance(ratio, int | float) and 0 < ratio <= 1 else 4 * width
    biased = fields.flag("qkv_bias", "attention_bias")
    normed = 2 * width if fields.flag("qk_normalization", "use_qk_norm") else 0
    return Vision(
        layers=layers,
        hidden=width,
        intermediate=fields.need("intermediate_size"),
        gated=False,
        bias=True,
        query_bias=biased,
        norm_bias=fields.get("norm_type") != "rms_norm",
        whole=(
            (3 * patch**2 + 2) * width, positions * width, 2 * joined, 2 * hidden,
            *([2 * width + normed] * layers),
        ),
        projections=(Projection(into=joined, out=hidden, split=False), Projection(into=hidden, out=hidden, split=False)),
    )  # fmt: skip
