"""A config.json as a ModelShape."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from oomctl.analyzers.ledger.architectures import ARCHITECTURES, Traits
from oomctl.analyzers.ledger.fields import Fields
from oomctl.analyzers.ledger.mixers import attention_kinds, mixer
from oomctl.analyzers.ledger.quantization import read_quantization
from oomctl.analyzers.ledger.rotary import ropes
from oomctl.analyzers.ledger.shape import Layer, Mla, Mlp, ModelShape, Moe, State
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
    fields = nested or top
    architecture = next(iter(top.words("architectures")), "") or str(top.get("model_type") or "unknown")
    traits = ARCHITECTURES.get(architecture)
    lower_bounds = (
        [] if traits is not None else [f"architecture {architecture[:80]} is not known: counted as a plain decoder"]
    )
    traits = traits or Traits()
    if not traits.complete:
        lower_bounds.append(f"parts of {architecture} are not counted")
    vision = read_vision(top, fields.need("hidden_size", "n_embd", "d_model")) if top.object("vision_config") else None
    if vision is None and top.object("vision_config"):
        lower_bounds.append("the vision tower is not counted")
    if top.object("audio_config"):
        lower_bounds.append("the audio tower is not counted")
    count = _layer_count(fields)
    kinds = attention_kinds(fields, count, architecture)
    layers = tuple(_layer(fields, traits, kind, index) for index, kind in enumerate(kinds))
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
        hidden=fields.need("hidden_size", "n_embd", "d_model"),
        vocabulary=fields.need("vocab_size", "padded_vocab_size"),
        layers=layers,
        draft_layers=(layers[attends[-1]],) * drafts if attends else (),
        tied_embeddings=traits.tied if tied is None else bool(tied),
        head_bias=traits.head_bias,
        norm_bias=traits.norm_bias,
        element_bytes=_element_bytes(top, fields),
        ropes=ropes(fields, _rotary_dim(fields, layers), kinds, traits.rotary_float32)
        if attends and traits.rotates
        else (),
        max_positions=_positions(fields, bool(attends)),
        vision=vision,
        quantization=read_quantization(declared, where),
        lower_bounds=tuple(lower_bounds),
        config_hash=config_hash,
    )


def _positions(fields: Fields, attends: bool) -> int:
    names = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")
    return fields.need(*names) if attends else fields.maybe(*names) or UNBOUNDED


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
    count = listed or fields.need("num_hidden_layers", "n_layer", "num_layers")
    if count > _MOST_LAYERS:
        raise OomctlError(f"{count} layers are more than any model has ({fields.where})")
    return count


def _element_bytes(top: Fields, fields: Fields) -> int:
    name = str(top.get("dtype", "torch_dtype") or fields.get("dtype", "torch_dtype") or "bfloat16").removeprefix("torch.")
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
    share = fields.get("partial_rotary_factor") or fields.object("rope_parameters").get("partial_rotary_factor")
    return int(head * share) if isinstance(share, int | float) and 0 < share <= 1 else head


def _layer(fields: Fields, traits: Traits, kind: str, index: int) -> Layer:
    alone = kind in ("mamba_only", "attention_only", "mlp_only", "moe_only")
    if kind == "mlp_only":
        return Layer(mixer=None, feed_forward=_mlp(fields, traits), norms=1)
    if kind == "moe_only":
        return Layer(mixer=None, feed_forward=_moe(fields, traits, index), norms=1)
    return Layer(
        mixer=mixer(fields, traits, kind),
        feed_forward=None if alone else _feed_forward(fields, traits, index),
        norms=1 if alone else traits.norms,
    )


def _feed_forward(fields: Fields, traits: Traits, index: int) -> Mlp | Moe:
    return _moe(fields, traits, index) if _is_sparse(fields, index) else _mlp(fields, traits)


def _experts(fields: Fields) -> int:
    return fields.maybe("n_routed_experts", "num_local_experts", "num_experts") or 0


def _is_sparse(fields: Fields, index: int) -> bool:
    """Whether a layer has experts, by the fields that models use to say so."""
    if not _experts(fields):
        return False
    frequency = fields.get("moe_layer_freq")
    if isinstance(frequency, list):
        return index < len(frequency) and bool(frequency[index])
    if index < (fields.maybe("first_k_dense_replace", "num_dense_layers") or 0):
        return False
    period = fields.maybe("expert_layer_period")
    if period:
        return index % period == (fields.maybe("expert_layer_offset") or 0)
    dense = fields.get("mlp_only_layers")
    if isinstance(dense, list) and index in dense:
        return False
    step = fields.maybe("decoder_sparse_step", "interleave_moe_layer_step") or 1
    return (index + 1) % step == 0 and index % (frequency if isinstance(frequency, int) and frequency > 0 else 1) == 0


def _mlp(fields: Fields, traits: Traits) -> Mlp:
    bias = fields.flag("mlp_bias", default=bool(traits.mlp_bias))
    width = fields.need("intermediate_size_mlp", "intermediate_size", "ffn_hidden_size", "n_inner", "block_ff_dim")
    step, scale = fields.maybe("block_multiple_of"), fields.get("block_ffn_dim_multiplier")
    if step and fields.flag("block_auto_adjust_ff_dim"):
        # LFM 2 gives the width of an ungated layer. Source: vLLM model_executor/models/lfm2.py, Lfm2MLP.
        width = int(2 * width / 3 * (scale if isinstance(scale, int | float) and 0 < scale < 2**16 else 1))
        width = -(-width // step) * step
    return Mlp(
        intermediate=width,
        gated=traits.gated,
        bias=bias,
    )


def _moe(fields: Fields, traits: Traits, index: int) -> Moe:
    width = fields.need("moe_intermediate_size", "intermediate_size")
    shared = fields.maybe(
        "shared_expert_intermediate_size", "moe_shared_expert_intermediate_size", "shared_intermediate_size"
    )
    number = fields.maybe("n_shared_experts", "num_shared_experts") or 0
    if shared is None:
        # Llama 4's shared expert has no field of its own.
        shared = number * width if number else width if fields.get("intermediate_size_mlp") else 0
    bias = fields.flag("mlp_bias", default=bool(traits.mlp_bias))
    return Moe(
        experts=_experts(fields),
        active=fields.maybe("num_experts_per_tok", "num_experts_per_token", "experts_per_token", "top_k_experts"),
        intermediate=width,
        shared_intermediate=shared,
        shared_gate=traits.shared_gate and shared > 0,
        gated=traits.gated,
        bias=bias,
        router_bias=bias or fields.get("scoring_func") == "sigmoid",
        latent=fields.maybe("moe_latent_size"),
        dense=_mlp(fields, traits) if fields.flag("enable_moe_block") else None,
    )
