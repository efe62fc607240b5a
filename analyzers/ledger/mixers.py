"""What mixes the tokens in each layer: attention of some span, or a recurrent state."""

from oomctl.analyzers.ledger.architectures import Traits
from oomctl.analyzers.ledger.fields import Fields
from oomctl.analyzers.ledger.shape import Attention, Mla, State
from oomctl.schemas.errors import OomctlError

_STATE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
_PATTERN = {"M": "mamba_only", "*": "attention_only", "-": "mlp_only", "E": "moe_only"}
_LISTED = {
    "full_attention": "full_attention",
    "attention": "full_attention",
    "deepseek_sparse_attention": "full_attention",
    "sliding_attention": "sliding_attention",
    "chunked_attention": "chunked_attention",
    "linear_attention": "linear_attention",
    "mamba": "mamba",
}
_HALVES = {"mamba": "mamba_only", "attention": "attention_only", "mlp": "mlp_only", "moe": "moe_only"}


def attention_kinds(fields: Fields, count: int, architecture: str) -> list[str]:
    """The kind of each layer, from whichever field tells.

    Returns:
        One of full_attention, sliding_attention, chunked_attention, linear_attention, kda, mamba, or of the kinds that
        end in `_only` (a layer without the other half), per layer.
    """
    pattern = fields.get("hybrid_override_pattern")
    if isinstance(pattern, str):
        if set(pattern) - set(_PATTERN):
            raise OomctlError(f"hybrid_override_pattern has letters that are not known ({fields.where})", "known: M E * -")
        return [_PATTERN[letter] for letter in pattern]
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
    if kind == "linear_attention":
        return _gated_delta_net(fields)
    if kind == "kda":
        return _kimi_delta(fields)
    if kind in ("mamba", "mamba_only"):
        return _mamba2(fields)
    if fields.get("kv_lora_rank"):
        return _mla(fields)
    return _attention(fields, traits, kind)


def _attention(fields: Fields, traits: Traits, kind: str) -> Attention:
    sliding = kind == "sliding_attention"
    # Some models give their windowed or their global layers heads of their own.
    heads = (fields.maybe("swa_num_attention_heads") if sliding else None) or fields.need("num_attention_heads", "n_head")
    own_kv = fields.maybe("swa_num_key_value_heads") if sliding else fields.maybe("num_global_key_value_heads")
    own_dim = fields.maybe("swa_head_dim") if sliding else fields.maybe("global_head_dim")
    dim = own_dim or fields.maybe("head_dim", "attention_head_dim") or fields.need("hidden_size", "n_embd") // heads
    value = (
        (fields.maybe("swa_v_head_dim") if sliding else None) or (None if own_dim else fields.maybe("v_head_dim")) or dim
    )
    bias = fields.get("attention_bias", "qkv_bias")
    return Attention(
        heads=heads,
        kv_heads=own_kv or fields.maybe("num_key_value_heads", "multi_query_group_num", "n_head_kv") or heads,
        head_dim=dim,
        value_dim=value,
        qkv_bias=bool(traits.qkv_bias) if bias is None else bool(bias),
        output_bias=bool(traits.output_bias) if bias is None or not traits.output_bias else bool(bias),
        qk_norm=traits.qk_norm or fields.flag("use_qk_norm"),
        gated=traits.attention_gate and fields.flag("attn_output_gate", default=True),
        window=window_of(fields) if sliding else None,
        chunk=fields.maybe("attention_chunk_size") if kind == "chunked_attention" else None,
    )


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


def _state_bytes(fields: Fields, *names: str, default: int | None = None) -> int | None:
    value = fields.get(*names)
    if value is None:
        return default
    name = str(value).removeprefix("torch.")
    if name not in _STATE_BYTES:
        raise OomctlError(f'{names[0]} "{name[:40]}" is not known ({fields.where})', f"known: {', '.join(_STATE_BYTES)}")
    return _STATE_BYTES[name]


def _gated_delta_net(fields: Fields) -> State:
    """Gated delta net: conv of 2 key and 1 value streams, a state of value heads x key x value dims."""
    hidden = fields.need("hidden_size")
    keys = fields.need("linear_num_key_heads") * fields.need("linear_key_head_dim")
    value_heads = fields.need("linear_num_value_heads")
    values = value_heads * fields.need("linear_value_head_dim")
    kernel = fields.need("linear_conv_kernel_dim")
    return State(
        kind="gated_delta_net",
        conv_channels=2 * keys + values,
        conv_kernel=kernel,
        state_elements=values * fields.need("linear_key_head_dim"),
        state_bytes=_state_bytes(fields, "mamba_ssm_dtype"),
        weights=(
            ("linear_attn.in_proj_qkv", hidden, 2 * keys + values, "column"),
            ("linear_attn.in_proj_z", hidden, values, "column"),
            ("linear_attn.in_proj_ba", hidden, 2 * value_heads, "column"),
            ("linear_attn.out_proj", values, hidden, "row"),
        ),
        small_elements=(2 * keys + values) * kernel + 2 * value_heads + fields.need("linear_value_head_dim"),
    )


def _kimi_delta(fields: Fields) -> State:
    """Kimi delta attention: three short convolutions, a square state per head."""
    linear = fields.object("linear_attn_config")
    hidden, heads, dim = fields.need("hidden_size"), linear.need("num_heads"), linear.need("head_dim")
    kernel = linear.need("short_conv_kernel_size")
    wide = heads * dim
    return State(
        kind="kda",
        conv_channels=3 * wide,
        conv_kernel=kernel,
        state_elements=wide * dim,
        state_bytes=4,
        weights=(
            *((f"self_attn.{name}_proj", hidden, wide, "column") for name in "qkv"),
            ("self_attn.f_a_proj", hidden, dim, "replicated"),
            ("self_attn.f_b_proj", dim, wide, "column"),
            ("self_attn.b_proj", hidden, heads, "column"),
            ("self_attn.g_a_proj", hidden, dim, "replicated"),
            ("self_attn.g_b_proj", dim, wide, "column"),
            ("self_attn.o_proj", wide, hidden, "row"),
        ),
        small_elements=3 * wide * kernel + wide + heads + dim,
    )


def _mamba2(fields: Fields) -> State:
    """Mamba 2: conv of the inner width and both group states, a state of heads x head dim x state size."""
    hidden = fields.need("hidden_size")
    heads, dim = fields.need("mamba_num_heads", "mamba_n_heads"), fields.need("mamba_head_dim", "mamba_d_head")
    groups = fields.need("n_groups", "mamba_n_groups")
    size = fields.need("ssm_state_size", "mamba_d_state")
    kernel = fields.need("conv_kernel", "mamba_d_conv")
    inner = heads * dim
    return State(
        kind="mamba2",
        conv_channels=inner + 2 * groups * size,
        conv_kernel=kernel,
        state_elements=inner * size,
        state_bytes=_state_bytes(fields, "mamba_ssm_cache_dtype", "mamba_ssm_dtype"),
        weights=(
            ("mixer.in_proj", hidden, 2 * inner + 2 * groups * size + heads, "column"),
            ("mixer.out_proj", inner, hidden, "row"),
        ),
        small_elements=(inner + 2 * groups * size) * (kernel + 1) + 3 * heads + inner,
    )
