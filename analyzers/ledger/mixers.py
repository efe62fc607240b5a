"""What mixes the tokens in each layer: attention of some span, or a recurrent state."""

from typing import Any

from oomctl.analyzers.ledger.architectures import Traits
from oomctl.analyzers.ledger.fields import Fields
from oomctl.analyzers.ledger.recurrent import RECURRENT, recurrent
from oomctl.analyzers.ledger.shape import Attention, Mla, State
from oomctl.schemas.errors import OomctlError

_PATTERN = {"M": "mamba_only", "*": "attention_only", "-": "mlp_only", "E": "moe_only"}
_LISTED = {
    "full_attention": "full_attention",
    "attention": "full_attention",
    "deepseek_sparse_attention": "full_attention",
    "sliding_attention": "sliding_attention",
    "chunked_attention": "chunked_attention",
    "linear_attention": "linear_attention",
    "mamba": "mamba",
    "conv": "short_conv",
}
_HALVES = {"mamba": "mamba_only", "attention": "attention_only", "mlp": "mlp_only", "moe": "moe_only"}


def attention_kinds(fields: Fields, count: int, architecture: str) -> list[str]:
    """The kind of each layer, from whichever field tells.

    Returns:
        One of full_attention, sliding_attention, chunked_attention, linear_attention, lightning, kda, mamba, short_conv,
        parallel (attention and a Mamba beside it), or of the kinds that end in `_only` (a layer without the other half),
        per layer.
    """
    if fields.get("state_size") and not fields.get("num_attention_heads"):
        return ["mamba_only"] * count
    if fields.get("mamba_d_ssm"):
        return ["parallel"] * count
    attending = fields.get("attn_layer_indices")
    if isinstance(attending, list):
        return ["full_attention" if index in attending else "mamba" for index in range(count)]
    flags = fields.numbers("attn_type_list")
    if flags:
        return ["full_attention" if flag else "lightning" for flag in flags[:count]]
    letters = fields.get("hybrid_override_pattern")
    if isinstance(letters, str):
        if set(letters) - set(_PATTERN):
            raise OomctlError(f"hybrid_override_pattern has letters that are not known ({fields.where})", "known: M E * -")
        return [_PATTERN[letter] for letter in letters]
    listed = fields.words("layer_types") or fields.words("layers_block_type")
    if listed:
        # Where feed-forward layers are listed too, every layer is one half.
        known = _HALVES if {"mlp", "moe"} & set(listed) else _LISTED
        unknown = set(listed) - set(known)
        if unknown:
            where = f"({fields.where})"
            raise OomctlError(f'layer type "{min(unknown)[:40]}" is not known {where}', f"known: {', '.join(known)}")
        if len(listed) < count:
            raise OomctlError(f"layer_types names {len(listed)} of {count} layers ({fields.where})")
        return [known[kind] for kind in listed[:count]]
    period = fields.maybe("attn_layer_period")
    if period:
        offset = fields.maybe("attn_layer_offset") or 0
        return ["full_attention" if index % period == offset else "mamba" for index in range(count)]
    linear = fields.object("linear_attn_config")
    if linear:
        full = linear.get("full_attn_layers") or []
        return ["full_attention" if index + 1 in full else "kda" for index in range(count)]
    hybrid = fields.get("hybrid_layer_pattern")
    if isinstance(hybrid, list) and len(hybrid) >= count:
        return ["sliding_attention" if flag else "full_attention" for flag in hybrid[:count]]
    interval = fields.maybe("full_attention_interval")
    if interval and fields.get("linear_num_value_heads"):
        return ["full_attention" if (index + 1) % interval == 0 else "linear_attention" for index in range(count)]
    if fields.get("attention_chunk_size") and fields.get("interleave_moe_layer_step"):
        return ["full_attention" if (index + 1) % 4 == 0 else "chunked_attention" for index in range(count)]
    if not window_of(fields):
        return ["full_attention"] * count
    pattern = fields.get("sliding_window_pattern")
    if isinstance(pattern, str) and set(pattern) == {"L", "G"}:
        # Of EXAONE 4: local and global layers in turn, and the last one global.
        kinds = [pattern[index % len(pattern)] for index in range(count - 1)] + ["G"]
        return ["full_attention" if kind == "G" else "sliding_attention" for kind in kinds]
    step = fields.maybe("sliding_window_pattern") or {"Gemma2ForCausalLM": 2}.get(architecture)
    if step is None and architecture.startswith("Gemma3"):
        step = 6
    if step:
        return ["full_attention" if (index + 1) % step == 0 else "sliding_attention" for index in range(count)]
    return ["sliding_attention"] * count


def window_of(fields: Fields) -> int | None:
    """The window in tokens, unless the config has one and says that it is not used."""
    return (
        fields.maybe("sliding_window", "sliding_window_size") if fields.flag("use_sliding_window", default=True) else None
    )


def mixer(fields: Fields, traits: Traits, kind: str) -> Attention | Mla | State:
    """The mixer of a layer of this kind."""
    if kind in RECURRENT:
        return recurrent(fields, kind)
    if fields.get("kv_lora_rank"):
        return _mla(fields)
    return _attention(fields, traits, kind)


def _attention(fields: Fields, traits: Traits, kind: str) -> Attention:
    sliding = kind == "sliding_attention"
    # Some models give their windowed or their global layers heads of their own.
    heads = (fields.maybe("swa_num_attention_heads") if sliding else None) or fields.need("num_attention_heads")
    own_kv = fields.maybe("swa_num_key_value_heads") if sliding else fields.maybe("num_global_key_value_heads")
    own_dim = fields.maybe("swa_head_dim") if sliding else fields.maybe("global_head_dim")
    dim = own_dim or fields.maybe("head_dim") or fields.need("hidden_size") // heads
    value = (
        (fields.maybe("swa_v_head_dim") if sliding else None) or (None if own_dim else fields.maybe("v_head_dim")) or dim
    )
    # DeepSeek V4's: one head of keys that are the values, and outputs through fewer dimensions, group by group.
    ranked = fields.maybe("o_lora_rank")
    return Attention(
        heads=heads,
        kv_heads=own_kv or _kv_heads(fields, heads),
        head_dim=dim,
        value_dim=value,
        **_added(fields, traits),
        gated=traits.attention_gate and fields.flag("attn_output_gate", default=True),
        values="copied" if not sliding and fields.flag("attention_k_eq_v") else "keys" if ranked else "own",
        query_rank=fields.maybe("q_lora_rank") if ranked else None,
        output_rank=ranked,
        output_groups=fields.maybe("o_groups") or 1,
        window=window_of(fields) if sliding else None,
        chunk=fields.maybe("attention_chunk_size") if kind == "chunked_attention" else None,
    )


def grouped(fields: Fields, traits: Traits, kv_heads: int) -> Attention:
    """Attention of a layer that has its own number of KV heads."""
    heads = fields.need("num_attention_heads")
    dim = fields.maybe("head_dim") or fields.need("hidden_size") // heads
    return Attention(heads=heads, kv_heads=kv_heads, head_dim=dim, value_dim=dim, **_added(fields, traits))


def _kv_heads(fields: Fields, heads: int) -> int:
    if fields.flag("multi_query") and not fields.flag("new_decoder_architecture"):
        return 1
    return fields.maybe("num_key_value_heads") or heads


def _added(fields: Fields, traits: Traits) -> dict[str, Any]:
    """Biases and norms of a layer's attention."""
    names = ("attention_bias", "qkv_bias", "add_qkv_bias", "use_qkv_bias", "use_bias", "bias")
    bias = fields.flag(*names, default=traits.qkv_bias)
    norm = traits.qk_norm or (traits.named_qk_norm if fields.flag("use_qk_norm", "qk_layernorm", "qk_norm") else "")
    output = fields.flag("attention_out_bias", default=traits.output_bias and bias)
    return {"qkv_bias": bias, "output_bias": output, "qk_norm": norm}


def _mla(fields: Fields) -> Mla:
    return Mla(
        heads=fields.need("num_attention_heads"),
        query_rank=fields.maybe("q_lora_rank") or None,
        kv_rank=fields.need("kv_lora_rank"),
        nope_dim=fields.need("qk_nope_head_dim"),
        rope_dim=fields.need("qk_rope_head_dim"),
        value_dim=fields.need("v_head_dim"),
        index_heads=fields.maybe("index_n_heads") or 0,
        index_dim=fields.maybe("index_head_dim") or 0,
    )
