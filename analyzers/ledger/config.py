"""A config.json as a ModelShape."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from oomctl.analyzers.ledger.architectures import ARCHITECTURES, Traits, assumed, named
from oomctl.analyzers.ledger.feeds import feed_forward, mlp, moe, searched
from oomctl.analyzers.ledger.fields import Fields
from oomctl.analyzers.ledger.mixers import attention_kinds, grouped, mixer
from oomctl.analyzers.ledger.quantization import read_quantization
from oomctl.analyzers.ledger.recurrent import mamba2
from oomctl.analyzers.ledger.rotary import ropes
from oomctl.analyzers.ledger.shape import Attention, Layer, Mla, ModelShape, State
from oomctl.analyzers.ledger.vision import read_vision
from oomctl.schemas.errors import OomctlError

DTYPE_BYTES = {"bfloat16": 2, "float16": 2, "half": 2, "float32": 4, "float": 4}
UNBOUNDED = 2048
"""Positions that vLLM assumes of a model that names none. Source: vLLM config/model.py, _get_and_verify_max_len."""
_MOST_LAYERS = 2000
_LARGEST_CONFIG = 16 * 2**20


def load(path: Path) -> ModelShape:
    """The shape of a config.json, of the folder that holds it, with its hf_quant_config.json where one lies beside it."""
    file = path / "config.json" if path.is_dir() else path
    config, digest = _read(file)
    beside = [
        file.parent / "hf_quant_config.json",
        file.with_name(file.name.replace("_config.json", "_hf_quant_config.json")),
    ]
    extra = next((_read(item)[0] for item in beside if item != file and item.is_file()), {})
    quantization = extra.get("quantization")
    name = path.name if path.is_dir() else file.parent.name if file.name == "config.json" else file.stem
    return from_mapping(
        config, name, quantization if isinstance(quantization, Mapping) else None, where=str(file), config_hash=digest
    )


def from_mapping(
    config: Mapping[str, Any],
    name: str,
    quantization: Mapping[str, Any] | None = None,
    *,
    where: str = "config",
    config_hash: str | None = None,
) -> ModelShape:
    """The shape of a parsed config.json.

    Args:
        config: The whole of it.
        name: Shown.
        quantization: The `quantization` of a hf_quant_config.json, for a config that has none.
        where: Named in errors.
        config_hash: Kept in the ledger.
    """
    top = Fields(config, where)
    nested = next(
        (top.object(key) for key in ("text_config", "llm_config", "language_config", "thinker_config") if top.object(key)),
        None,
    )
    if nested is not None and nested.object("text_config"):
        nested = nested.object("text_config")
    fields = (nested or top).flat("attn_config", "ffn_config")
    architecture = named(next(iter(top.words("architectures")), ""), str(top.get("model_type") or ""))
    traits, lower_bounds = _traits(top, fields, architecture)
    if fields.flag("is_encoder_decoder") or fields.get("encoder_layers"):
        raise OomctlError(f"{architecture[:80]} has an encoder and a decoder, which are not modelled ({where})")
    vision = read_vision(top, fields.need("hidden_size")) if top.object("vision_config") else None
    if vision is None and top.object("vision_config"):
        lower_bounds.append("the vision tower is not counted")
    if top.object("audio_config"):
        lower_bounds.append("the audio tower is not counted")
    count = _layer_count(fields)
    kinds = attention_kinds(fields, count, architecture)
    layers = _layers(fields, traits, kinds)
    tied = fields.get("tie_word_embeddings")
    tied = top.get("tie_word_embeddings") if tied is None else tied
    declared = top.get("quantization_config") or fields.get("quantization_config") or quantization or {}
    if not isinstance(declared, Mapping):
        raise OomctlError(f"quantization_config is no object ({where})")
    drafts = min(fields.maybe("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules") or 0, 16)
    attends = [index for index, layer in enumerate(layers) if not isinstance(layer.mixer, State | None)]
    return ModelShape(
        name=name,
        architecture=architecture,
        hidden=fields.need("hidden_size"),
        vocabulary=fields.maybe("draft_vocab_size") or fields.need("vocab_size"),
        layers=layers,
        draft_layers=(layers[attends[-1]],) * drafts if attends else (),
        tied_embeddings=traits.tied if tied is None else bool(tied),
        beside_embedding=_beside_embedding(fields, traits),
        head_bias=fields.flag("lm_head_bias", default=traits.head_bias),
        norm_bias=traits.norm_bias,
        element_bytes=_element_bytes(top, fields),
        ropes=ropes(fields, _rotary_dim(fields, layers), kinds, traits.rotary_float32)
        if attends and traits.rotates
        else (),
        max_positions=_positions(fields),
        vision=vision,
        quantization=read_quantization(declared, where),
        lower_bounds=tuple(lower_bounds),
        cache_unknown=_cache_unknown(fields),
        config_hash=config_hash,
    )


def _traits(top: Fields, fields: Fields, architecture: str) -> tuple[Traits, list[str]]:
    """What is known of an architecture, and what makes the figure a lower bound."""
    known = ARCHITECTURES.get(architecture)
    if known is None:
        text = f"architecture {architecture[:80]} is not known: counted as the least that a decoder has"
        return assumed(str(fields.get("hidden_act", "activation_function", "hidden_activation") or "")), [text]
    if architecture.startswith(("Llava", "InternVL")):
        # The language model of these is one of several, which its own config names.
        inner = named(next(iter(fields.words("architectures")), ""), str(fields.get("model_type") or ""))
        known = ARCHITECTURES.get(inner, known)
    # Falcon norms once where attention and feed-forward run beside each other, but for its later layout.
    doubled = fields.flag("new_decoder_architecture") and fields.maybe("num_ln_in_parallel_attn") != 1
    if doubled or fields.get("parallel_attn") is False:
        known = msgspec.structs.replace(known, norms=2)
    return known, [] if known.complete else [f"parts of {architecture} are not counted"]


def _beside_embedding(fields: Fields, traits: Traits) -> tuple[int, ...]:
    """Elements of what the embedding is added to or normed by: whole on the first stage."""
    hidden = fields.need("hidden_size")
    table = () if traits.positions is None else ((fields.need("max_position_embeddings") + traits.positions) * hidden,)
    return (*table, *((2 * hidden,) if traits.embedding_norm else ()))


def _cache_unknown(fields: Fields) -> str:
    """Why the layers do not tell what is kept per token."""
    for name in ("compress_ratios", "sparse_attention_config"):
        if fields.get(name):
            return f"what attention with {name} keeps per token is not modelled"
    return ""


def _positions(fields: Fields) -> int:
    return fields.maybe("max_position_embeddings", "model_max_length") or UNBOUNDED


def _read(path: Path) -> tuple[dict[str, Any], str]:
    try:
        if path.stat().st_size > _LARGEST_CONFIG:
            raise OomctlError(f"too large for a config.json ({path})")
        data = path.read_bytes()
    except OSError as error:
        raise OomctlError(
            f"{(error.strerror or str(error)).lower()} ({path})", "name a config.json or its folder"
        ) from None
    try:
        config = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise OomctlError(f"no JSON: {str(error)[:80]} ({path})", "name a config.json or its folder") from None
    if not isinstance(config, dict):
        raise OomctlError(f"no JSON object ({path})", "name a config.json or its folder")
    return config, hashlib.sha256(data).hexdigest()


def _layer_count(fields: Fields) -> int:
    pattern = fields.get("hybrid_override_pattern")
    listed = len(pattern) if isinstance(pattern, str) else len(fields.words("layers_block_type"))
    count = listed or len(fields.objects("block_configs")) or fields.need("num_hidden_layers")
    if count > _MOST_LAYERS:
        raise OomctlError(f"{count} layers are more than any model has ({fields.where})")
    return count


def _element_bytes(top: Fields, fields: Fields) -> int:
    name = str(top.get("dtype") or fields.get("dtype") or "bfloat16").removeprefix("torch.")
    if name not in DTYPE_BYTES:
        raise OomctlError(f'dtype "{name[:40]}" is not known ({top.where})', f"known: {', '.join(DTYPE_BYTES)}")
    # An engine serves a float32 checkpoint in half precision unless told otherwise.
    return min(DTYPE_BYTES[name], 2)


def _rotary_dim(fields: Fields, layers: tuple[Layer, ...]) -> int:
    for layer in layers:
        if isinstance(layer.mixer, Mla):
            return layer.mixer.rope_dim
    explicit = fields.maybe("rotary_dim")
    if explicit:
        return explicit
    head = fields.maybe("head_dim") or fields.need("hidden_size") // fields.need("num_attention_heads")
    share = fields.get("partial_rotary_factor", "rotary_pct", "rope_pct")
    share = share or fields.object("rope_parameters").get("partial_rotary_factor")
    return int(head * share) if isinstance(share, int | float) and 0 < share <= 1 else head


def _layers(fields: Fields, traits: Traits, kinds: list[str]) -> tuple[Layer, ...]:
    blocks = fields.objects("block_configs")
    if blocks:
        return tuple(_searched(block, fields, traits) for block in blocks)
    layers = [_layer(fields, traits, kind, index) for index, kind in enumerate(kinds)]
    return tuple(_sharing(layer) if _shares(fields, index, len(layers)) else layer for index, layer in enumerate(layers))


def _shares(fields: Fields, index: int, count: int) -> bool:
    """Whether a layer reads the keys and values of an earlier one: Gemma's last ones, Hunyuan's every second."""
    if index >= count - (fields.maybe("num_kv_shared_layers") or 0):
        return True
    return fields.flag("use_cla") and index % (fields.maybe("cla_share_factor") or 1) != 0


def _sharing(layer: Layer) -> Layer:
    if not isinstance(layer.mixer, Attention):
        return layer
    return msgspec.structs.replace(layer, mixer=msgspec.structs.replace(layer.mixer, shares_cache=True))


def _layer(fields: Fields, traits: Traits, kind: str, index: int) -> Layer:
    alone = kind in ("mamba_only", "attention_only", "mlp_only", "moe_only")
    if kind == "mlp_only":
        return Layer(mixer=None, feed_forward=mlp(fields, traits), norms=1)
    if kind == "moe_only":
        return Layer(mixer=None, feed_forward=moe(fields, traits), norms=1)
    return Layer(
        mixer=mixer(fields, traits, "full_attention" if kind == "parallel" else kind),
        beside=mamba2(fields) if kind == "parallel" else None,
        feed_forward=None if alone else feed_forward(fields, traits, index),
        norms=1 if alone else traits.norms,
    )


def _searched(block: Fields, fields: Fields, traits: Traits) -> Layer:
    """A layer of its own kind: attention with its own number of KV heads, or none, and a width of its own, or none."""
    attention, feed = block.object("attention"), searched(block.object("ffn"), fields)
    own: Attention | None = None
    if not attention.flag("no_op"):
        group, heads = attention.maybe("n_heads_in_group"), fields.need("num_attention_heads")
        if not group or heads % group or attention.flag("replace_with_linear"):
            raise OomctlError(f"an attention block of block_configs is not known ({fields.where})")
        own = grouped(fields, traits, heads // group)
    return Layer(mixer=own, feed_forward=feed, norms=(own is not None) + (feed is not None))
